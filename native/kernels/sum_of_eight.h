#pragma once

#include <immintrin.h>

namespace svc {

// Returns the sum of eight floats: those four apart are added first, then those two apart.
__attribute__((target("avx"))) inline float SumOfEight(__m256 v) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

}  // namespace svc
