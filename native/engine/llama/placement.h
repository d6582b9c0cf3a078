// Where the tensors of a model go: translates gpu_layers, main_gpu, tensor_split and cpu_experts of
// LoadOptions to libllama's parameters.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/types/load_options.h"
#include "llama.h"

namespace svc {

// The GPUs of `devices` that libllama uses by default, in their order: each card once, and
// integrated ones only if there is no other.
std::vector<ggml_backend_dev_t> GpusAmong(std::span<const ggml_backend_dev_t> devices);

// Those of this process. REQUIRES: LoadBackends().
std::vector<ggml_backend_dev_t> Gpus();

// Names of devices, separated by commas.
std::string NamesOf(std::span<const ggml_backend_dev_t> devices);

class Placement {
 public:
  // `gpus`: those of the machine. Without any, the settings have no effect. Error: kConfigInvalid
  // (the message names the setting).
  static Result<Placement> Of(const LoadOptions& options,
                              const std::vector<ggml_backend_dev_t>& gpus);

  // Sets n_gpu_layers, devices, tensor_split and tensor_buft_overrides. `params` then points into
  // this object.
  void ApplyTo(llama_model_params* params);

  // The first GPU that was chosen. Null: libllama chooses, or there is none.
  ggml_backend_dev_t first_gpu() const { return devices_.empty() ? nullptr : devices_.front(); }

 private:
  int gpu_layers_ = 0;
  std::vector<ggml_backend_dev_t> devices_;  // null at the end. Empty: libllama chooses
  std::vector<float> shares_;                // of devices_. Empty: by their free memory
  std::string experts_;                      // pattern of the tensors in memory. Empty: none
  std::array<llama_model_tensor_buft_override, 2> overrides_{};
};

}  // namespace svc
