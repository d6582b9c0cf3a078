#include "engine/engine.h"

#include <utility>

#include "engine/embedding_engine.h"
#include "engine/llama/llama_encoder.h"
#include "engine/llama/llama_model.h"
#include "engine/text_engine.h"

namespace svc {

Result<std::unique_ptr<Engine>> Engine::Load(const LoadOptions& options, OutputSink sink) {
  Result<std::unique_ptr<LlamaModel>> model = LlamaModel::Load(options);
  if (!model.ok()) return model.status();
  if (MakesEmbeddings(*model.value())) {
    return NewEmbeddingEngine(std::move(model.value()), options, std::move(sink));
  }
  return NewTextEngine(std::move(model.value()), options, std::move(sink));
}

Engine::Engine(std::unique_ptr<LlamaModel> model, ModelInfo info)
    : model_(std::move(model)), info_(std::move(info)) {}

Engine::~Engine() = default;

Result<std::vector<Token>> Engine::Tokenize(const std::string& text, bool add_special,
                                            bool parse_special) const {
  return model_->Tokenize(text, add_special, parse_special);
}

std::string Engine::Detokenize(const std::vector<Token>& tokens, bool special) const {
  return model_->Detokenize(tokens, special);
}

}  // namespace svc
