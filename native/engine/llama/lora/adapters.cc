#include "engine/llama/lora/adapters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "ggml-cpp.h"

namespace svc {
namespace {

constexpr std::string_view kDown = ".lora_a";  // to the rank
constexpr std::string_view kUp = ".lora_b";    // from the rank
constexpr const char* kEmbedding = "token_embd.weight";
constexpr const char* kOutput = "output.weight";
constexpr const char* kWrongBase = "was made for another base model: ";

// A tensor of the file, from its header.
struct TensorHead {
  std::array<std::int64_t, 4> shape{};
  ggml_type type = GGML_TYPE_F32;
};
// The two factors of a weight's correction.
struct Pair {
  std::optional<TensorHead> down;
  std::optional<TensorHead> up;
};
using Pairs = std::map<std::string, Pair>;

// Null: not a GGUF file, or damaged.
gguf_context_ptr Open(const std::string& path) {
  try {
    return gguf_context_ptr(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Empty: there is no such key, or it is not a string.
std::string TextOf(const gguf_context* file, const char* key) {
  const std::int64_t id = gguf_find_key(file, key);
  if (id < 0 || gguf_get_kv_type(file, id) != GGUF_TYPE_STRING) return "";
  return gguf_get_val_str(file, id);
}

std::string MetadataOf(const llama_model* model, const std::string& key) {
  std::array<char, 128> value{};
  const int length = llama_model_meta_val_str(model, key.c_str(), value.data(), value.size());
  return length < 0 ? "" : value.data();
}

// Experts of each layer; 0: it has none.
std::int64_t ExpertsOf(const llama_model* model) {
  const std::string architecture = MetadataOf(model, "general.architecture");
  return std::strtol(MetadataOf(model, architecture + ".expert_count").c_str(), nullptr, 10);
}

// The metadata of an adapter for this model. Empty: it is one.
std::string RefuseMetadata(const gguf_context* file, const llama_model* model) {
  if (TextOf(file, "general.type") != "adapter") return "is not an adapter";
  if (TextOf(file, "adapter.type") != "lora") return "is not a LoRA adapter";
  const std::string architecture = TextOf(file, "general.architecture");
  const std::string own = MetadataOf(model, "general.architecture");
  if (architecture != own) {
    return kWrongBase + std::string("its architecture is \"") + architecture +
           "\", that of this model \"" + own + "\"";
  }
  const std::int64_t alpha = gguf_find_key(file, "adapter.lora.alpha");
  if (alpha >= 0 && (gguf_get_kv_type(file, alpha) != GGUF_TYPE_FLOAT32 ||
                     !std::isfinite(gguf_get_val_f32(file, alpha)))) {
    return "is damaged: adapter.lora.alpha is not a number";
  }
  if (gguf_find_key(file, "adapter.alora.invocation_tokens") >= 0) {
    return "is an activated LoRA (aLoRA), which is not supported";
  }
  return "";
}

// Groups the tensors by the weight that they correct. Returns why they cannot be read; empty: they
// can.
std::string ReadPairs(const gguf_context* file, std::uint64_t file_bytes, Pairs* pairs) {
  for (std::int64_t i = 0; i < gguf_get_n_tensors(file); ++i) {
    const std::string name = gguf_get_tensor_name(file, i);
    const std::uint64_t begin = gguf_get_data_offset(file) + gguf_get_tensor_offset(file, i);
    const std::uint64_t size = gguf_get_tensor_size(file, i);
    if (begin > file_bytes || size > file_bytes - begin) {
      return "is damaged: its file ends inside the tensor " + name;
    }
    TensorHead head{.type = gguf_get_tensor_type(file, i)};
    std::ranges::copy(std::span(gguf_get_tensor_ne(file, i), head.shape.size()),
                      head.shape.begin());
    const auto weight = [&](std::string_view end) {
      return name.substr(0, name.size() - end.size());
    };
    if (name.ends_with(kDown)) {
      (*pairs)[weight(kDown)].down = head;
    } else if (name.ends_with(kUp)) {
      (*pairs)[weight(kUp)].up = head;
    } else if (!name.ends_with("_norm.weight")) {  // these are ignored by libllama
      return "has an unknown tensor, " + name;
    }
  }
  return pairs->empty() ? "has no tensors" : "";
}

// True for the types that llama.cpp's converter writes. ggml multiplies matrices of most others,
// too, but not of all that a file can have.
bool IsMatrixType(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ||
         type == GGML_TYPE_Q8_0;
}

// True if ggml can compute the pair's product: the rank of both is the same, and where there is a
// matrix for each expert, as many as the model has.
bool Fit(const std::string& name, const Pair& pair, std::int64_t experts) {
  if (!pair.down || !pair.up) return false;
  const TensorHead& down = *pair.down;
  const TensorHead& up = *pair.up;
  // Rows of token_embd's are looked up, so both are stored by rank.
  const std::int64_t rank = down.shape[name.ends_with(kEmbedding) ? 0 : 1];
  // Those that experts share in groups are of another number, which is not known here.
  const std::int64_t grouped = name.ends_with("exps.weight") ? 0 : 1;
  const std::int64_t matrices = name.ends_with("_exps.weight") ? experts : grouped;
  const auto is_stack = [&](const TensorHead& head) {
    return IsMatrixType(head.type) &&
           std::ranges::all_of(head.shape, [](auto n) { return n > 0; }) &&
           head.shape[2] == matrices && head.shape[3] == 1;
  };
  return up.shape[0] == rank && is_stack(down) && is_stack(up);
}

std::uint64_t BytesOf(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

// True if the model's output matrix is its token embeddings. Then libllama takes an adapter of the
// embeddings for one of the output, too, and ends the process, because the two have other forms.
bool IsOutputTied(const std::string& model_path) {
  const gguf_context_ptr file = Open(model_path);
  return file == nullptr || gguf_find_tensor(file.get(), kOutput) < 0;
}

// Why the model cannot use the tensors of an adapter, as far as their heads show; empty: it can.
std::string RefusePairs(const Pairs& pairs, const llama_model* model,
                        const std::string& model_path) {
  const std::int64_t experts = ExpertsOf(model);
  for (const auto& [name, pair] : pairs) {
    if (!Fit(name, pair, experts)) return "is damaged: the tensors of " + name + " do not fit";
  }
  if (pairs.contains(kEmbedding) && IsOutputTied(model_path)) {
    return "changes the token embeddings, which this model also has as its output";
  }
  return "";
}

// Why the model cannot use the file, as far as its header shows; empty: it can.
std::string Refusal(const std::string& path, const llama_model* model,
                    const std::string& model_path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "is missing: its file does not exist";
  const gguf_context_ptr file = Open(path);
  if (file == nullptr) return "is not a GGUF file, or is damaged";
  if (std::string why = RefuseMetadata(file.get(), model); !why.empty()) return why;
  // libllama computes their products with a second scale, which corrections lack.
  if ((llama_model_ftype(model) & ~LLAMA_FTYPE_GUESSED) == LLAMA_FTYPE_MOSTLY_NVFP4) {
    return "cannot be used: this model's weights (NVFP4) take none";
  }
  Pairs pairs;
  if (std::string why = ReadPairs(file.get(), BytesOf(path), &pairs); !why.empty()) return why;
  return RefusePairs(pairs, model, model_path);
}

Status Refuse(const std::string& message) { return {StatusCode::kInvalidRequest, message, "lora"}; }

}  // namespace

AdapterMemory AdapterMemoryOf(const std::string& path) {
  const gguf_context_ptr file = Open(path);
  Pairs pairs;
  if (file == nullptr || !ReadPairs(file.get(), BytesOf(path), &pairs).empty()) return {};
  AdapterMemory memory;
  for (std::int64_t i = 0; i < gguf_get_n_tensors(file.get()); ++i) {
    memory.weights_bytes += gguf_get_tensor_size(file.get(), i);
  }
  for (const auto& [name, pair] : pairs) {
    if (!pair.up) continue;
    std::uint32_t& width = name == kOutput ? memory.output_width : memory.widest_rows;
    width = std::max(width, static_cast<std::uint32_t>(pair.up->shape[1]));
  }
  return memory;
}

Adapters::Adapters(llama_model* model, const std::string& path,
                   const std::vector<AdapterFile>& files) {
  for (const AdapterFile& file : files) {
    std::string error = Refusal(file.path, model, path);
    llama_adapter_lora* adapter = nullptr;
    if (error.empty()) {
      adapter = llama_adapter_lora_init(model, file.path.c_str());
      if (adapter == nullptr) error = kWrongBase + std::string("its tensors do not fit this one");
    }
    infos_.push_back({.id = file.id, .error = std::move(error)});
    handles_.push_back(adapter);
  }
}

Result<AdapterSet> Adapters::Choose(const std::vector<AdapterWish>& wishes) const {
  AdapterSet set;
  for (const AdapterWish& wish : wishes) {
    if (wish.scale == 0) continue;
    if (!std::isfinite(wish.scale)) {
      return Refuse("the scale of the adapter \"" + wish.id + "\" must be a finite number");
    }
    const auto found = std::ranges::find(infos_, wish.id, &AdapterInfo::id);
    if (found == infos_.end()) return Refuse("this model has no adapter \"" + wish.id + "\"");
    if (!found->error.empty()) {
      return Refuse("the adapter \"" + wish.id + "\" " + found->error);
    }
    const auto index = static_cast<std::uint32_t>(found - infos_.begin());
    if (std::ranges::find(set, index, &AdapterUse::index) != set.end()) {
      return Refuse("the adapter \"" + wish.id + "\" is listed twice");
    }
    set.push_back({.index = index, .scale = wish.scale});
  }
  std::ranges::sort(set, {}, &AdapterUse::index);
  return set;
}

void UseAdapters(llama_context* context, const std::vector<llama_adapter_lora*>& handles,
                 const AdapterSet& set) {
  std::vector<llama_adapter_lora*> adapters;
  std::vector<float> scales;
  for (const AdapterUse& use : set) {
    adapters.push_back(handles[use.index]);
    scales.push_back(use.scale);
  }
  llama_set_adapters_lora(context, adapters.data(), adapters.size(), scales.data());
}

}  // namespace svc
