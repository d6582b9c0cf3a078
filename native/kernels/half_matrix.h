#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

// Weights in half floats, as they lie in a file: an output after the other, `depth` each.
struct HalfMatrix {
  const std::uint16_t* data = nullptr;
  std::size_t stride = 0;  // halves from one output to the next
  std::size_t outputs = 0;
  std::size_t depth = 0;  // a multiple of kHalfDepth
};
constexpr std::size_t kHalfDepth = 16;

// Outputs that a kernel computes together.
constexpr std::size_t kHalfOutputs = 4;

// Fewer rows take longer than with ggml's kernel, which reads one output after the other.
constexpr std::size_t kHalfLeastRows = 6;

// Writes outputs [begin, end) of each of `count` rows of activations. ggml's own kernel for many
// rows, as its packages are compiled, writes its sums to memory in the innermost loop, which takes
// twice as long. A row comes out the same to the bit in whatever company. Thread: any.
using MultiplyHalves = void(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                            const float* const* rows, std::size_t count, float* const* out);

// Null: this processor has no such instructions. There ggml's kernel is used.
MultiplyHalves* HalfKernel();

// half_matrix_avx512.cc
void MultiplyHalvesAvx512(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                          const float* const* rows, std::size_t count, float* const* out);

}  // namespace svc
