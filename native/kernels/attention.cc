#include "kernels/attention.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#define SVC_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,f16c")))

namespace svc {
namespace {

constexpr std::size_t kLanes = 16;
// Cells whose keys and values are in single precision at a time: those of heads of 64 stay in the
// first cache.
constexpr std::size_t kTile = 32;
constexpr std::size_t kParts = kTile / kLanes;
constexpr float kLog2E = 1.44269504088896340736F;
constexpr std::uint16_t kHalfMinusInfinity = 0xfc00;

// Laid over the bytes that the caller brings.
struct Scratch {
  Scratch(std::uint8_t* bytes, std::size_t head_length, std::size_t heads)
      : keys(reinterpret_cast<float*>(bytes)),
        values(keys + kTile * head_length),
        sums(values + kTile * head_length),
        bias(sums + heads * head_length),
        largest(bias + kTile),
        weight(largest + heads),
        seen(reinterpret_cast<std::int32_t*>(weight + heads)) {}

  float* keys;         // [kTile][head_length]
  float* values;       // [kTile][head_length]
  float* sums;         // [head][head_length], of the values, weighted
  float* bias;         // [kTile]
  float* largest;      // [head], of the scores
  float* weight;       // [head], all in all
  std::int32_t* seen;  // cells, and kLanes more
};

SVC_AVX512 float ToFloat(std::uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

// 2 ** x, for x <= 0. The Taylor series of the rest behind the nearest integer, which is right to
// the last digit but one.
SVC_AVX512 __m512 Exp2(__m512 x) {
  // Below it, single precision ends.
  x = _mm512_max_ps(x, _mm512_set1_ps(-160));
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 rest = _mm512_sub_ps(x, whole);
  __m512 power = _mm512_set1_ps(1.54035304e-4F);
  for (const float coefficient :
       {1.33335581e-3F, 9.61812911e-3F, 5.55041087e-2F, 2.40226507e-1F, 6.93147181e-1F, 1.0F}) {
    power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(coefficient));
  }
  return _mm512_scalef_ps(power, whole);
}

// The sum of each of sixteen registers, in a lane each.
SVC_AVX512 __m512 SumEach(const __m512* parts) {
  __m512 quarters[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const __m512* four = parts + 4 * i;
    const __m512 ab =
        _mm512_add_ps(_mm512_unpacklo_ps(four[0], four[1]), _mm512_unpackhi_ps(four[0], four[1]));
    const __m512 cd =
        _mm512_add_ps(_mm512_unpacklo_ps(four[2], four[3]), _mm512_unpackhi_ps(four[2], four[3]));
    const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    quarters[i] = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
  }
  const __m512 first = _mm512_add_ps(_mm512_shuffle_f32x4(quarters[0], quarters[1], 0x44),
                                     _mm512_shuffle_f32x4(quarters[0], quarters[1], 0xee));
  const __m512 second = _mm512_add_ps(_mm512_shuffle_f32x4(quarters[2], quarters[3], 0x44),
                                      _mm512_shuffle_f32x4(quarters[2], quarters[3], 0xee));
  return _mm512_add_ps(_mm512_shuffle_f32x4(first, second, 0x88),
                       _mm512_shuffle_f32x4(first, second, 0xdd));
}

// Lists the cells that the row sees.
SVC_AVX512 std::size_t FindSeen(const Attention& attention, std::int32_t* seen) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m256i hidden = _mm256_set1_epi16(static_cast<std::int16_t>(kHalfMinusInfinity));
  std::size_t count = 0;
  for (std::size_t cell = 0; cell < attention.cells; cell += kLanes) {
    const std::size_t left = std::min(kLanes, attention.cells - cell);
    auto visible = static_cast<__mmask16>((1U << left) - 1);
    if (attention.mask != nullptr) {
      const __m256i mask = _mm256_maskz_loadu_epi16(visible, attention.mask + cell);
      visible = _mm256_mask_cmpneq_epi16_mask(visible, mask, hidden);
    }
    if (visible == 0) continue;
    const __m512i here = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(cell)));
    _mm512_storeu_si512(seen + count, _mm512_maskz_compress_epi32(visible, here));
    count += static_cast<std::size_t>(__builtin_popcount(visible));
  }
  return count;
}

template <std::size_t kVectors>
SVC_AVX512 void Widen(const std::uint16_t* halves, float* floats) {
  for (std::size_t i = 0; i < kVectors; ++i) {
    const auto* source = reinterpret_cast<const __m256i*>(halves + i * kLanes);
    _mm512_storeu_ps(floats + i * kLanes, _mm512_cvtph_ps(_mm256_loadu_si256(source)));
  }
}

// The scores of a head for the tile's keys, to the base of two; minus infinity behind the last one.
template <std::size_t kVectors>
SVC_AVX512 void Score(const float* query, float scale, const Scratch& scratch, std::size_t count,
                      __m512* scores) {
  __m512 head[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) {
    head[i] = _mm512_mul_ps(_mm512_loadu_ps(query + i * kLanes), _mm512_set1_ps(scale * kLog2E));
  }
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::size_t first = part * kLanes;
    if (first >= count) {
      scores[part] = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
      continue;
    }
    __m512 products[kLanes];
    for (std::size_t cell = 0; cell < kLanes; ++cell) {
      const float* key = scratch.keys + (first + cell) * kVectors * kLanes;
      products[cell] = _mm512_mul_ps(head[0], _mm512_loadu_ps(key));
      for (std::size_t i = 1; i < kVectors; ++i) {
        products[cell] =
            _mm512_fmadd_ps(head[i], _mm512_loadu_ps(key + i * kLanes), products[cell]);
      }
    }
    const __m512 sums = _mm512_add_ps(SumEach(products), _mm512_loadu_ps(scratch.bias + first));
    const std::size_t left = std::min(kLanes, count - first);
    const auto present = static_cast<__mmask16>((1U << left) - 1);
    scores[part] = _mm512_mask_blend_ps(
        present, _mm512_set1_ps(-std::numeric_limits<float>::infinity()), sums);
  }
}

// Adds the tile's values to a head's sums, each with the weight of its score.
template <std::size_t kVectors>
SVC_AVX512 void Add(const __m512* scores, const Scratch& scratch, std::size_t count,
                    std::size_t head) {
  float& largest = scratch.largest[head];
  const float before = largest;
  for (std::size_t part = 0; part < kParts; ++part) {
    largest = std::max(largest, _mm512_reduce_max_ps(scores[part]));
  }
  alignas(64) float weights[kTile];
  __m512 total = _mm512_setzero_ps();
  for (std::size_t part = 0; part < kParts; ++part) {
    const __m512 weight = Exp2(_mm512_sub_ps(scores[part], _mm512_set1_ps(largest)));
    _mm512_store_ps(weights + part * kLanes, weight);
    const std::size_t first = part * kLanes;
    const std::size_t left = count > first ? std::min(kLanes, count - first) : 0;
    total = _mm512_mask_add_ps(total, static_cast<__mmask16>((1U << left) - 1), total, weight);
  }
  const float shrink = std::exp2(before - largest);
  scratch.weight[head] = scratch.weight[head] * shrink + _mm512_reduce_add_ps(total);

  float* const sums = scratch.sums + head * kVectors * kLanes;
  __m512 sum[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) {
    sum[i] = _mm512_mul_ps(_mm512_loadu_ps(sums + i * kLanes), _mm512_set1_ps(shrink));
  }
  for (std::size_t cell = 0; cell < count; ++cell) {
    const float* value = scratch.values + cell * kVectors * kLanes;
    const __m512 weight = _mm512_set1_ps(weights[cell]);
    for (std::size_t i = 0; i < kVectors; ++i) {
      sum[i] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(value + i * kLanes), sum[i]);
    }
  }
  for (std::size_t i = 0; i < kVectors; ++i) _mm512_storeu_ps(sums + i * kLanes, sum[i]);
}

template <std::size_t kVectors>
SVC_AVX512 void AttendWith(const Attention& attention, std::uint8_t* bytes) {
  constexpr std::size_t kLength = kVectors * kLanes;
  const Scratch scratch(bytes, kLength, attention.heads);
  const std::size_t seen = FindSeen(attention, scratch.seen);
  std::fill_n(scratch.sums, attention.heads * kLength, 0.0F);
  std::fill_n(scratch.weight, attention.heads, 0.0F);
  std::fill_n(scratch.largest, attention.heads, -std::numeric_limits<float>::infinity());
  for (std::size_t first = 0; first < seen; first += kTile) {
    const std::size_t count = std::min(kTile, seen - first);
    for (std::size_t i = 0; i < count; ++i) {
      const auto cell = static_cast<std::size_t>(scratch.seen[first + i]);
      Widen<kVectors>(attention.keys + cell * attention.key_stride, scratch.keys + i * kLength);
      Widen<kVectors>(attention.values + cell * attention.value_stride,
                      scratch.values + i * kLength);
      scratch.bias[i] = attention.mask == nullptr ? 0 : ToFloat(attention.mask[cell]) * kLog2E;
    }
    for (std::size_t head = 0; head < attention.heads; ++head) {
      __m512 scores[kParts];
      Score<kVectors>(attention.queries + head * attention.query_stride, attention.scale, scratch,
                      count, scores);
      Add<kVectors>(scores, scratch, count, head);
    }
  }
  for (std::size_t head = 0; head < attention.heads; ++head) {
    const float weight = scratch.weight[head];
    const __m512 share = _mm512_set1_ps(weight == 0 ? 0 : 1 / weight);
    for (std::size_t i = 0; i < kLength; i += kLanes) {
      const __m512 sum = _mm512_loadu_ps(scratch.sums + head * kLength + i);
      _mm512_storeu_ps(attention.outputs + head * attention.output_stride + i,
                       _mm512_mul_ps(sum, share));
    }
  }
}

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

}  // namespace

bool CanAttend(std::size_t head_length) {
  constexpr std::array<std::size_t, 6> kLengths = {32, 64, 80, 96, 128, 256};
  return HasAvx512() && std::find(kLengths.begin(), kLengths.end(), head_length) != kLengths.end();
}

std::size_t AttentionScratch(std::size_t head_length, std::size_t heads, std::size_t cells) {
  const std::size_t floats = 2 * kTile * head_length + heads * (head_length + 2) + kTile;
  const std::size_t bytes = floats * sizeof(float) + (cells + kLanes) * sizeof(std::int32_t);
  return (bytes + 63) / 64 * 64;
}

void Attend(const Attention& attention, std::uint8_t* scratch) {
  switch (attention.head_length) {
    case 32:
      return AttendWith<2>(attention, scratch);
    case 64:
      return AttendWith<4>(attention, scratch);
    case 80:
      return AttendWith<5>(attention, scratch);
    case 96:
      return AttendWith<6>(attention, scratch);
    case 128:
      return AttendWith<8>(attention, scratch);
    default:
      return AttendWith<16>(attention, scratch);
  }
}

}  // namespace svc
