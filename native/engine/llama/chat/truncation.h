// Truncates prompts that exceed the context, for requests with `truncate`.
//
// A chat loses whole turns, oldest first. A turn begins with a user message, and so does what is
// kept. System messages are kept. If the last turn alone is too long, its user message loses its
// end: instructions usually precede a long text. A raw prompt loses its beginning except BOS. An
// embedding input loses its end except the closing token.
//
// Done here and not in JavaScript, because only the model's template and tokenizer know how many
// tokens a message takes. A truncated prompt leaves room for the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/llama_model.h"
#include "engine/types/chat.h"

namespace svc {

// Token limits of a prompt.
struct PromptBudget {
  std::uint32_t whole = 0;  // prompts up to this are not truncated
  std::uint32_t cut = 0;    // longer ones are truncated to this
};

// Leaves room for `max_tokens`, at most half of the context. Without max_tokens: one token for a
// prompt that fits, a quarter of the context for one that is truncated.
PromptBudget BudgetOf(std::uint32_t context_length, std::optional<std::uint32_t> max_tokens);

struct CutPrompt {
  ChatPrompt prompt;
  std::uint32_t truncated_tokens = 0;  // 0: not truncated
};

// Errors: kContextOverflow (the system messages leave no room for any of the last turn, or there is
// no user message); others as ChatRenderer::RenderTokens.
Result<CutPrompt> CutChat(const ChatRenderer& chat, const std::vector<ChatMessage>& messages,
                          const ChatOptions& options, PromptBudget budget);

// Truncate a raw prompt, and an embedding input, in place. Return the number of tokens removed.
std::uint32_t CutRawPrompt(const LlamaModel& model, PromptBudget budget,
                           std::vector<Token>* tokens);
std::uint32_t CutInput(const LlamaModel& model, std::uint32_t max_tokens,
                       std::vector<Token>* tokens);

}  // namespace svc
