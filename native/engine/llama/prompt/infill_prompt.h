// Prompts with which a model fills in the middle of a text, from the fill-in-the-middle tokens of
// its vocabulary.
#pragma once

#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/llama/llama_model.h"
#include "engine/types/request.h"

namespace svc {

// Returns the tokens of the prompt: other files first, if the vocabulary has tokens for them, then
// the text before the gap, that after it, and `beginning`, with which the answer begins. As
// llama-server's /infill, but nothing is cut. Error: kInvalidRequest, if the vocabulary has no such
// tokens or cannot represent a text.
Result<std::vector<Token>> InfillTokens(const LlamaModel& model, const std::string& beginning,
                                        const Infill& infill);

}  // namespace svc
