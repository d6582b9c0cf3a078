// The Engine of a model that makes embeddings. Such a model is trained for nothing else: it has no
// text decoder, no chat and no cache to share, and its engine none of a generating engine's parts.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/llama_model.h"

namespace svc {

// REQUIRES: MakesEmbeddings. Errors: kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Engine>> NewEmbeddingEngine(std::unique_ptr<LlamaModel> model,
                                                   const LoadOptions& options, OutputSink sink);

// Of one input. Beyond what it was trained for (0: not known) a model has no positions: some end
// the process over it.
std::uint32_t MaxInputTokens(const LoadOptions& options, std::uint32_t trained);

}  // namespace svc
