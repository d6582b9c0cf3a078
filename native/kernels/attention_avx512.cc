#include <immintrin.h>

#include "kernels/attention.h"

#define SVC_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")))

namespace svc {
namespace {

using Vector = __m512;
constexpr std::size_t kRegisters = 16;

SVC_TARGET Vector Broadcast(float value) { return _mm512_set1_ps(value); }
SVC_TARGET Vector Load(const float* from) { return _mm512_loadu_ps(from); }
SVC_TARGET void Store(Vector v, float* to) { _mm512_storeu_ps(to, v); }
SVC_TARGET Vector Add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
SVC_TARGET Vector Subtract(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
SVC_TARGET Vector Multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
SVC_TARGET Vector MultiplyAdd(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
SVC_TARGET Vector Max(Vector a, Vector b) { return _mm512_max_ps(a, b); }

SVC_TARGET Vector Nearest(Vector v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

SVC_TARGET Vector TimesPowerOf2(Vector v, Vector exponents) {
  return _mm512_scalef_ps(v, exponents);
}

SVC_TARGET Vector FromHalves(const std::uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

SVC_TARGET Vector SelectFirst(std::size_t count, Vector first, Vector rest) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>((1U << count) - 1), rest, first);
}

SVC_TARGET __m256 LowHalf(Vector v) { return _mm512_castps512_ps256(v); }
SVC_TARGET __m256 HighHalf(Vector v) { return _mm512_extractf32x8_ps(v, 1); }
SVC_TARGET Vector Join(__m256 low, __m256 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

SVC_TARGET std::uint32_t Differing(const std::uint16_t* halves, std::size_t count,
                                   std::uint16_t from) {
  const auto present = static_cast<__mmask16>((1U << count) - 1);
  return _mm256_mask_cmpneq_epi16_mask(present, _mm256_maskz_loadu_epi16(present, halves),
                                       _mm256_set1_epi16(static_cast<std::int16_t>(from)));
}

SVC_TARGET void StoreNumbers(std::uint32_t set, std::int32_t first, std::int32_t* to) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(first));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(set), numbers));
}

}  // namespace
}  // namespace svc

#include "kernels/attention_of_avx.h"
#include "kernels/attention_of_vectors.h"

namespace svc {

void AttendAvx512(const Attention& attention, std::uint8_t* scratch) {
  AttendOfVectors(attention, scratch);
}

}  // namespace svc
