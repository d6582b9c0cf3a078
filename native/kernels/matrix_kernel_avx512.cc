#include <immintrin.h>

#include <cstring>

#include "kernels/matrix_kernel.h"

#define SVC_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace svc {
namespace {

using Integers = __m512i;
using Floats = __m512;
constexpr std::size_t kOutputs = 16;
constexpr std::size_t kRows = 8;

SVC_TARGET Integers Load(const std::uint8_t* from) { return _mm512_loadu_si512(from); }
SVC_TARGET Integers BroadcastByte(std::uint8_t byte) {
  return _mm512_set1_epi8(static_cast<char>(byte));
}
SVC_TARGET Integers BroadcastWord(const std::uint8_t* from) {
  std::int32_t word;
  std::memcpy(&word, from, sizeof word);
  return _mm512_set1_epi32(word);
}
SVC_TARGET Integers ShiftLeft(Integers v, int bits) { return _mm512_slli_epi16(v, bits); }
SVC_TARGET Integers ShiftRight(Integers v, int bits) { return _mm512_srli_epi16(v, bits); }

SVC_TARGET Floats Broadcast(float value) { return _mm512_set1_ps(value); }
SVC_TARGET Floats FromHalves(const std::uint8_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}
template <bool kAreSigned>
SVC_TARGET Floats FromBytes(const std::uint8_t* bytes) {
  const __m128i each = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return _mm512_cvtepi32_ps(kAreSigned ? _mm512_cvtepi8_epi32(each) : _mm512_cvtepu8_epi32(each));
}
SVC_TARGET Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
SVC_TARGET Floats SubtractProduct(Floats c, Floats a, Floats b) {
  return _mm512_fnmadd_ps(a, b, c);
}
SVC_TARGET void Store(Floats v, float* to) { _mm512_storeu_ps(to, v); }

// One instruction (VPDPBUSD) adds four products to each sum.
template <std::size_t kBits, std::size_t kWords>
class Dots {
 public:
  SVC_TARGET void Start(std::int32_t offset) { sums_ = _mm512_set1_epi32(offset); }
  [[gnu::always_inline]] SVC_TARGET void Add(std::size_t /*i*/, Integers quants, Integers values) {
    sums_ = _mm512_dpbusd_epi32(sums_, quants, values);
  }
  SVC_TARGET Floats ToFloats() const { return _mm512_cvtepi32_ps(sums_); }

 private:
  Integers sums_;
};

}  // namespace
}  // namespace svc

#include "kernels/matrix_of_registers.h"

namespace svc {

MultiplyPanel* MultiplyAvx512(WeightType type) { return MultiplyOfRegisters(type); }

}  // namespace svc
