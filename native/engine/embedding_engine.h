// Engine for an embedding model. Such a model has no text decoder, no chat template and no prefix
// cache, so this engine uses none of the text engine's parts.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/llama/llama_model.h"

namespace svc {

// REQUIRES: MakesEmbeddings. Errors: kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Engine>> NewEmbeddingEngine(std::unique_ptr<LlamaModel> model,
                                                   const LoadOptions& options, OutputSink sink);

}  // namespace svc
