// A loaded GGUF file: weights, vocabulary, metadata. Immutable once loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/base/word_split.h"
#include "engine/types/load_options.h"
#include "engine/types/model_info.h"
#include "llama-cpp.h"

namespace svc {

// Returns a value of the file's metadata as text, its first 255 bytes. Empty: there is none.
std::string ReadMetadata(const llama_model* model, const std::string& key);

// Owner: the engine. Contexts made from it must be freed first. Any thread may call any method at
// any time.
class LlamaModel {
 public:
  // Loads on the calling thread. Errors: kModelInvalid, kConfigInvalid, kOutOfMemory, kCancelled,
  // kEngineUnavailable (no CPU module is loaded).
  static Result<std::unique_ptr<LlamaModel>> Load(const LoadOptions& options);
  // Loads without the weights: contexts made from it allocate nothing and cannot compute. Errors as
  // Load, except kEngineUnavailable.
  static Result<std::unique_ptr<LlamaModel>> LoadMetadata(const LoadOptions& options);

  // `device`: names of the devices that have the layers.
  LlamaModel(llama_model_ptr model, std::string device);

  llama_model* get() const { return model_.get(); }
  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }

  const std::string& device() const { return device_; }
  // True if some or all layers keep a recurrent state for each sequence.
  bool is_recurrent() const {
    return llama_model_is_recurrent(get()) || llama_model_is_hybrid(get());
  }

  // True for a mixture of experts.
  bool has_experts() const;

  // Number of KV-cache cells above which libllama encodes positions with other factors (LongRoPE):
  // a state computed with fewer cells does not fit a larger cache. Absent: it never does.
  std::optional<std::uint32_t> turning_length() const;

  // Describes the file. Leaves context_length and threads unset.
  ModelInfo Describe() const;

  // Returns kContextOverflow for a prompt that leaves no room for a generated token. Its message
  // names both numbers.
  static Status TooLong(const Overflow& overflow);
  // Returns kContextOverflow if the length of a text alone, in bytes, shows that its tokens plus
  // one exceed the context; 0: no limit.
  Status CheckLength(std::size_t length, std::uint32_t context_length) const;

  // Tokenizes. context_length: for CheckLength, because tokenizing a mebibyte takes a second.
  // Cannot be interrupted, so the text's size and longest word (word_split.h) are bounded. Errors:
  // kInvalidRequest (a bound is exceeded, or the vocabulary cannot represent the text),
  // kContextOverflow (the message names both numbers).
  Result<std::vector<Token>> Tokenize(const std::string& text, bool add_special, bool parse_special,
                                      std::uint32_t context_length = 0) const;
  // As Engine::Detokenize.
  std::string Detokenize(const std::vector<Token>& tokens, bool special) const;
  // Bytes that a token adds to a text. special: control tokens are written as text instead of
  // adding none.
  std::string Piece(Token token, bool special) const;

 private:
  // Most bytes of a text. Takes a few seconds.
  static constexpr std::size_t kMaxTextBytes = std::size_t{8} << 20U;

  Result<std::vector<Token>> TokenizeHere(const std::string& text, bool add_special,
                                          bool parse_special) const;
  static Result<std::unique_ptr<LlamaModel>> LoadFile(const LoadOptions& options, bool no_alloc);

  llama_model_ptr model_;
  std::string device_;
  std::size_t longest_piece_;  // maximum bytes of text per token; 0: unknown
  WordSplit word_split_ = WordSplit::kIterative;
};

}  // namespace svc
