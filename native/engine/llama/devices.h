// The compute devices of this machine, as ggml's backend modules see them. Process-wide.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace svc {

struct Device {
  std::string name;                      // "CPU", "Vulkan0"
  std::string description;               // "Intel Xeon ...", "llvmpipe"
  std::string backend;                   // "CPU", "Vulkan"
  std::string type;                      // "cpu", "gpu", "igpu", "accel"
  std::uint64_t memory_total_bytes = 0;  // 0: not known
  // As it is now. Absent: the backend does not measure it, and calls all of it free.
  std::optional<std::uint64_t> memory_free_bytes;
};

// Loads every ggml backend module in `directory` (the CPU variant that fits best, GPU modules that
// load). Idempotent for one directory. Not thread-safe: call once before anything else.
// kEngineUnavailable if no CPU backend came of it.
Status LoadBackends(const std::string& directory);

// Asks each driver. Any thread, also while an engine computes.
std::vector<Device> ListDevices();

// llama_print_system_info(): the CPU features the chosen kernels use; behind them the kernel of
// ours, where one is used.
std::string CpuFeatures();

// Multiplies two n x n matrices on device `index` of ListDevices(), checks the result against the
// CPU's own arithmetic and returns GFLOP/s of the best of a few runs (well under a second in all).
Result<double> MeasureDevice(std::size_t index);

// Where libllama's and ggml's log lines go. `level` is ggml_log_level's name in lower case. The
// sink may be called from any thread, one call at a time. Never holds prompt text.
void SetLogSink(void (*sink)(const char* level, const char* text, void* user), void* user);

}  // namespace svc
