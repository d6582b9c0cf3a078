// Engine::Load: the kind of engine that the model file needs. Apart from engine.cc, which all
// kinds build on.
#include <utility>

#include "engine/embedding_engine.h"
#include "engine/engine.h"
#include "engine/llama/llama_encoder.h"
#include "engine/llama/llama_model.h"
#include "engine/ranking_engine.h"
#include "engine/text_engine.h"

namespace svc {

Result<std::unique_ptr<Engine>> Engine::Load(const LoadOptions& options, OutputSink sink) {
  SVC_ASSIGN_OR_RETURN(std::unique_ptr<LlamaModel> model, LlamaModel::Load(options));
  if (Ranks(*model)) {
    return NewRankingEngine(std::move(model), options, std::move(sink));
  }
  if (MakesEmbeddings(*model)) {
    return NewEmbeddingEngine(std::move(model), options, std::move(sink));
  }
  return NewTextEngine(std::move(model), options, std::move(sink));
}

}  // namespace svc
