// Compute devices of this machine, as ggml's backend modules report them. Process-wide.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/field.h"
#include "engine/base/status.h"

namespace svc {

struct Device {
  std::string name;                                 // "CPU", "Vulkan0"
  std::string description;                          // "Intel Xeon ...", "llvmpipe"
  std::string backend;                              // "CPU", "Vulkan"
  std::string type;                                 // "cpu", "gpu", "igpu", "accel"
  std::optional<std::uint64_t> memory_total_bytes;  // absent: unknown
  // Currently free memory. Absent: the backend does not measure it (it reports all memory as free).
  std::optional<std::uint64_t> memory_free_bytes;

  SVC_FIELDS(Device, (name), (description), (backend), (type), (memory_total_bytes),
             (memory_free_bytes))
};

// Loads the ggml backend modules in `directory`: the best CPU variant, and the GPU modules that can
// be loaded. Idempotent for one directory. Not thread-safe: call it before anything else. Error:
// kEngineUnavailable (no CPU backend).
Status LoadBackends(const std::string& directory);

// Queries each driver. Any thread, also while an engine computes.
std::vector<Device> ListDevices();

// CPU features that the chosen kernels use: llama_print_system_info(), followed by our kernel if it
// is used.
std::string CpuFeatures();

// Returns GFLOP/s of the best of a few n x n matrix products on device `index` of ListDevices(),
// and checks the result against the CPU (well under a second in all). Errors: kInvalidRequest (no
// such device), kEngineUnavailable, kOutOfMemory, kInternal (computation failed, or wrong result).
Result<double> MeasureDevice(std::size_t index);

// Receiver of libllama's and ggml's log lines. `level` is the name of the ggml_log_level in lower
// case. Any thread may call it, one call at a time. Lines never contain prompt text.
using LogSink = std::function<void(const char* level, const char* text)>;
// Null: lines are discarded.
void SetLogSink(LogSink sink);

}  // namespace svc
