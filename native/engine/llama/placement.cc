#include "engine/llama/placement.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#include "ggml-backend.h"

namespace svc {
namespace {

// As many layers as libllama has places for (LLAMA_MAX_LAYERS).
constexpr std::uint32_t kMaxLayers = 512;

// The tensors of experts, as in llama.cpp's common/common.h (LLM_FFN_EXPS_REGEX).
constexpr const char* kExperts = "\\.ffn_(up|down|gate|gate_up)_(ch|)exps";

bool IsSameCard(ggml_backend_dev_t a, ggml_backend_dev_t b) {
  ggml_backend_dev_props first{};
  ggml_backend_dev_props second{};
  ggml_backend_dev_get_props(a, &first);
  ggml_backend_dev_get_props(b, &second);
  return first.device_id != nullptr && second.device_id != nullptr &&
         std::strcmp(first.device_id, second.device_id) == 0;
}

std::string AnyDigits(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "[0-9]";
  return text;
}

// Regular expression of the numbers 0 to `end` - 1. REQUIRES: end > 0.
std::string NumbersBelow(std::uint32_t end) {
  const std::string digits = std::to_string(end);
  std::string all;
  for (std::size_t length = 1; length < digits.size(); ++length) {
    all += (length == 1 ? "[0-9]" : "[1-9]") + AnyDigits(length - 1) + "|";
  }
  // As long as `end`: its first digits, then a smaller one, then any.
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char least = i == 0 && digits.size() > 1 ? '1' : '0';
    if (digits[i] == least) continue;
    all += digits.substr(0, i) + "[" + least + "-" + static_cast<char>(digits[i] - 1) + "]" +
           AnyDigits(digits.size() - i - 1) + "|";
  }
  all.pop_back();
  return all;
}

// One pattern for all layers: libllama compiles each pattern again for each tensor.
std::string ExpertsOf(std::uint32_t layers) {
  if (layers == 0) return "";
  if (layers >= kMaxLayers) return kExperts;
  return "blk\\.(" + NumbersBelow(layers) + ")" + kExperts;
}

// `wanted`: a name, or an index into `gpus`.
Result<ggml_backend_dev_t> MainGpu(const std::string& wanted,
                                   const std::vector<ggml_backend_dev_t>& gpus) {
  for (ggml_backend_dev_t gpu : gpus) {
    if (wanted == ggml_backend_dev_name(gpu)) return gpu;
  }
  std::size_t index = gpus.size();
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
  const bool is_index = error == std::errc() && end == wanted.data() + wanted.size();
  if (is_index && index < gpus.size()) return gpus[index];
  const std::string known = std::to_string(gpus.size()) + (gpus.size() == 1 ? " GPU" : " GPUs");
  return Status(StatusCode::kConfigInvalid,
                "main_gpu is " + wanted + ", and this machine has " + known + ": " + NamesOf(gpus));
}

Status CheckShares(const std::vector<float>& shares, const std::vector<ggml_backend_dev_t>& gpus) {
  if (shares.size() != gpus.size()) {
    return {StatusCode::kConfigInvalid, "tensor_split must have a share for each GPU: it has " +
                                            std::to_string(shares.size()) + ", and the GPUs are " +
                                            NamesOf(gpus)};
  }
  const bool is_share = std::ranges::all_of(shares, [](float share) { return share >= 0; });
  if (!is_share || std::ranges::max(shares) <= 0) {
    return {StatusCode::kConfigInvalid, "tensor_split must have shares above 0"};
  }
  return Status::Ok();
}

}  // namespace

std::vector<ggml_backend_dev_t> GpusAmong(std::span<const ggml_backend_dev_t> devices) {
  std::vector<ggml_backend_dev_t> gpus;
  std::vector<ggml_backend_dev_t> integrated;
  for (ggml_backend_dev_t device : devices) {
    const auto type = ggml_backend_dev_type(device);
    if (type == GGML_BACKEND_DEVICE_TYPE_GPU) {
      const auto same = [&](ggml_backend_dev_t other) { return IsSameCard(device, other); };
      if (std::ranges::none_of(gpus, same)) gpus.push_back(device);
    }
    if (type == GGML_BACKEND_DEVICE_TYPE_IGPU) {
      // One of several backends that see the same processor.
      const auto backend = ggml_backend_dev_backend_reg(device);
      if (integrated.empty() || backend == ggml_backend_dev_backend_reg(integrated.front())) {
        integrated.push_back(device);
      }
    }
  }
  return gpus.empty() ? integrated : gpus;
}

std::vector<ggml_backend_dev_t> Gpus() {
  std::vector<ggml_backend_dev_t> devices(ggml_backend_dev_count());
  for (std::size_t i = 0; i < devices.size(); ++i) devices[i] = ggml_backend_dev_get(i);
  return GpusAmong(devices);
}

std::string NamesOf(std::span<const ggml_backend_dev_t> devices) {
  std::string names;
  for (ggml_backend_dev_t device : devices) {
    if (!names.empty()) names += ", ";
    names += ggml_backend_dev_name(device);
  }
  return names;
}

Result<Placement> Placement::Of(const LoadOptions& options,
                                const std::vector<ggml_backend_dev_t>& gpus) {
  Placement placement;
  placement.gpu_layers_ = options.gpu_layers;
  if (options.gpu_layers == 0) {
    // With an empty device list. Otherwise libllama opens every GPU even for 0 layers: it puts
    // weights into their host buffers, where our kernels do not find them, and computes larger
    // batches on them.
    placement.devices_ = {nullptr};
    return placement;
  }
  if (gpus.empty()) return placement;
  placement.experts_ = ExpertsOf(options.cpu_experts);
  if (!options.main_gpu.empty()) {
    SVC_ASSIGN_OR_RETURN(const ggml_backend_dev_t gpu, MainGpu(options.main_gpu, gpus));
    placement.devices_ = {gpu, nullptr};
  } else if (!options.tensor_split.empty()) {
    SVC_RETURN_IF_ERROR(CheckShares(options.tensor_split, gpus));
    // A GPU without a share is not opened.
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (options.tensor_split[i] == 0) continue;
      placement.devices_.push_back(gpus[i]);
      placement.shares_.push_back(options.tensor_split[i]);
    }
    placement.devices_.push_back(nullptr);
    // libllama copies that many.
    placement.shares_.resize(std::max(placement.shares_.size(), llama_max_devices()));
  }
  return placement;
}

void Placement::ApplyTo(llama_model_params* params) {
  params->n_gpu_layers = gpu_layers_;
  if (!devices_.empty()) params->devices = devices_.data();
  if (!shares_.empty()) params->tensor_split = shares_.data();
  if (experts_.empty()) return;
  overrides_ = {{{experts_.c_str(), ggml_backend_cpu_buffer_type()}, {nullptr, nullptr}}};
  params->tensor_buft_overrides = overrides_.data();
}

}  // namespace svc
