// Self-test of our kernels: a small operation of each kind that they take over, computed by the CPU
// backend before and after they are registered. The headers with which they are registered are
// internal to ggml, and an unknown processor or CPU module may differ in a way that nothing else
// reveals.
#pragma once

#include <vector>

#include "ggml-backend.h"

namespace svc {

// Results of one operation. The name is static.
struct KernelSample {
  const char* operation;
  std::vector<float> values;
};

// Computes every sample on one thread, with the kernels that are registered now: a product per
// weight type, with its weights in a buffer of this type; a product with F16 weights; and
// attention. Takes about a millisecond. Empty: the backend failed.
std::vector<KernelSample> ComputeSamples(ggml_backend_buffer_type_t weights);

// Returns the first operation whose values differ by more than rounding; null if there is none.
const char* FirstDifference(const std::vector<KernelSample>& expected,
                            const std::vector<KernelSample>& actual);

}  // namespace svc
