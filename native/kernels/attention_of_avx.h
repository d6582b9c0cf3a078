// Parts of attention that AVX2 and AVX-512 share. Included by their files, which define SVC_TARGET
// and in this namespace Vector and
//
//   LowHalf, HighHalf, Join split a Vector into eight floats each, and back.
#pragma once

#include <immintrin.h>

#include "kernels/attention.h"
#include "kernels/sum_of_eight.h"

namespace svc {
namespace {

SVC_TARGET float ToFloat(std::uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

SVC_TARGET float Largest(Vector v) {
  const __m256 eight = _mm256_max_ps(LowHalf(v), HighHalf(v));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

using Folded = __m256;
SVC_TARGET Folded Fold(Vector v) { return _mm256_add_ps(LowHalf(v), HighHalf(v)); }

SVC_TARGET float Sum(Vector v) { return SumOfEight(Fold(v)); }

// Returns the sums of eight registers, one per lane.
SVC_TARGET __m256 SumEachOfEight(const Folded* parts) {
  __m256 pairs[4];
  for (std::size_t i = 0; i < 4; ++i) {
    pairs[i] = _mm256_add_ps(_mm256_permute2f128_ps(parts[i], parts[i + 4], 0x20),
                             _mm256_permute2f128_ps(parts[i], parts[i + 4], 0x31));
  }
  const __m256 ab =
      _mm256_add_ps(_mm256_unpacklo_ps(pairs[0], pairs[1]), _mm256_unpackhi_ps(pairs[0], pairs[1]));
  const __m256 cd =
      _mm256_add_ps(_mm256_unpacklo_ps(pairs[2], pairs[3]), _mm256_unpackhi_ps(pairs[2], pairs[3]));
  const __m256d first = _mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
  const __m256d second = _mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
  return _mm256_add_ps(_mm256_castpd_ps(first), _mm256_castpd_ps(second));
}
SVC_TARGET Vector SumEach(const Folded* parts) {
  return Join(SumEachOfEight(parts), SumEachOfEight(parts + 8));
}

}  // namespace
}  // namespace svc
