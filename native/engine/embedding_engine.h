// Engine for a model that makes embeddings.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/llama/llama_model.h"

namespace svc {

// REQUIRES: MakesEmbeddings and not Ranks. Errors: kOutOfMemory, kModelInvalid.
Result<std::unique_ptr<Engine>> NewEmbeddingEngine(std::unique_ptr<LlamaModel> model,
                                                   const LoadOptions& options, OutputSink sink);

}  // namespace svc
