// Engine for a model that generates text.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/llama/llama_model.h"

namespace svc {

// Errors: kOutOfMemory, kModelInvalid, kCancelled.
Result<std::unique_ptr<Engine>> NewTextEngine(std::unique_ptr<LlamaModel> model,
                                              const LoadOptions& options, OutputSink sink);

}  // namespace svc
