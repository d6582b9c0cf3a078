#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/matrix_kernel.h"

// As with AVX-512, but with half as many outputs per register and half as many registers: eight
// outputs of up to four rows at a time. As many products as fit are added in 16 bits. With 8-bit
// quants two products fit only if the quants are signed.

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

SVC_AVX2 __m256 Halves(const std::uint8_t* halves) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}

// Eight quants of each output, or eight values; four per register.
struct Eight {
  __m256i first;
  __m256i second;
};

// Reads the quants of a block. Read(i) must be called in the order of i, from 0 to 3.
template <std::size_t kBits>
class QuantReader {
 public:
  SVC_AVX2 explicit QuantReader(const std::uint8_t* quants) : quants_(quants) {}

  SVC_AVX2 Eight Read(std::size_t i) {
    if constexpr (kBits == 8) return {Load(2 * i), Load(2 * i + 1)};
    const __m256i pairs = Load(i);
    const __m256i halves = _mm256_set1_epi8(15);
    const Eight low = {_mm256_and_si256(pairs, halves),
                       _mm256_and_si256(_mm256_srli_epi16(pairs, 4), halves)};
    if constexpr (kBits == 4) return low;
    if (i % (4 / kHighBits) == 0) high_ = Load(4 + i * kHighBits / 4);
    const __m256i first = WithHighBits(low.first);
    return {first, WithHighBits(low.second)};
  }

 private:
  static constexpr unsigned kHighBits = kBits % 4 == 0 ? 1 : kBits - 4;

  SVC_AVX2 __m256i Load(std::size_t of_panel) const {
    const std::uint8_t* from = quants_ + of_panel * kPanel * 4;
    _mm_prefetch(reinterpret_cast<const char*>(from) + kPrefetchBytes, _MM_HINT_T0);
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }

  SVC_AVX2 __m256i WithHighBits(__m256i low) {
    constexpr char kMask = ((1 << kHighBits) - 1) << 4;
    const __m256i bits =
        _mm256_and_si256(_mm256_srli_epi16(high_, 4 - kHighBits), _mm256_set1_epi8(kMask));
    high_ = _mm256_slli_epi16(high_, kHighBits);
    return _mm256_or_si256(low, bits);
  }

  const std::uint8_t* quants_;
  // The bits to be used next are the highest of each byte.
  __m256i high_;
};

template <WeightType kType>
SVC_AVX2 __m256 Bytes(const std::uint8_t* bytes) {
  const __m128i each = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
  constexpr bool kAreSigned = !FormatOf(kType).has_mins();
  return _mm256_cvtepi32_ps(kAreSigned ? _mm256_cvtepi8_epi32(each) : _mm256_cvtepu8_epi32(each));
}

// Returns the scales of block `b` of a panel, from output `output` on. `index`: number of the
// scale, or format.scales for the min.
template <WeightType kType>
SVC_AVX2 __m256 ScaleOf(const std::uint8_t* scales, std::size_t output, std::size_t b,
                        std::size_t index) {
  const __m256 of_source =
      Halves(scales + WeightMatrix::HalvesAt(kType, b, index) + output * sizeof(std::uint16_t));
  if constexpr (!FormatOf(kType).has_nested_scales()) return of_source;
  return _mm256_mul_ps(of_source,
                       Bytes<kType>(scales + WeightMatrix::NestedAt(kType, b, index) + output));
}

// Multiplies quant - 128 by the values; returns sums of two products.
SVC_AVX2 __m256i MultiplySigned(__m256i quants, __m256i values) {
  const __m256i weights = _mm256_xor_si256(quants, _mm256_set1_epi8(-128));
  return _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(values, weights));
}

// `first`: first of kRows rows in the group. `output`: first of eight outputs in the panel.
template <WeightType kType, std::size_t kRows>
SVC_AVX2 void Multiply(const WeightMatrix& matrix, std::size_t panel, std::size_t output,
                       RowBlock rows, std::size_t first, float* const* out) {
  constexpr WeightFormat kFormat = FormatOf(kType);
  constexpr bool kAreSigned = kFormat.bits == 8;
  // Number of reads whose products fit into 16 bits: each read adds four products per lane.
  constexpr std::size_t kIn16Bits = kAreSigned ? 1 : 32767 / (4 * 127 * ((1 << kFormat.bits) - 1));
  static_assert(kIn16Bits > 0);
  constexpr std::size_t kPerScale = 4 / kFormat.scales;
  const std::uint8_t* quants = matrix.quants(panel) + output * 4;
  const std::uint8_t* scales = matrix.scales(panel);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 outputs[kRows];
  for (std::size_t r = 0; r < kRows; ++r) outputs[r] = _mm256_setzero_ps();
  for (std::size_t b = 0; b < matrix.blocks(); ++b, rows = rows.next()) {
    QuantReader<kFormat.bits> reader(quants);
    quants += WeightMatrix::QuantBytes(kType);
    for (std::size_t s = 0; s < kFormat.scales; ++s) {
      __m256i dots[kRows];
      __m256i narrow[kRows];
      for (std::size_t r = 0; r < kRows; ++r) {
        dots[r] = kFormat.has_mins() || kAreSigned ? _mm256_setzero_si256()
                                                   : _mm256_set1_epi32(rows.offsets(s)[first + r]);
      }
      for (std::size_t i = 0; i < kPerScale; ++i) {
        const Eight eight = reader.Read(s * kPerScale + i);
        for (std::size_t r = 0; r < kRows; ++r) {
          const std::uint8_t* bytes = rows.values(first + r) + 8 * (s * kPerScale + i);
          const Eight values = {Broadcast4(bytes), Broadcast4(bytes + 4)};
          if constexpr (kAreSigned) {
            const __m256i sums = _mm256_add_epi32(
                _mm256_madd_epi16(MultiplySigned(eight.first, values.first), ones),
                _mm256_madd_epi16(MultiplySigned(eight.second, values.second), ones));
            dots[r] = _mm256_add_epi32(dots[r], sums);
            continue;
          }
          const __m256i sums = _mm256_add_epi16(_mm256_maddubs_epi16(eight.first, values.first),
                                                _mm256_maddubs_epi16(eight.second, values.second));
          narrow[r] = i % kIn16Bits == 0 ? sums : _mm256_add_epi16(narrow[r], sums);
          if ((i + 1) % kIn16Bits == 0 || i + 1 == kPerScale) {
            dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(narrow[r], ones));
          }
        }
      }
      const __m256 scale = ScaleOf<kType>(scales, output, b, s);
      for (std::size_t r = 0; r < kRows; ++r) {
        const __m256 dot = _mm256_cvtepi32_ps(dots[r]);
        const __m256 of_row = _mm256_set1_ps(rows.scales()[first + r]);
        outputs[r] = _mm256_fmadd_ps(_mm256_mul_ps(dot, of_row), scale, outputs[r]);
      }
      if constexpr (kFormat.has_mins()) {
        const __m256 min = ScaleOf<kType>(scales, output, b, kFormat.scales);
        for (std::size_t r = 0; r < kRows; ++r) {
          outputs[r] = _mm256_fnmadd_ps(min, _mm256_set1_ps(rows.sums()[first + r]), outputs[r]);
        }
      }
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) _mm256_storeu_ps(out[first + r] + output, outputs[r]);
}

template <WeightType kType>
void MultiplyOf(const WeightMatrix& matrix, std::size_t panel, RowBlock rows, float* const* out) {
  constexpr std::array kMultiply = {Multiply<kType, 1>, Multiply<kType, 2>, Multiply<kType, 3>,
                                    Multiply<kType, 4>};
  static_assert(kMultiply.size() == kMostRows);
  for (std::size_t output = 0; output < kPanel; output += kOutputs) {
    for (std::size_t first = 0; first < rows.size; first += kMostRows) {
      const std::size_t count = std::min(kMostRows, rows.size - first);
      kMultiply[count - 1](matrix, panel, output, rows, first, out);
    }
  }
}

}  // namespace

MultiplyPanel* MultiplyAvx2(WeightType type) {
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
