// The Engine of a model that makes embeddings. Such a model is trained for nothing else: it has no
// text decoder, no chat and no cache to share, and its engine none of a generating engine's parts.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/llama/llama_model.h"

namespace svc {

// REQUIRES: MakesEmbeddings. Errors: kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Engine>> NewEmbeddingEngine(std::unique_ptr<LlamaModel> model,
                                                   const LoadOptions& options, OutputSink sink);

}  // namespace svc
