#include <immintrin.h>

#include <cstring>

#include "kernels/matrix_kernel.h"

#define SVC_TARGET __attribute__((target("avx2,fma,f16c")))

namespace svc {
namespace {

using Integers = __m256i;
using Floats = __m256;
constexpr std::size_t kOutputs = 8;
constexpr std::size_t kRows = 4;

SVC_TARGET Integers Load(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
SVC_TARGET Integers BroadcastByte(std::uint8_t byte) {
  return _mm256_set1_epi8(static_cast<char>(byte));
}
SVC_TARGET Integers BroadcastWord(const std::uint8_t* from) {
  std::int32_t word;
  std::memcpy(&word, from, sizeof word);
  return _mm256_set1_epi32(word);
}
SVC_TARGET Integers ShiftLeft(Integers v, int bits) { return _mm256_slli_epi16(v, bits); }
SVC_TARGET Integers ShiftRight(Integers v, int bits) { return _mm256_srli_epi16(v, bits); }

SVC_TARGET Floats Broadcast(float value) { return _mm256_set1_ps(value); }
SVC_TARGET Floats FromHalves(const std::uint8_t* halves) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}
template <bool kAreSigned>
SVC_TARGET Floats FromBytes(const std::uint8_t* bytes) {
  const __m128i each = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
  return _mm256_cvtepi32_ps(kAreSigned ? _mm256_cvtepi8_epi32(each) : _mm256_cvtepu8_epi32(each));
}
SVC_TARGET Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
SVC_TARGET Floats SubtractProduct(Floats c, Floats a, Floats b) {
  return _mm256_fnmadd_ps(a, b, c);
}
SVC_TARGET void Store(Floats v, float* to) { _mm256_storeu_ps(to, v); }

// Adds in 16 bits as many words' products as fit, then in 32 bits. Products of 8-bit quants fit
// only if the quants are signed: they are lowered by 128, which replaces the row's offset.
template <std::size_t kBits, std::size_t kWords>
class Dots {
 public:
  SVC_TARGET void Start(std::int32_t offset) { sums_ = _mm256_set1_epi32(kAreSigned ? 0 : offset); }
  [[gnu::always_inline]] SVC_TARGET void Add(std::size_t i, Integers quants, Integers values) {
    const Integers pairs =
        kAreSigned ? MultiplySigned(quants, values) : _mm256_maddubs_epi16(quants, values);
    narrow_ = i % kIn16Bits == 0 ? pairs : _mm256_add_epi16(narrow_, pairs);
    Pin(narrow_);
    if ((i + 1) % kIn16Bits == 0 || i + 1 == kWords) {
      sums_ = _mm256_add_epi32(sums_, _mm256_madd_epi16(narrow_, _mm256_set1_epi16(1)));
      Pin(sums_);
    }
  }
  SVC_TARGET Floats ToFloats() const { return _mm256_cvtepi32_ps(sums_); }

 private:
  static constexpr bool kAreSigned = kBits == 8;
  // Each word adds two products to each 16-bit sum.
  static constexpr std::size_t kLargestQuant = kAreSigned ? 128 : (1 << kBits) - 1;
  static constexpr std::size_t kIn16Bits = 32767 / (kLargestQuant * 2 * 127);
  static_assert(kIn16Bits > 0);

  // Makes the compiler add here. GCC 12 otherwise multiplies several words before it adds, and has
  // too few registers for the products.
  SVC_TARGET static void Pin(Integers& v) { asm("" : "+x"(v)); }

  SVC_TARGET static Integers MultiplySigned(Integers quants, Integers values) {
    const Integers weights = _mm256_xor_si256(quants, _mm256_set1_epi8(-128));
    return _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(values, weights));
  }

  Integers sums_;
  Integers narrow_;
};

}  // namespace
}  // namespace svc

#include "kernels/matrix_of_registers.h"

namespace svc {

MultiplyPanel* MultiplyAvx2(WeightType type) { return MultiplyOfRegisters(type); }

}  // namespace svc
