// Prompts that are longer than the context, cut to it for callers who asked for that.
//
// A chat loses whole turns, the oldest first: a turn begins with a message of the user, and what
// stays begins with one. System messages stay. Where the last turn alone is too long, the end of
// its question goes: what is to be done with a long text mostly stands before it. A raw prompt
// loses its beginning but for BOS, an input to embed its end but for the token that closes it.
//
// Here and not in JavaScript, since what a message takes only the model's own template and
// tokenizer tell. Cut prompts leave room for the answer, or the next token would end it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/request.h"
#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/llama_model.h"

namespace svc {

// In tokens.
struct PromptBudget {
  std::uint32_t whole = 0;  // a prompt of so many is not cut
  std::uint32_t cut = 0;    // a longer one is cut to this
};

// With room for `max_tokens`, but at most for half of the context; for a quarter, if there is no
// such bound and the prompt has to be cut anyway.
PromptBudget BudgetOf(std::uint32_t context_length, std::optional<std::uint32_t> max_tokens);

struct CutPrompt {
  ChatPrompt prompt;
  std::uint32_t truncated_tokens = 0;  // 0: it was left whole
};

// kContextOverflow if the system messages leave no room for anything of the last turn, or there is
// no message of a user. Other errors as ChatRenderer::RenderTokens.
Result<CutPrompt> CutChat(const ChatRenderer& chat, const std::vector<ChatMessage>& messages,
                          PromptBudget budget);

// These return how many went.
std::uint32_t CutRawPrompt(const LlamaModel& model, PromptBudget budget,
                           std::vector<Token>* tokens);
std::uint32_t CutInput(const LlamaModel& model, std::uint32_t max_tokens,
                       std::vector<Token>* tokens);

}  // namespace svc
