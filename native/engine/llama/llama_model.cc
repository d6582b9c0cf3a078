#include "engine/llama/llama_model.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <locale>
#include <sstream>
#include <string_view>
#include <system_error>

#include "engine/base/heap.h"
#include "engine/base/mapped_pages.h"
#include "engine/llama/log_capture.h"
#include "engine/llama/placement.h"
#include "llama-ext.h"
#ifdef SVC_MATRIX_KERNELS
#include "engine/llama/cpu/cpu_kernels.h"
#include "engine/llama/cpu/interleaved_weights.h"
#endif

namespace svc {
namespace {

// Checks the file before libllama reads it, for clear error messages.
Status CheckFile(const std::string& path) {
  const auto invalid = [&](const char* what) {
    return Status(StatusCode::kModelInvalid, path + what);
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return invalid(" does not exist");
  if (std::filesystem::is_directory(status)) return invalid(" is a directory, not a GGUF file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return invalid(" cannot be read");
  std::array<char, 4> magic{};
  if (!file.read(magic.data(), magic.size()) || std::memcmp(magic.data(), "GGUF", 4) != 0) {
    return invalid(" is not a GGUF file");
  }
  return Status::Ok();
}

// Refuses models that are not decoder-only, or do not generate one token after the other.
Status CheckKind(const llama_model* model, const std::string& path) {
  if (!llama_model_has_decoder(model) || llama_model_has_encoder(model) ||
      llama_model_is_diffusion(model)) {
    return {StatusCode::kModelInvalid, path + " is not a model that generates text token by token"};
  }
  if (llama_vocab_type(llama_model_get_vocab(model)) == LLAMA_VOCAB_TYPE_NONE) {
    return {StatusCode::kModelInvalid, path + " has no vocabulary"};
  }
  return Status::Ok();
}

// Sampling defaults that the file recommends; ignores values out of range.
SamplingParams ReadSampling(const llama_model* model) {
  SamplingParams sampling;
  const auto read = [&]<typename Number>(const char* name, Number min, Number max, Number& target) {
    // Not from_chars: Apple's C++ library has it for integers only.
    std::istringstream in(ReadMetadata(model, std::string("general.sampling.") + name));
    in.imbue(std::locale::classic());
    Number value{};
    if (in >> std::noskipws >> value && value >= min && value <= max) target = value;
  };
  read("temp", 0.0F, 100.0F, sampling.temperature);
  read("top_k", 0, INT32_MAX, sampling.top_k);
  read("top_p", 0.0F, 1.0F, sampling.top_p);
  read("min_p", 0.0F, 1.0F, sampling.min_p);
  read("xtc_probability", 0.0F, 1.0F, sampling.xtc_probability);
  read("xtc_threshold", 0.0F, 1.0F, sampling.xtc_threshold);
  read("mirostat", 0, 2, sampling.mirostat);
  read("mirostat_tau", 0.0F, 100.0F, sampling.mirostat_tau);
  read("mirostat_eta", 0.0F, 1.0F, sampling.mirostat_eta);
  read("penalty_last_n", 0, 65536, sampling.repeat_last_n);
  read("penalty_repeat", 0.1F, 10.0F, sampling.repeat_penalty);
  return sampling;
}

// Names of the devices that layers go to.
std::string DeviceNames(const llama_model* model) {
  std::vector<ggml_backend_dev_t> devices(static_cast<std::size_t>(llama_model_n_devices(model)));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    devices[i] = llama_model_get_device(model, static_cast<int>(i));
  }
  return devices.empty() ? "CPU" : NamesOf(devices);
}

// True if the tokens together spell the whole text. Other kinds of vocabularies may drop
// characters, or map a whole word to the unknown token.
bool TokensCoverTheText(const llama_vocab* vocab) {
  const enum llama_vocab_type type = llama_vocab_type(vocab);
  return type == LLAMA_VOCAB_TYPE_SPM || type == LLAMA_VOCAB_TYPE_BPE;
}

struct Progress {
  const std::function<bool(float)>* callback;
  bool cancelled = false;
};

}  // namespace

std::string ReadMetadata(const llama_model* model, const std::string& key) {
  std::array<char, 256> text{};
  llama_model_meta_val_str(model, key.c_str(), text.data(), text.size());
  return text.data();
}

LlamaModel::LlamaModel(llama_model_ptr model, std::string device)
    : model_(std::move(model)), device_(std::move(device)), longest_piece_(0) {
  if (llama_vocab_type(vocab()) == LLAMA_VOCAB_TYPE_BPE) {
    word_split_ = WordSplitOf(ReadMetadata(model_.get(), "tokenizer.ggml.pre"));
  }
  if (!TokensCoverTheText(vocab())) return;
  constexpr std::size_t kCharacterBytes = 4;  // the unknown token may stand for one character
  longest_piece_ = kCharacterBytes;
  for (Token token = 0; token < llama_vocab_n_tokens(vocab()); ++token) {
    longest_piece_ = std::max(longest_piece_, Piece(token, /*special=*/true).size());
  }
}

Result<std::unique_ptr<LlamaModel>> LlamaModel::Load(const LoadOptions& options) {
  if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr) {
    return Status(StatusCode::kEngineUnavailable, "no CPU module has been loaded");
  }
  Result<std::unique_ptr<LlamaModel>> model = LoadFile(options, /*no_alloc=*/false);
  // After the load, which allocates and frees many large blocks: heaps are faster for these.
  MapLargeBlocks();
  TrimHeaps();
  return model;
}

Result<std::unique_ptr<LlamaModel>> LlamaModel::LoadMetadata(const LoadOptions& options) {
  return LoadFile(options, /*no_alloc=*/true);
}

Result<std::unique_ptr<LlamaModel>> LlamaModel::LoadFile(const LoadOptions& options,
                                                         bool no_alloc) {
  SVC_RETURN_IF_ERROR(CheckFile(options.path));

  SVC_ASSIGN_OR_RETURN(Placement placement, Placement::Of(options, Gpus()));

  Progress progress{&options.on_progress};
  llama_model_params params = llama_model_default_params();
  placement.ApplyTo(&params);
  params.no_alloc = no_alloc;
  if (no_alloc) params.load_mode = LLAMA_LOAD_MODE_NONE;  // there is nothing to map
  params.progress_callback_user_data = &progress;
  params.progress_callback = [](float fraction, void* user) {
    auto* state = static_cast<Progress*>(user);
    if (*state->callback && !(*state->callback)(fraction)) state->cancelled = true;
    return !state->cancelled;
  };

#ifdef SVC_MATRIX_KERNELS
  const bool is_on_gpu = llama_supports_gpu_offload() && options.gpu_layers != 0;
  const bool is_copied = !is_on_gpu && UseOwnKernels() != nullptr && TakeAllOf(options.path);
  const EmbeddingsInMemory embeddings(is_copied);
  if (is_copied) params.load_mode = LLAMA_LOAD_MODE_NONE;
#endif
  const LogCapture log;
  llama_model_ptr model(llama_model_load_from_file(options.path.c_str(), params));
  if (progress.cancelled) return Status(StatusCode::kCancelled, "the load was cancelled");
  if (model == nullptr) {
    return log.Failure(log.OutOfMemory() ? "no memory to load " + options.path
                                         : options.path + " cannot be loaded");
  }
  SVC_RETURN_IF_ERROR(CheckKind(model.get(), options.path));
  if (!no_alloc) ForgetMappedPages();
  std::string device = DeviceNames(model.get());
  return std::make_unique<LlamaModel>(std::move(model), std::move(device));
}

bool LlamaModel::has_experts() const {
  const std::string architecture = ReadMetadata(get(), "general.architecture");
  const std::string experts = ReadMetadata(get(), architecture + ".expert_count");
  return std::strtoul(experts.c_str(), nullptr, 10) > 0;
}

std::optional<std::uint32_t> LlamaModel::turning_length() const {
  const llama_model* model = model_.get();
  const std::string scaling = ReadMetadata(model, "general.architecture") + ".rope.scaling.";
  const std::string original = ReadMetadata(model, scaling + "original_context_length");
  // YaRN has that value, too, but encodes positions the same whatever the number of cells.
  if (original.empty() || ReadMetadata(model, scaling + "type") == "yarn") return std::nullopt;
  return static_cast<std::uint32_t>(std::strtoul(original.c_str(), nullptr, 10));
}

ModelInfo LlamaModel::Describe() const {
  const llama_model* model = model_.get();
  ModelInfo info;
  info.size_bytes = llama_model_size(model);
  info.trained_context_length = static_cast<std::uint32_t>(llama_model_n_ctx_train(model));
  info.vocabulary = static_cast<std::uint32_t>(llama_vocab_n_tokens(vocab()));
  info.embedding_length = static_cast<std::uint32_t>(llama_model_n_embd(model));
  info.layers = static_cast<std::uint32_t>(llama_model_n_layer(model));
  info.device = device_;
  info.sampling = ReadSampling(model);
  return info;
}

Status LlamaModel::TooLong(const Overflow& overflow) {
  const std::string least = overflow.is_minimum ? "at least " : "";
  const std::uint32_t length = overflow.context_length;
  return Status("the prompt is too long: it has " + least + std::to_string(overflow.prompt_tokens) +
                    " tokens, and the context of " + std::to_string(length) + " has room for " +
                    std::to_string(length - 1) + " and an answer",
                overflow);
}

Status LlamaModel::CheckLength(std::size_t length, std::uint32_t context_length) const {
  if (context_length == 0 || longest_piece_ == 0) return Status::Ok();
  const std::size_t least = (length + longest_piece_ - 1) / longest_piece_;
  if (least + 1 <= context_length) return Status::Ok();
  return TooLong({.prompt_tokens = least, .is_minimum = true, .context_length = context_length});
}

Result<std::vector<Token>> LlamaModel::Tokenize(const std::string& text, bool add_special,
                                                bool parse_special,
                                                std::uint32_t context_length) const {
  SVC_RETURN_IF_ERROR(CheckLength(text.size(), context_length));
  if (text.size() > kMaxTextBytes) {
    return Status(StatusCode::kInvalidRequest, "a text of " + std::to_string(text.size()) +
                                                   " bytes is too long to tokenize; at " + "most " +
                                                   std::to_string(kMaxTextBytes) + " are possible");
  }
  const std::size_t longest = LongestWord(word_split_, text);
  if (longest <= kMaxSmallWord) return TokenizeHere(text, add_special, parse_special);
  Result<std::vector<Token>> result =
      Status(StatusCode::kInvalidRequest, "the text has a word of " + std::to_string(longest) +
                                              " characters; this model's tokenizer " +
                                              "takes at most " + std::to_string(kMaxWord));
  if (longest > kMaxWord) return result;
  const Status no_memory(StatusCode::kOutOfMemory, "not enough memory to tokenize this text");
  const auto work = [&] {
    try {
      result = TokenizeHere(text, add_special, parse_special);
    } catch (const std::exception&) {
      result = no_memory;
    }
  };
  if (!RunWithWordStack(work)) return no_memory;
  return result;
}

Result<std::vector<Token>> LlamaModel::TokenizeHere(const std::string& text, bool add_special,
                                                    bool parse_special) const {
  // Nearly always an upper bound: one token for each byte, and the special ones at the ends. If it
  // is too small, llama_tokenize returns the required size, negated.
  std::vector<Token> tokens(text.size() + 8);
  const auto length = static_cast<std::int32_t>(text.size());
  try {
    for (;;) {
      const std::int32_t count =
          llama_tokenize(vocab(), text.data(), length, tokens.data(),
                         static_cast<std::int32_t>(tokens.size()), add_special, parse_special);
      if (count == INT32_MIN) break;
      if (count >= 0) {
        tokens.resize(static_cast<std::size_t>(count));
        return tokens;
      }
      tokens.resize(static_cast<std::size_t>(-count));
    }
  } catch (const std::exception&) {
    // The exception's message is dropped: it quotes the text.
  }
  return Status(StatusCode::kInvalidRequest, "the model's vocabulary cannot represent this text");
}

std::string LlamaModel::Detokenize(const std::vector<Token>& tokens, bool special) const {
  std::string text(tokens.size() * 4 + 16, '\0');
  for (;;) {
    const std::int32_t length =
        llama_detokenize(vocab(), tokens.data(), static_cast<std::int32_t>(tokens.size()),
                         text.data(), static_cast<std::int32_t>(text.size()),
                         /*remove_special=*/false, /*unparse_special=*/special);
    text.resize(static_cast<std::size_t>(length < 0 ? -length : length));
    if (length >= 0) return text;
  }
}

std::string LlamaModel::Piece(Token token, bool special) const {
  std::array<char, 64> small{};
  const std::int32_t length =
      llama_token_to_piece(vocab(), token, small.data(), small.size(), /*lstrip=*/0, special);
  if (length >= 0) return {small.data(), static_cast<std::size_t>(length)};
  std::string piece(static_cast<std::size_t>(-length), '\0');
  llama_token_to_piece(vocab(), token, piece.data(), -length, /*lstrip=*/0, special);
  return piece;
}

}  // namespace svc
