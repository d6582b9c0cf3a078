#pragma once

#include <cstddef>
#include <span>

#include "kernels/q4_matrix.h"
#include "kernels/quantized_rows.h"

namespace svc {

// Products of Q4_0 weights with rows of activations. The rows of a group pass through each weight
// that was loaded, so that eight cost little more than what memory takes for one; each comes out
// the same to the bit, in whatever company, and of each kernel.
struct Q4Kernel {
  const char* instructions;
  // Writes outputs kPanel * panel and the next ones of a group of rows, whose first block this is,
  // to `out`, one pointer for each row. Thread: any.
  void (*multiply)(const Q4Matrix& matrix, std::size_t panel, RowBlock rows, float* const* out);
};

// Those that this processor can run, the fastest first. They need AVX2 at least.
std::span<const Q4Kernel> Q4Kernels();

// So far ahead kernels ask for weights: with several rows to a weight the processor does not do it
// by itself (eight rows of a 0.5B model take 20 ms instead of 31).
constexpr std::size_t kPrefetchBytes = 4096;

// Of a group of rows. q4_avx512.cc, q4_avx2.cc
void MultiplyAvx512(const Q4Matrix& matrix, std::size_t panel, RowBlock rows, float* const* out);
void MultiplyAvx2(const Q4Matrix& matrix, std::size_t panel, RowBlock rows, float* const* out);

}  // namespace svc
