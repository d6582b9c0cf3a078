#include "engine/engine.h"

#include <utility>

#include "engine/llama/llama_model.h"
#include "engine/llama/step_watch.h"

namespace svc {

Engine::Engine(std::unique_ptr<LlamaModel> model, ModelInfo info)
    : model_(std::move(model)), info_(std::move(info)) {}

Engine::~Engine() = default;

Result<std::vector<Token>> Engine::Tokenize(const std::string& text, bool add_special,
                                            bool parse_special) const {
  return model_->Tokenize(text, add_special, parse_special);
}

std::vector<std::string> Engine::Pieces(const std::vector<Token>& tokens) const {
  std::vector<std::string> pieces;
  pieces.reserve(tokens.size());
  for (const Token token : tokens) pieces.push_back(model_->Piece(token, /*special=*/true));
  return pieces;
}

std::string Engine::Detokenize(const std::vector<Token>& tokens, bool special) const {
  return model_->Detokenize(tokens, special);
}

EngineStats Engine::stats() const {
  EngineStats stats = WorkerStats();
  stats.operations = StepWatch::operations();
  return stats;
}

}  // namespace svc
