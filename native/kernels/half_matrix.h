#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

// Weights in half floats, in the order of the model file: `depth` weights per output, one output
// after the other. Non-owning.
struct HalfMatrix {
  const std::uint16_t* data = nullptr;
  std::size_t stride = 0;  // half floats from one output to the next
  std::size_t outputs = 0;
  std::size_t depth = 0;  // a multiple of kHalfDepth
};
constexpr std::size_t kHalfDepth = 16;

// Outputs per part of an operation, a multiple of what each kernel computes together. Other ranges
// are slower.
constexpr std::size_t kHalfOutputs = 12;

// Minimum number of rows. With fewer, ggml's kernel, which reads one output after the other, is
// faster.
constexpr std::size_t kHalfLeastRows = 6;

// Writes outputs [begin, end) of each of `count` rows of activations. Replaces ggml's kernel for
// many rows: with AVX-512, as compiled in its packages, that kernel stores its sums to memory in
// the innermost loop and takes 1.3 to 2 times as long; with AVX2 it takes 1.3 to 1.5 times as long.
// A row's result is bit-identical for every kernel and whatever the other rows are. Thread: any.
using HalfKernel = void(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                        const float* const* rows, std::size_t count, float* const* out);

// half_matrix_avx512.cc, half_matrix_avx2.cc
HalfKernel MultiplyHalvesAvx512;
HalfKernel MultiplyHalvesAvx2;

}  // namespace svc
