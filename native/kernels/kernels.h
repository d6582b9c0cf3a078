#pragma once

#include <span>

#include "kernels/attention.h"
#include "kernels/half_matrix.h"
#include "kernels/matrix_kernel.h"

namespace svc {

// The kernels of one instruction set.
struct Kernels {
  const char* instructions;
  // Null on arm64, where products are left to ggml (docs/decisions.md).
  MultiplyPanel* (*multiply)(WeightType type);
  HalfKernel* multiply_halves;
  AttentionKernel* attend;
  // True if benchmarks on real processors found all of them faster than ggml's kernels. Otherwise
  // they must be timed before use.
  bool are_measured;
};

// Returns the kernels that this processor supports, fastest first. On x86-64: for AVX-512 F, BW,
// DQ, VL and VNNI (Intel from Cascade Lake on, AMD from Zen 4 on); for AVX2 with FMA and F16C (half
// floats); empty without AVX2. On arm64: for NEON. Thread: any.
std::span<const Kernels> SupportedKernels();

}  // namespace svc
