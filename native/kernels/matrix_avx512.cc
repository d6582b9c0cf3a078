#include <immintrin.h>

#include <array>
#include <cstring>

#include "kernels/matrix_kernel.h"

// Each row has two registers of 16 outputs: sums so far, and sums of the current block. One
// instruction (VPDPBUSD) adds four products of quants and activations to each output.

#define SVC_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace svc {
namespace {

SVC_AVX512 __m512i Broadcast4(const std::uint8_t* bytes) {
  std::int32_t four;
  std::memcpy(&four, bytes, sizeof four);
  return _mm512_set1_epi32(four);
}

SVC_AVX512 __m512 Halves(const std::uint8_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

// Eight quants of each output, four per register.
struct Eight {
  __m512i first;
  __m512i second;
};

// Reads the quants of a block. Read(i) must be called in the order of i, from 0 to 3.
template <std::size_t kBits>
class QuantReader {
 public:
  SVC_AVX512 explicit QuantReader(const std::uint8_t* quants) : quants_(quants) {}

  SVC_AVX512 Eight Read(std::size_t i) {
    if constexpr (kBits == 8) return {Load(2 * i), Load(2 * i + 1)};
    const __m512i pairs = Load(i);
    const __m512i halves = _mm512_set1_epi8(15);
    const Eight low = {_mm512_and_si512(pairs, halves),
                       _mm512_and_si512(_mm512_srli_epi16(pairs, 4), halves)};
    if constexpr (kBits == 4) return low;
    if (i % (4 / kHighBits) == 0) high_ = Load(4 + i * kHighBits / 4);
    const __m512i first = WithHighBits(low.first);
    return {first, WithHighBits(low.second)};
  }

 private:
  static constexpr unsigned kHighBits = kBits == 8 ? 1 : kBits - 4;

  SVC_AVX512 __m512i Load(std::size_t register_index) const {
    const std::uint8_t* from = quants_ + register_index * sizeof(__m512i);
    _mm_prefetch(reinterpret_cast<const char*>(from) + kPrefetchBytes, _MM_HINT_T0);
    return _mm512_loadu_si512(from);
  }

  SVC_AVX512 __m512i WithHighBits(__m512i low) {
    constexpr char kMask = ((1 << kHighBits) - 1) << 4;
    const __m512i bits =
        _mm512_and_si512(_mm512_srli_epi16(high_, 4 - kHighBits), _mm512_set1_epi8(kMask));
    high_ = _mm512_slli_epi16(high_, kHighBits);
    return _mm512_or_si512(low, bits);
  }

  const std::uint8_t* quants_;
  // The bits to be used next are the highest of each byte.
  __m512i high_;
};

template <WeightType kType>
SVC_AVX512 __m512 Bytes(const std::uint8_t* bytes) {
  const __m128i each = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  constexpr bool kAreSigned = !FormatOf(kType).has_mins();
  return _mm512_cvtepi32_ps(kAreSigned ? _mm512_cvtepi8_epi32(each) : _mm512_cvtepu8_epi32(each));
}

// Returns the scales of block `b` of a panel. `index`: number of the scale, or format.scales for
// the min.
template <WeightType kType>
SVC_AVX512 __m512 ScaleOf(const std::uint8_t* scales, std::size_t b, std::size_t index) {
  const __m512 of_source = Halves(scales + WeightMatrix::HalvesAt(kType, b, index));
  if constexpr (!FormatOf(kType).has_nested_scales()) return of_source;
  return _mm512_mul_ps(of_source, Bytes<kType>(scales + WeightMatrix::NestedAt(kType, b, index)));
}

template <WeightType kType, std::size_t kRows>
SVC_AVX512 void Multiply(const WeightMatrix& matrix, std::size_t panel, RowBlock rows,
                         float* const* out) {
  constexpr WeightFormat kFormat = FormatOf(kType);
  const std::uint8_t* quants = matrix.quants(panel);
  const std::uint8_t* scales = matrix.scales(panel);
  __m512 outputs[kRows];
  for (std::size_t r = 0; r < kRows; ++r) outputs[r] = _mm512_setzero_ps();
  rows.size = kRows;
  for (std::size_t b = 0; b < matrix.blocks(); ++b, rows = rows.next()) {
    QuantReader<kFormat.bits> reader(quants);
    quants += WeightMatrix::QuantBytes(kType);
    for (std::size_t s = 0; s < kFormat.scales; ++s) {
      __m512i dots[kRows];
      for (std::size_t r = 0; r < kRows; ++r) {
        dots[r] =
            kFormat.has_mins() ? _mm512_setzero_si512() : _mm512_set1_epi32(rows.offsets(s)[r]);
      }
      for (std::size_t i = 4 * s / kFormat.scales; i < 4 * (s + 1) / kFormat.scales; ++i) {
        const Eight eight = reader.Read(i);
        for (std::size_t r = 0; r < kRows; ++r) {
          dots[r] = _mm512_dpbusd_epi32(dots[r], eight.first, Broadcast4(rows.values(r) + 8 * i));
        }
        for (std::size_t r = 0; r < kRows; ++r) {
          dots[r] =
              _mm512_dpbusd_epi32(dots[r], eight.second, Broadcast4(rows.values(r) + 8 * i + 4));
        }
      }
      const __m512 scale = ScaleOf<kType>(scales, b, s);
      for (std::size_t r = 0; r < kRows; ++r) {
        const __m512 dot = _mm512_cvtepi32_ps(dots[r]);
        const __m512 of_row = _mm512_set1_ps(rows.scales()[r]);
        outputs[r] = _mm512_fmadd_ps(_mm512_mul_ps(dot, of_row), scale, outputs[r]);
      }
      if constexpr (kFormat.has_mins()) {
        const __m512 min = ScaleOf<kType>(scales, b, kFormat.scales);
        for (std::size_t r = 0; r < kRows; ++r) {
          outputs[r] = _mm512_fnmadd_ps(min, _mm512_set1_ps(rows.sums()[r]), outputs[r]);
        }
      }
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) _mm512_storeu_ps(out[r], outputs[r]);
}

template <WeightType kType>
void MultiplyOf(const WeightMatrix& matrix, std::size_t panel, RowBlock rows, float* const* out) {
  constexpr std::array kMultiply = {Multiply<kType, 1>, Multiply<kType, 2>, Multiply<kType, 3>,
                                    Multiply<kType, 4>, Multiply<kType, 5>, Multiply<kType, 6>,
                                    Multiply<kType, 7>, Multiply<kType, 8>};
  static_assert(kMultiply.size() == kRowGroup);
  kMultiply[rows.size - 1](matrix, panel, rows, out);
}

}  // namespace

MultiplyPanel* MultiplyAvx512(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0:
      return MultiplyOf<WeightType::kQ4_0>;
    case WeightType::kQ5_0:
      return MultiplyOf<WeightType::kQ5_0>;
    case WeightType::kQ8_0:
      return MultiplyOf<WeightType::kQ8_0>;
    case WeightType::kQ4K:
      return MultiplyOf<WeightType::kQ4K>;
    case WeightType::kQ5K:
      return MultiplyOf<WeightType::kQ5K>;
    case WeightType::kQ6K:
      return MultiplyOf<WeightType::kQ6K>;
  }
  __builtin_unreachable();
}

}  // namespace svc
