#include <immintrin.h>

#include "kernels/attention.h"

#define SVC_TARGET __attribute__((target("avx2,fma,f16c")))

namespace svc {
namespace {

struct Vector {
  __m256 low;
  __m256 high;
};
constexpr std::size_t kRegisters = 6;

SVC_TARGET Vector Broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
SVC_TARGET Vector Load(const float* from) {
  return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
SVC_TARGET void Store(Vector v, float* to) {
  _mm256_storeu_ps(to, v.low);
  _mm256_storeu_ps(to + 8, v.high);
}
SVC_TARGET Vector Add(Vector a, Vector b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
SVC_TARGET Vector Subtract(Vector a, Vector b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
SVC_TARGET Vector Multiply(Vector a, Vector b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
SVC_TARGET Vector MultiplyAdd(Vector a, Vector b, Vector c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
SVC_TARGET Vector Max(Vector a, Vector b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

SVC_TARGET Vector Nearest(Vector v) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(v.low, kMode), _mm256_round_ps(v.high, kMode)};
}

SVC_TARGET __m256 PowerOf2(__m256i exponents) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(exponents, _mm256_set1_epi32(127)), 23));
}
// In two steps: 2^e may be subnormal, 2^(e/2) is not.
SVC_TARGET __m256 TimesPowerOf2(__m256 v, __m256 exponents) {
  const __m256i whole = _mm256_cvtps_epi32(exponents);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  return _mm256_mul_ps(_mm256_mul_ps(v, PowerOf2(half)), PowerOf2(_mm256_sub_epi32(whole, half)));
}
SVC_TARGET Vector TimesPowerOf2(Vector v, Vector exponents) {
  return {TimesPowerOf2(v.low, exponents.low), TimesPowerOf2(v.high, exponents.high)};
}

SVC_TARGET Vector FromHalves(const std::uint16_t* halves) {
  const auto* source = reinterpret_cast<const __m128i*>(halves);
  return {_mm256_cvtph_ps(_mm_loadu_si128(source)), _mm256_cvtph_ps(_mm_loadu_si128(source + 1))};
}

SVC_TARGET Vector SelectFirst(std::size_t count, Vector first, Vector rest) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i counts = _mm256_set1_epi32(static_cast<int>(count));
  const __m256i of_high = _mm256_sub_epi32(counts, _mm256_set1_epi32(8));
  return {
      _mm256_blendv_ps(rest.low, first.low, _mm256_castsi256_ps(_mm256_cmpgt_epi32(counts, lanes))),
      _mm256_blendv_ps(rest.high, first.high,
                       _mm256_castsi256_ps(_mm256_cmpgt_epi32(of_high, lanes)))};
}

SVC_TARGET __m256 LowHalf(Vector v) { return v.low; }
SVC_TARGET __m256 HighHalf(Vector v) { return v.high; }
SVC_TARGET Vector Join(__m256 low, __m256 high) { return {low, high}; }

SVC_TARGET std::uint32_t Differing(const std::uint16_t* halves, std::size_t count,
                                   std::uint16_t from) {
  if (count < kVectorLength) {
    std::uint32_t set = 0;
    for (std::size_t i = 0; i < count; ++i) set |= std::uint32_t{halves[i] != from} << i;
    return set;
  }
  const auto* source = reinterpret_cast<const __m128i*>(halves);
  const __m128i same = _mm_set1_epi16(static_cast<std::int16_t>(from));
  const __m128i equal = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_loadu_si128(source), same),
                                        _mm_cmpeq_epi16(_mm_loadu_si128(source + 1), same));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(equal)) ^ 0xffff;
}

SVC_TARGET void StoreNumbers(std::uint32_t set, std::int32_t first, std::int32_t* to) {
  for (; set != 0; set &= set - 1) *to++ = first + __builtin_ctz(set);
}

}  // namespace
}  // namespace svc

#include "kernels/attention_of_avx.h"
#include "kernels/attention_of_vectors.h"

namespace svc {

void AttendAvx2(const Attention& attention, std::uint8_t* scratch) {
  AttendOfVectors(attention, scratch);
}

}  // namespace svc
