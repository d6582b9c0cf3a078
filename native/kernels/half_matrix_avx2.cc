#include <immintrin.h>

#include "kernels/half_matrix.h"

#define SVC_TARGET __attribute__((target("avx2,fma,f16c")))

namespace svc {
namespace {

using Floats = __m256;
constexpr std::size_t kParts = 2;
constexpr std::size_t kOutputs = 3;
constexpr std::size_t kRows = 2;

SVC_TARGET Floats Load(const float* from) { return _mm256_loadu_ps(from); }
SVC_TARGET Floats FromHalves(const std::uint16_t* halves) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}
SVC_TARGET Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
SVC_TARGET __m256 AddHalves(const Floats* parts) { return parts[0] + parts[1]; }

}  // namespace
}  // namespace svc

#include "kernels/half_matrix_of_registers.h"

namespace svc {

void MultiplyHalvesAvx2(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                        const float* const* rows, std::size_t count, float* const* out) {
  MultiplyOfRegisters(matrix, begin, end, rows, count, out);
}

}  // namespace svc
