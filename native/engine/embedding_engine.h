// Engine for a model that makes embeddings, or ranks: a score is an embedding of one number. Such a
// model has no text decoder, no chat template and no prefix cache, so this engine uses none of the
// text engine's parts.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/llama/llama_model.h"

namespace svc {

// REQUIRES: MakesEmbeddings. Errors: kOutOfMemory, kModelInvalid (also for a file that should rank
// and has no classifier head).
Result<std::unique_ptr<Engine>> NewEmbeddingEngine(std::unique_ptr<LlamaModel> model,
                                                   const LoadOptions& options, OutputSink sink);

}  // namespace svc
