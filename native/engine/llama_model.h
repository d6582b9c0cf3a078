// A loaded GGUF: weights, vocabulary, metadata. Immutable once loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "llama.h"

namespace svc {

// Owner: the engine; contexts made from it must be freed first. All methods may be called from any
// thread at the same time.
class LlamaModel {
 public:
  // Loads on the calling thread. Errors: kModelInvalid, kOutOfMemory, kCancelled.
  static Result<std::unique_ptr<LlamaModel>> Load(const LoadOptions& options);

  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
  };
  using ModelPtr = std::unique_ptr<llama_model, Free>;

  // `device`: the name of the one its layers are on.
  LlamaModel(ModelPtr model, std::string device)
      : model_(std::move(model)), device_(std::move(device)) {}

  llama_model* get() const { return model_.get(); }
  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }

  // All that the file says; context_length, threads and has_chat_template are left to others.
  ModelInfo Describe() const;

  // kInvalidRequest if the vocabulary cannot take the text.
  Result<std::vector<Token>> Tokenize(const std::string& text, bool add_special,
                                      bool parse_special) const;
  std::string Detokenize(const std::vector<Token>& tokens, bool special) const;
  // The bytes that one token adds to a text. special: control tokens show theirs.
  std::string Piece(Token token, bool special) const;

 private:
  ModelPtr model_;
  std::string device_;
};

}  // namespace svc
