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

// Outputs computed together.
constexpr std::size_t kHalfOutputs = 4;

// Minimum number of rows. With fewer, ggml's kernel, which reads one output after the other, is
// faster.
constexpr std::size_t kHalfLeastRows = 6;

// Writes outputs [begin, end) of each of `count` rows of activations. Replaces ggml's kernel for
// many rows: as compiled in its packages, that kernel stores its sums to memory in the innermost
// loop and takes twice as long. A row's result is bit-identical whatever the other rows are.
// Thread: any.
using MultiplyHalves = void(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                            const float* const* rows, std::size_t count, float* const* out);

// Returns null if the processor lacks AVX-512; callers then use ggml's kernel.
MultiplyHalves* HalfKernel();

// half_matrix_avx512.cc
void MultiplyHalvesAvx512(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                          const float* const* rows, std::size_t count, float* const* out);

}  // namespace svc
