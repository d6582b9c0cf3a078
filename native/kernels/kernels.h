#pragma once

#include <span>

#include "kernels/attention.h"
#include "kernels/half_matrix.h"
#include "kernels/matrix_kernel.h"

namespace svc {

// The kernels of one instruction set.
struct Kernels {
  const char* instructions;
  MultiplyPanel* (*multiply)(WeightType type);
  HalfKernel* multiply_halves;
  AttentionKernel* attend;
};

// Returns the kernels that this processor supports, fastest first: for AVX-512 F, BW, DQ, VL and
// VNNI (Intel from Cascade Lake on, AMD from Zen 4 on); for AVX2 with FMA and F16C (half floats).
// Empty without AVX2. Thread: any.
std::span<const Kernels> SupportedKernels();

}  // namespace svc
