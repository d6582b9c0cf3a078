#pragma once

#include <cstddef>
#include <span>

#include "kernels/quantized_rows.h"
#include "kernels/weight_matrix.h"

namespace svc {

// Writes outputs kPanel * panel and the next ones of a group of rows, whose first block this is, to
// `out`, one pointer for each row. Thread: any.
using MultiplyPanel = void(const WeightMatrix& matrix, std::size_t panel, RowBlock rows,
                           float* const* out);

// Products of weights with rows of activations. The rows of a group pass through each weight that
// was loaded, so that eight cost little more than what memory takes for one; each comes out the
// same to the bit, in whatever company, and of each kernel.
struct MatrixKernel {
  const char* instructions;
  MultiplyPanel* (*multiply)(WeightType type);
};

// Those that this processor can run, the fastest first. They need AVX2 at least.
std::span<const MatrixKernel> MatrixKernels();

// So far ahead kernels ask for weights: with several rows to a weight the processor does not do it
// by itself (eight rows of a 0.5B model take 20 ms instead of 31).
constexpr std::size_t kPrefetchBytes = 4096;

// matrix_avx512.cc, matrix_avx2.cc
MultiplyPanel* MultiplyAvx512(WeightType type);
MultiplyPanel* MultiplyAvx2(WeightType type);

}  // namespace svc
