#include "engine/llama/prompt/rank_prompt.h"

#include <utility>

namespace svc {
namespace {

constexpr std::string_view kQuery = "{query}";
constexpr std::string_view kDocument = "{document}";

std::optional<std::string> TemplateOf(const LlamaModel& model) {
  const char* text = llama_model_chat_template(model.get(), "rerank");
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

// Fills in both placeholders wherever they stand, in one pass.
std::string FillIn(std::string_view form, std::string_view query, std::string_view document) {
  std::string filled;
  while (!form.empty()) {
    if (form.starts_with(kQuery)) {
      filled += query;
      form.remove_prefix(kQuery.size());
    } else if (form.starts_with(kDocument)) {
      filled += document;
      form.remove_prefix(kDocument.size());
    } else {
      filled += form.front();
      form.remove_prefix(1);
    }
  }
  return filled;
}

// Part of a text from its beginning on.
struct Beginning {
  std::string_view text;
  std::vector<Token> tokens;
  std::uint32_t truncated_tokens = 0;
};

// Returns at most `length` bytes from the beginning of `text`, whole characters only.
std::string_view WholeCharacters(std::string_view text, std::size_t length) {
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  return text.substr(0, length);
}

// Binary search for the longest prefix of `text` with at most max_tokens tokens; empty if there is
// none. Errors: those of `tokenize`.
template <typename F>
Result<Beginning> LongestWithin(std::string_view text, std::uint32_t max_tokens, F tokenize) {
  SVC_ASSIGN_OR_RETURN(std::vector<Token> whole, tokenize(text));
  const std::size_t size = whole.size();
  if (size <= max_tokens) return Beginning{.text = text, .tokens = std::move(whole)};

  std::string_view best = text.substr(0, 0);
  SVC_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(best));
  std::size_t fitting = 0;
  for (std::size_t longer = text.size(); longer - fitting > 1;) {
    const std::size_t middle = fitting + (longer - fitting) / 2;
    const std::string_view part = WholeCharacters(text, middle);
    SVC_ASSIGN_OR_RETURN(std::vector<Token> some, tokenize(part));
    if (some.size() <= max_tokens) {
      best = part;
      tokens = std::move(some);
      fitting = middle;
    } else {
      longer = middle;
    }
  }
  const auto truncated = static_cast<std::uint32_t>(size - tokens.size());
  return Beginning{.text = best, .tokens = std::move(tokens), .truncated_tokens = truncated};
}

}  // namespace

RankPrompt::RankPrompt(const LlamaModel& model)
    : model_(model), template_(TemplateOf(model)), special_text_(model) {}

Result<RankQuery> RankPrompt::Read(std::string query) const {
  if (template_) return RankQuery{.text = std::move(query), .tokens = {}};
  SVC_ASSIGN_OR_RETURN(std::vector<Token> tokens, Plain(query));
  return RankQuery{.text = std::move(query), .tokens = std::move(tokens)};
}

Result<std::vector<Token>> RankPrompt::Tokens(const RankQuery& query,
                                              std::string_view document) const {
  if (template_) return Fill(query.text, document);
  SVC_ASSIGN_OR_RETURN(const std::vector<Token> read, Plain(document));
  const llama_vocab* vocab = model_.vocab();
  Token end = llama_vocab_eos(vocab);
  if (end == LLAMA_TOKEN_NULL) end = llama_vocab_sep(vocab);

  std::vector<Token> tokens;
  const auto add = [&tokens](bool is_wanted, Token token) {
    if (is_wanted && token != LLAMA_TOKEN_NULL) tokens.push_back(token);
  };
  add(llama_vocab_get_add_bos(vocab), llama_vocab_bos(vocab));
  tokens.insert(tokens.end(), query.tokens.begin(), query.tokens.end());
  add(llama_vocab_get_add_eos(vocab), end);
  add(llama_vocab_get_add_sep(vocab), llama_vocab_sep(vocab));
  tokens.insert(tokens.end(), read.begin(), read.end());
  add(llama_vocab_get_add_eos(vocab), end);
  return tokens;
}

Result<RankInput> RankPrompt::Cut(const RankQuery& query, std::string_view document,
                                  Limits limits) const {
  std::uint32_t truncated = 0;
  if (limits.max_document_tokens) {
    const auto plain = [this](std::string_view text) { return Plain(text); };
    SVC_ASSIGN_OR_RETURN(const Beginning part,
                         LongestWithin(document, *limits.max_document_tokens, plain));
    document = part.text;
    truncated = part.truncated_tokens;
  }
  const auto with_query = [&](std::string_view text) { return Tokens(query, text); };
  SVC_ASSIGN_OR_RETURN(Beginning part, LongestWithin(document, limits.max_tokens, with_query));
  return RankInput{.tokens = std::move(part.tokens),
                   .truncated_tokens = truncated + part.truncated_tokens};
}

Result<std::vector<Token>> RankPrompt::Fill(std::string_view query,
                                            std::string_view document) const {
  if (!special_text_.NeedsGuard(query) && !special_text_.NeedsGuard(document)) {
    return model_.Tokenize(FillIn(*template_, query, document), /*add_special=*/false,
                           /*parse_special=*/true);
  }
  const std::string guard = SpecialText::ChooseGuard({query, document});
  if (guard.empty()) {
    return Status(StatusCode::kInvalidRequest,
                  "the query and the document contain all of U+10FF00 to U+10FFFF, one of which is "
                  "needed to escape control tokens");
  }
  const std::string filled =
      FillIn(*template_, special_text_.Guard(query, guard), special_text_.Guard(document, guard));
  SVC_ASSIGN_OR_RETURN(std::vector<Token> tokens, special_text_.Tokenize(filled, guard));
  // The template has all special tokens that it needs.
  if (llama_vocab_get_add_bos(model_.vocab())) tokens.erase(tokens.begin());
  if (llama_vocab_get_add_eos(model_.vocab())) tokens.pop_back();
  return tokens;
}

Result<std::vector<Token>> RankPrompt::Plain(std::string_view text) const {
  return model_.Tokenize(std::string(text), /*add_special=*/false, /*parse_special=*/false);
}

}  // namespace svc
