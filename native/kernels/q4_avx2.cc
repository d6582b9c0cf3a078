#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/q4_kernel.h"

// As with AVX-512, with half as many outputs in a register and half as many registers: eight
// outputs of up to four rows at a time. Pairs of products are added up in 16 bits, where those of a
// block stay below 8 * 2 * 15 * 127 = 30,480.

#define SVC_AVX2 __attribute__((target("avx2,fma,f16c")))

namespace svc {
namespace {

constexpr std::size_t kOutputs = 8;
constexpr std::size_t kMostRows = 4;

SVC_AVX2 __m256i Broadcast4(const std::uint8_t* bytes) {
  std::int32_t four;
  std::memcpy(&four, bytes, sizeof four);
  return _mm256_set1_epi32(four);
}

// `first`: of the group's rows. `half`: of the panel's outputs.
template <std::size_t kRows>
SVC_AVX2 void Multiply(const Q4Matrix& matrix, std::size_t panel, std::size_t half, RowBlock rows,
                       std::size_t first, float* const* out) {
  const std::uint8_t* weights = matrix.weights(panel) + half * kOutputs * 4;
  const std::uint16_t* scales = matrix.scales(panel) + half * kOutputs;
  const __m256i low_halves = _mm256_set1_epi8(15);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 sums[kRows];
  for (std::size_t r = 0; r < kRows; ++r) sums[r] = _mm256_setzero_ps();
  for (std::size_t b = 0; b < matrix.blocks(); ++b, rows = rows.next()) {
    __m256i dots[kRows];
    for (std::size_t r = 0; r < kRows; ++r) dots[r] = _mm256_setzero_si256();
    for (std::size_t part = 0; part < 4; ++part, weights += kPanel * 4) {
      _mm_prefetch(reinterpret_cast<const char*>(weights) + kPrefetchBytes, _MM_HINT_T0);
      const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
      const __m256i low = _mm256_and_si256(pairs, low_halves);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), low_halves);
      for (std::size_t r = 0; r < kRows; ++r) {
        const std::uint8_t* values = rows.values(first + r) + 8 * part;
        const __m256i of_low = _mm256_maddubs_epi16(low, Broadcast4(values));
        const __m256i of_high = _mm256_maddubs_epi16(high, Broadcast4(values + 4));
        dots[r] = _mm256_add_epi16(dots[r], _mm256_add_epi16(of_low, of_high));
      }
    }
    const __m256 scale = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales)));
    scales += kPanel;
    for (std::size_t r = 0; r < kRows; ++r) {
      const __m256i dot = _mm256_add_epi32(_mm256_madd_epi16(dots[r], ones),
                                           _mm256_set1_epi32(rows.offsets()[first + r]));
      const __m256 product = _mm256_mul_ps(scale, _mm256_set1_ps(rows.scales()[first + r]));
      sums[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), product, sums[r]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    _mm256_storeu_ps(out[first + r] + half * kOutputs, sums[r]);
  }
}

}  // namespace

void MultiplyAvx2(const Q4Matrix& matrix, std::size_t panel, RowBlock rows, float* const* out) {
  constexpr std::array kMultiply = {Multiply<1>, Multiply<2>, Multiply<3>, Multiply<4>};
  static_assert(kMultiply.size() == kMostRows);
  for (std::size_t half = 0; half < kPanel / kOutputs; ++half) {
    for (std::size_t first = 0; first < rows.size; first += kMostRows) {
      const std::size_t count = std::min(kMostRows, rows.size - first);
      kMultiply[count - 1](matrix, panel, half, rows, first, out);
    }
  }
}

}  // namespace svc
