#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/half_matrix.h"

#define SVC_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")))

namespace svc {
namespace {

// Rows whose sums stay in registers: 4 outputs x 6 rows, plus 4 registers of weights.
constexpr std::size_t kRows = 6;
// Activations that stay in the L2 cache while weights stream through.
constexpr std::size_t kCachedFloats = (std::size_t{512} << 10U) / sizeof(float);

SVC_AVX512 __m512 Weights(const std::uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

template <std::size_t outputs, std::size_t rows>
SVC_AVX512 void MultiplyTile(const HalfMatrix& matrix, std::size_t output, const float* const* in,
                             float* const* out) {
  __m512 sums[outputs][rows];
  for (auto& of_output : sums) {
    for (__m512& sum : of_output) sum = _mm512_setzero_ps();
  }
  const std::uint16_t* weights = matrix.data + output * matrix.stride;
  for (std::size_t at = 0; at < matrix.depth; at += kHalfDepth) {
    __m512 each[outputs];
    for (std::size_t o = 0; o < outputs; ++o) each[o] = Weights(weights + o * matrix.stride + at);
    for (std::size_t r = 0; r < rows; ++r) {
      const __m512 activations = _mm512_loadu_ps(in[r] + at);
      for (std::size_t o = 0; o < outputs; ++o) {
        sums[o][r] = _mm512_fmadd_ps(each[o], activations, sums[o][r]);
      }
    }
  }
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t r = 0; r < rows; ++r) out[r][output + o] = _mm512_reduce_add_ps(sums[o][r]);
  }
}

using Tile = void(const HalfMatrix&, std::size_t, const float* const*, float* const*);

template <std::size_t outputs, std::size_t... rows>
constexpr std::array<Tile*, sizeof...(rows)> TilesOf(std::index_sequence<rows...> /*each*/) {
  return {MultiplyTile<outputs, rows + 1>...};
}

}  // namespace

void MultiplyHalvesAvx512(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                          const float* const* rows, std::size_t count, float* const* out) {
  // Indexed by the number of rows less one.
  static constexpr auto kTiles = TilesOf<kHalfOutputs>(std::make_index_sequence<kRows>());
  static constexpr auto kSingles = TilesOf<1>(std::make_index_sequence<kRows>());
  const std::size_t block = std::max<std::size_t>(kCachedFloats / matrix.depth / kRows, 2) * kRows;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t last = std::min(count, first + block);
    for (std::size_t output = begin; output < end;) {
      const bool whole = output + kHalfOutputs <= end;
      for (std::size_t row = first; row < last; row += kRows) {
        const std::size_t some = std::min(kRows, last - row);
        (whole ? kTiles : kSingles)[some - 1](matrix, output, rows + row, out + row);
      }
      output += whole ? kHalfOutputs : 1;
    }
  }
}

}  // namespace svc
