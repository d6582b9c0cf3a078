#include "engine/llama/projector_memory.h"

#include "engine/llama/placement.h"

namespace svc {

mtmd_context_params ProjectorParams(const LoadOptions& options, int threads) {
  mtmd_context_params params = mtmd_context_params_default();
  params.use_gpu = options.gpu_layers != 0;
  const Result<Placement> placement = Placement::Of(options, Gpus());
  if (placement.ok()) params.device = placement.value().first_gpu();
  params.print_timings = false;
  params.n_threads = threads;
  params.warmup = true;  // lays out a graph, and computes nothing
  return params;
}

std::vector<std::pair<std::string, std::uint64_t>> ProjectorBytes(const LoadOptions& options) {
  std::vector<std::pair<std::string, std::uint64_t>> bytes;
  for (const auto& [device, size] : mtmd_get_memory_usage(
           options.projector_path.c_str(), ProjectorParams(options, /*threads=*/1))) {
    bytes.emplace_back(ggml_backend_dev_name(device), size);
  }
  return bytes;
}

}  // namespace svc
