// Engine for a model that ranks documents by a query.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/llama/llama_model.h"

namespace svc {

// REQUIRES: Ranks. Errors: kOutOfMemory, kModelInvalid (also for a file that should rank and has no
// classifier head).
Result<std::unique_ptr<Engine>> NewRankingEngine(std::unique_ptr<LlamaModel> model,
                                                 const LoadOptions& options, OutputSink sink);

}  // namespace svc
