// A loaded GGUF: weights, vocabulary, metadata. Immutable once loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/request.h"
#include "llama.h"

namespace svc {

// Owner: the engine; contexts made from it must be freed first. All methods may be called from any
// thread at the same time.
class LlamaModel {
 public:
  // Loads on the calling thread. Errors: kModelInvalid, kOutOfMemory, kCancelled.
  static Result<std::unique_ptr<LlamaModel>> Load(const LoadOptions& options);
  // The same without the weights: contexts made from it allocate nothing and can compute nothing.
  static Result<std::unique_ptr<LlamaModel>> LoadMetadata(const LoadOptions& options);

  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
  };
  using ModelPtr = std::unique_ptr<llama_model, Free>;

  // `device`: the name of the one its layers are on.
  LlamaModel(ModelPtr model, std::string device);

  llama_model* get() const { return model_.get(); }
  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }

  const std::string& device() const { return device_; }
  // It keeps a state for each sequence, in some layers or all.
  bool is_recurrent() const {
    return llama_model_is_recurrent(get()) || llama_model_is_hybrid(get());
  }

  // All that the file says; context_length, threads and has_chat_template are left to others.
  ModelInfo Describe() const;

  // kContextOverflow with both numbers: a prompt of at least `least` tokens leaves no room for one
  // to generate.
  static Status TooLong(std::size_t least, std::uint32_t context_length);

  // kInvalidRequest if the vocabulary cannot take the text. kContextOverflow with both numbers if
  // it is plain from the length of the text that its tokens, and one to generate, are more than
  // `context_length` (0: any number will do); a mebibyte takes a second to tokenize.
  Result<std::vector<Token>> Tokenize(const std::string& text, bool add_special, bool parse_special,
                                      std::uint32_t context_length = 0) const;
  std::string Detokenize(const std::vector<Token>& tokens, bool special) const;
  // The bytes that one token adds to a text. special: control tokens show theirs.
  std::string Piece(Token token, bool special) const;

 private:
  static Result<std::unique_ptr<LlamaModel>> LoadFile(const LoadOptions& options, bool no_alloc);

  ModelPtr model_;
  std::string device_;
  std::size_t longest_piece_;  // bytes of a text that one token can stand for; 0: no bound is known
};

}  // namespace svc
