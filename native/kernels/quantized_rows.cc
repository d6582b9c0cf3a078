#include "kernels/quantized_rows.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace svc {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kParts = kBlock / kLanes;

// Magnitudes up to this count as zero, because 127 / largest could overflow.
constexpr float kLeastLargest = 1e-36F;

// Returns the largest of eight magnitudes. Their bits compare like the numbers; infinity and then
// NaN are the largest.
__attribute__((target("avx2"))) float Largest(__m256i bits) {
  alignas(32) std::array<std::int32_t, kLanes> each;
  _mm256_store_si256(reinterpret_cast<__m256i*>(each.data()), bits);
  return std::bit_cast<float>(*std::max_element(each.begin(), each.end()));
}

// Fills a block that holds infinity or NaN: all products with it are NaN.
void SetBroken(const RowBlock& block, std::size_t row) {
  std::memset(block.values(row), 0, kBlock);
  block.scales()[row] = std::numeric_limits<float>::quiet_NaN();
  block.offsets(0)[row] = 0;
  block.offsets(1)[row] = 0;
  block.sums()[row] = std::numeric_limits<float>::quiet_NaN();
}

__attribute__((target("avx2"))) std::int32_t Sum(__m256i values) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtsi128_si32(sum);
}

}  // namespace

__attribute__((target("avx2"))) void QuantizedRows::Set(std::size_t row,
                                                        const float* values) const {
  const std::size_t in_group = row % kRowGroup;
  RowBlock block = Group(row - in_group);
  for (std::size_t b = 0; b < blocks_; ++b, block = block.next(), values += kBlock) {
    __m256 parts[kParts];
    __m256i magnitudes = _mm256_setzero_si256();
    for (std::size_t i = 0; i < kParts; ++i) {
      parts[i] = _mm256_loadu_ps(values + i * kLanes);
      const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), parts[i]);
      magnitudes = _mm256_max_epi32(magnitudes, _mm256_castps_si256(magnitude));
    }
    const float largest = Largest(magnitudes);
    if (!(largest < std::numeric_limits<float>::infinity())) {
      SetBroken(block, in_group);
      continue;
    }
    const __m256 steps = _mm256_set1_ps(largest > kLeastLargest ? 127 / largest : 0);
    __m256i rounded[kParts];
    for (std::size_t i = 0; i < kParts; ++i) {
      rounded[i] = _mm256_cvtps_epi32(_mm256_mul_ps(parts[i], steps));
    }
    // Packing works within 128-bit halves; the permutation restores the order.
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(rounded[0], rounded[1]),
                                             _mm256_packs_epi32(rounded[2], rounded[3]));
    const __m256i in_order =
        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(block.values(in_group)), in_order);
    const float scale = largest / 127;
    block.scales()[in_group] = scale;
    const std::int32_t first = Sum(_mm256_add_epi32(rounded[0], rounded[1]));
    const std::int32_t second = Sum(_mm256_add_epi32(rounded[2], rounded[3]));
    const bool have_halves = weights_.scales == 2;
    block.offsets(0)[in_group] = -weights_.zero * (have_halves ? first : first + second);
    block.offsets(1)[in_group] = have_halves ? -weights_.zero * second : 0;
    block.sums()[in_group] = scale * static_cast<float>(first + second);
  }
}

}  // namespace svc
