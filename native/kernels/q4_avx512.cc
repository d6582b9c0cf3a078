#include <immintrin.h>

#include <array>
#include <cstring>

#include "kernels/q4_kernel.h"

// Of a row, 16 outputs lie in a register each for their sums and for those of the block; an
// instruction multiplies four weights of each output by four activations and adds all.

#define SVC_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace svc {
namespace {

SVC_AVX512 __m512i Broadcast4(const std::uint8_t* bytes) {
  std::int32_t four;
  std::memcpy(&four, bytes, sizeof four);
  return _mm512_set1_epi32(four);
}

template <std::size_t kRows>
SVC_AVX512 void Multiply(const Q4Matrix& matrix, std::size_t panel, RowBlock rows,
                         float* const* out) {
  const std::uint8_t* weights = matrix.weights(panel);
  const std::uint16_t* scales = matrix.scales(panel);
  const __m512i low_halves = _mm512_set1_epi8(15);
  __m512 sums[kRows];
  for (std::size_t r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_ps();
  rows.size = kRows;
  for (std::size_t b = 0; b < matrix.blocks(); ++b, rows = rows.next()) {
    __m512i dots[kRows];
    for (std::size_t r = 0; r < kRows; ++r) dots[r] = _mm512_set1_epi32(rows.offsets()[r]);
    for (std::size_t part = 0; part < 4; ++part, weights += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(weights) + kPrefetchBytes, _MM_HINT_T0);
      const __m512i pairs = _mm512_loadu_si512(weights);
      const __m512i low = _mm512_and_si512(pairs, low_halves);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(pairs, 4), low_halves);
      for (std::size_t r = 0; r < kRows; ++r) {
        dots[r] = _mm512_dpbusd_epi32(dots[r], low, Broadcast4(rows.values(r) + 8 * part));
      }
      for (std::size_t r = 0; r < kRows; ++r) {
        dots[r] = _mm512_dpbusd_epi32(dots[r], high, Broadcast4(rows.values(r) + 8 * part + 4));
      }
    }
    const __m512 scale =
        _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales)));
    scales += kPanel;
    for (std::size_t r = 0; r < kRows; ++r) {
      const __m512 product = _mm512_mul_ps(scale, _mm512_set1_ps(rows.scales()[r]));
      sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), product, sums[r]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) _mm512_storeu_ps(out[r], sums[r]);
}

}  // namespace

void MultiplyAvx512(const Q4Matrix& matrix, std::size_t panel, RowBlock rows, float* const* out) {
  constexpr std::array kMultiply = {Multiply<1>, Multiply<2>, Multiply<3>, Multiply<4>,
                                    Multiply<5>, Multiply<6>, Multiply<7>, Multiply<8>};
  static_assert(kMultiply.size() == kRowGroup);
  kMultiply[rows.size - 1](matrix, panel, rows, out);
}

}  // namespace svc
