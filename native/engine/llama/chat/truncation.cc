#include "engine/llama/chat/truncation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/work_limit.h"

namespace svc {
namespace {

// Precision of the search for the longest user message that fits, in bytes.
constexpr std::size_t kNearBytes = 16;

// Returns the system messages, and all messages from index `first` on.
std::vector<ChatMessage> From(const std::vector<ChatMessage>& messages, std::size_t first) {
  std::vector<ChatMessage> kept;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool stays = messages[i].role == "system" || messages[i].role == "developer";
    if (stays || i >= first) kept.push_back(messages[i]);
  }
  return kept;
}

// True if the prompt has at most `most` tokens; *prompt is set then. kContextOverflow becomes
// false; other errors are returned.
Result<bool> Fits(const ChatRenderer& chat, const std::vector<ChatMessage>& messages,
                  const ChatOptions& options, std::uint32_t most, ChatPrompt* prompt) {
  if (WorkLimit::IsExceeded()) {
    return Status(StatusCode::kInvalidRequest, "truncating the chat takes too long");
  }
  Result<ChatPrompt> rendered = chat.RenderTokens(messages, options, most + 1);
  if (!rendered.ok()) {
    if (rendered.status().code() == StatusCode::kContextOverflow) return false;
    return rendered.status();
  }
  if (rendered.value().tokens.size() > most) return false;
  *prompt = std::move(rendered.value());
  return true;
}

// Returns at most `length` bytes from the beginning of `text`, whole characters only.
std::string Beginning(const std::string& text, std::size_t length) {
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  return text.substr(0, length);
}

// Binary search for the longest beginning of the last user message that fits. False: none does.
Result<bool> Shorten(const ChatRenderer& chat, std::vector<ChatMessage> messages,
                     const ChatOptions& options, std::uint32_t most, ChatPrompt* prompt) {
  const auto last = std::find_if(messages.rbegin(), messages.rend(),
                                 [](const ChatMessage& each) { return each.role == "user"; });
  const std::string whole = last->content;
  std::size_t fitting = 0;
  for (std::size_t longer = whole.size(); longer - fitting > kNearBytes;) {
    const std::size_t middle = fitting + (longer - fitting) / 2;
    last->content = Beginning(whole, middle);
    SVC_ASSIGN_OR_RETURN(const bool fits, Fits(chat, messages, options, most, prompt));
    (fits ? fitting : longer) = middle;
  }
  return fitting > 0;
}

}  // namespace

PromptBudget BudgetOf(std::uint32_t context_length, std::optional<std::uint32_t> max_tokens) {
  const auto leaving = [context_length](std::uint32_t room) {
    room = std::max(room, 1U);
    return context_length > room ? context_length - room : 1U;
  };
  if (!max_tokens) return {.whole = leaving(1), .cut = leaving(context_length / 4)};
  const std::uint32_t most = leaving(std::min(*max_tokens, context_length / 2));
  return {.whole = most, .cut = most};
}

Result<CutPrompt> CutChat(const ChatRenderer& chat, const std::vector<ChatMessage>& messages,
                          const ChatOptions& options, PromptBudget budget) {
  SVC_ASSIGN_OR_RETURN(ChatPrompt whole, chat.RenderTokens(messages, options));
  const std::size_t size = whole.tokens.size();
  if (size <= budget.whole) return CutPrompt{.prompt = std::move(whole)};

  std::vector<std::size_t> turns;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == "user") turns.push_back(i);
  }
  CutPrompt cut;
  bool found = false;
  // Binary search for the earliest turn that fits: fewer turns never take more tokens.
  for (std::size_t low = 0, high = turns.size(); low < high;) {
    const std::size_t middle = low + (high - low) / 2;
    SVC_ASSIGN_OR_RETURN(const bool fits, Fits(chat, From(messages, turns[middle]), options,
                                               budget.cut, &cut.prompt));
    found = found || fits;
    if (fits) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (!found && !turns.empty()) {
    SVC_ASSIGN_OR_RETURN(
        found, Shorten(chat, From(messages, turns.back()), options, budget.cut, &cut.prompt));
  }
  if (!found) {
    return Status(StatusCode::kContextOverflow,
                  "the prompt has " + std::to_string(size) +
                      " tokens, and the part that cannot be truncated exceeds the " +
                      std::to_string(budget.cut) + " that fit");
  }
  cut.truncated_tokens = static_cast<std::uint32_t>(size - cut.prompt.tokens.size());
  return cut;
}

std::uint32_t CutRawPrompt(const LlamaModel& model, PromptBudget budget,
                           std::vector<Token>* tokens) {
  if (tokens->size() <= budget.whole) return 0;
  const bool begins =
      llama_vocab_get_add_bos(model.vocab()) && tokens->front() == llama_vocab_bos(model.vocab());
  const std::size_t surplus = tokens->size() - budget.cut;
  const auto first = tokens->begin() + (begins ? 1 : 0);
  tokens->erase(first, first + static_cast<std::ptrdiff_t>(surplus));
  return static_cast<std::uint32_t>(surplus);
}

std::uint32_t CutInput(const LlamaModel& model, std::uint32_t max_tokens,
                       std::vector<Token>* tokens) {
  if (tokens->size() <= max_tokens) return 0;
  const auto surplus = static_cast<std::uint32_t>(tokens->size() - max_tokens);
  const Token last = tokens->back();
  tokens->resize(max_tokens);
  if (last == llama_vocab_eos(model.vocab()) || last == llama_vocab_sep(model.vocab())) {
    tokens->back() = last;
  }
  return surplus;
}

}  // namespace svc
