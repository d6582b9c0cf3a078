#include <immintrin.h>

#include "kernels/half_matrix.h"

#define SVC_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")))

namespace svc {
namespace {

using Floats = __m512;
constexpr std::size_t kParts = 1;
constexpr std::size_t kOutputs = 4;
constexpr std::size_t kRows = 6;

SVC_TARGET Floats Load(const float* from) { return _mm512_loadu_ps(from); }
SVC_TARGET Floats FromHalves(const std::uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}
SVC_TARGET Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
SVC_TARGET __m256 AddHalves(const Floats* parts) {
  return _mm512_castps512_ps256(parts[0]) + _mm512_extractf32x8_ps(parts[0], 1);
}

}  // namespace
}  // namespace svc

#include "kernels/half_matrix_of_registers.h"

namespace svc {

void MultiplyHalvesAvx512(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                          const float* const* rows, std::size_t count, float* const* out) {
  MultiplyOfRegisters(matrix, begin, end, rows, count, out);
}

}  // namespace svc
