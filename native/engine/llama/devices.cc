#include "engine/llama/devices.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "engine/llama/cpu_threads.h"
#include "ggml-cpp.h"
#include "llama.h"
#ifdef SVC_KERNELS
#include "engine/llama/cpu/cpu_kernels.h"
#endif

namespace svc {
namespace {

const char* TypeName(enum ggml_backend_dev_type type) {
  switch (type) {
    case GGML_BACKEND_DEVICE_TYPE_CPU:
      return "cpu";
    case GGML_BACKEND_DEVICE_TYPE_IGPU:
      return "igpu";
    case GGML_BACKEND_DEVICE_TYPE_ACCEL:
      return "accel";
    default:
      return "gpu";
  }
}

// Fixed pseudo-random values in [-1, 1), so that the product is the same on every machine.
std::vector<float> RandomMatrix(std::size_t n, std::uint32_t state) {
  std::vector<float> values(n * n);
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8U) / static_cast<float>(1U << 23U) - 1.0F;
  }
  return values;
}

// Checks n entries spread over the product. ggml_mul_mat(a, b) is b * transpose(a): entry (row of
// b, row of a). The tolerance allows for devices that multiply in half precision.
bool ProductIsRight(const std::vector<float>& a, const std::vector<float>& b,
                    const std::vector<float>& product, std::size_t n) {
  const double tolerance = 0.002 * std::sqrt(static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t row = i;
    const std::size_t column = (i * 37) % n;
    double expected = 0;
    for (std::size_t k = 0; k < n; ++k) {
      expected += static_cast<double>(a[column * n + k]) * static_cast<double>(b[row * n + k]);
    }
    // Negated comparison, so that a NaN fails.
    if (!(std::abs(product[row * n + column] - expected) <= tolerance)) return false;
  }
  return true;
}

// Seconds of the fastest of a few n x n products on the backend.
Result<double> TimeProduct(ggml_backend_t backend, std::size_t n) {
  const auto size = static_cast<std::int64_t>(n);
  const ggml_context_ptr context(
      ggml_init({/*mem_size=*/ggml_tensor_overhead() * 8 + ggml_graph_overhead(),
                 /*mem_buffer=*/nullptr,
                 /*no_alloc=*/true}));
  ggml_tensor* a = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, size, size);
  ggml_tensor* b = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, size, size);
  ggml_tensor* product = ggml_mul_mat(context.get(), a, b);
  if (!ggml_backend_supports_op(backend, product)) {
    return Status(StatusCode::kEngineUnavailable, "the device cannot multiply matrices");
  }
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, product);
  const ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors(context.get(), backend));
  if (buffer == nullptr)
    return Status(StatusCode::kOutOfMemory, "the device has not enough memory for a test matrix");

  const std::vector<float> a_values = RandomMatrix(n, 1);
  const std::vector<float> b_values = RandomMatrix(n, 2);
  ggml_backend_tensor_set(a, a_values.data(), 0, ggml_nbytes(a));
  ggml_backend_tensor_set(b, b_values.data(), 0, ggml_nbytes(b));

  double best = 0;
  constexpr int kRuns = 4;  // the first also compiles shaders and fills caches
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) {
      return Status(StatusCode::kInternal, "the device failed to multiply two matrices");
    }
    ggml_backend_synchronize(backend);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = run == 0 ? elapsed.count() : std::min(best, elapsed.count());
  }

  std::vector<float> values(n * n);
  ggml_backend_tensor_get(product, values.data(), 0, ggml_nbytes(product));
  if (!ProductIsRight(a_values, b_values, values, n)) {
    return Status(StatusCode::kInternal, "the device computed a wrong matrix product");
  }
  return best;
}

}  // namespace

Status LoadBackends(const std::string& directory) {
  static std::set<std::string> loaded;
  if (!loaded.contains(directory)) {
    ggml_backend_load_all_from_path(directory.c_str());
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr) {
      return {StatusCode::kEngineUnavailable,
              "no ggml CPU module for this processor in " + directory};
    }
    // Not before the modules: without any it would search the working directory.
    llama_backend_init();
#ifdef SVC_KERNELS
    UseOwnKernels();
#endif
    loaded.insert(directory);
  }
  return Status::Ok();
}

std::vector<Device> ListDevices() {
  std::vector<Device> devices;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    std::size_t free = 0;
    std::size_t total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    const bool measured = free < total;
    devices.push_back({.name = ggml_backend_dev_name(device),
                       .description = ggml_backend_dev_description(device),
                       .backend = ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)),
                       .type = TypeName(ggml_backend_dev_type(device)),
                       .memory_total_bytes = total == 0 ? std::nullopt : std::optional(total),
                       .memory_free_bytes = measured ? std::optional(free) : std::nullopt});
  }
  return devices;
}

std::string CpuFeatures() {
  std::string features = llama_print_system_info();
#ifdef SVC_KERNELS
  if (const Kernels* kernels = UseOwnKernels(); kernels != nullptr) {
    features += std::string("SVC_") + kernels->instructions + " = 1 | ";
  }
#endif
  return features;
}

Result<double> MeasureDevice(std::size_t index) {
  if (index >= ggml_backend_dev_count())
    return Status(StatusCode::kInvalidRequest, "no device has this index");
  ggml_backend_dev_t device = ggml_backend_dev_get(index);
  const ggml_backend_ptr backend(ggml_backend_dev_init(device, nullptr));
  if (backend == nullptr)
    return Status(StatusCode::kEngineUnavailable, "the device cannot be opened");

  auto set_threads =
      reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
  if (set_threads != nullptr) set_threads(backend.get(), DefaultThreads());

  // Too fast to measure: try a larger product.
  for (std::size_t n = 512;; n *= 4) {
    SVC_ASSIGN_OR_RETURN(const double seconds, TimeProduct(backend.get(), n));
    if (seconds > 0.001 || n >= 2048) {
      const auto size = static_cast<double>(n);
      return 2.0 * size * size * size / seconds / 1e9;
    }
  }
}

}  // namespace svc
