#include <arm_neon.h>

#include "kernels/attention.h"

// Every AArch64 processor has these instructions.
#define SVC_TARGET

namespace svc {
namespace {

constexpr std::size_t kQuarters = 4;
struct Vector {
  float32x4_t quarters[kQuarters];
};
constexpr std::size_t kRegisters = 6;

// Calls `make` for each number of a quarter.
template <typename Make>
Vector EachQuarter(Make make) {
  return {{make(0), make(1), make(2), make(3)}};
}

Vector Broadcast(float value) {
  return EachQuarter([&](std::size_t) { return vdupq_n_f32(value); });
}
Vector Load(const float* from) {
  return EachQuarter([&](std::size_t i) { return vld1q_f32(from + 4 * i); });
}
void Store(Vector v, float* to) {
  for (std::size_t i = 0; i < kQuarters; ++i) vst1q_f32(to + 4 * i, v.quarters[i]);
}
Vector Add(Vector a, Vector b) {
  return EachQuarter([&](std::size_t i) { return vaddq_f32(a.quarters[i], b.quarters[i]); });
}
Vector Subtract(Vector a, Vector b) {
  return EachQuarter([&](std::size_t i) { return vsubq_f32(a.quarters[i], b.quarters[i]); });
}
Vector Multiply(Vector a, Vector b) {
  return EachQuarter([&](std::size_t i) { return vmulq_f32(a.quarters[i], b.quarters[i]); });
}
Vector MultiplyAdd(Vector a, Vector b, Vector c) {
  return EachQuarter(
      [&](std::size_t i) { return vfmaq_f32(c.quarters[i], a.quarters[i], b.quarters[i]); });
}

// Not vmaxq_f32, which returns NaN if either is NaN: x86 returns b.
float32x4_t Max(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
Vector Max(Vector a, Vector b) {
  return EachQuarter([&](std::size_t i) { return Max(a.quarters[i], b.quarters[i]); });
}

Vector Nearest(Vector v) {
  return EachQuarter([&](std::size_t i) { return vrndnq_f32(v.quarters[i]); });
}

float32x4_t PowerOf2(int32x4_t exponents) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(exponents, vdupq_n_s32(127)), 23));
}
// In two steps: 2^e may be subnormal, 2^(e/2) is not.
float32x4_t TimesPowerOf2(float32x4_t v, float32x4_t exponents) {
  const int32x4_t whole = vcvtq_s32_f32(exponents);
  const int32x4_t half = vshrq_n_s32(whole, 1);
  return vmulq_f32(vmulq_f32(v, PowerOf2(half)), PowerOf2(vsubq_s32(whole, half)));
}
Vector TimesPowerOf2(Vector v, Vector exponents) {
  return EachQuarter(
      [&](std::size_t i) { return TimesPowerOf2(v.quarters[i], exponents.quarters[i]); });
}

float32x4_t FourFromHalves(const std::uint16_t* halves) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves)));
}
Vector FromHalves(const std::uint16_t* halves) {
  return EachQuarter([&](std::size_t i) { return FourFromHalves(halves + 4 * i); });
}
float ToFloat(std::uint16_t half) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}

Vector SelectFirst(std::size_t count, Vector first, Vector rest) {
  const uint32x4_t lanes = {0, 1, 2, 3};
  return EachQuarter([&](std::size_t i) {
    const uint32x4_t numbers = vaddq_u32(lanes, vdupq_n_u32(static_cast<std::uint32_t>(4 * i)));
    const uint32x4_t is_first = vcltq_u32(numbers, vdupq_n_u32(static_cast<std::uint32_t>(count)));
    return vbslq_f32(is_first, first.quarters[i], rest.quarters[i]);
  });
}

// In the order of attention_of_avx.h, which NaN depends on.
float Largest(Vector v) {
  float32x4_t four = Max(Max(v.quarters[0], v.quarters[2]), Max(v.quarters[1], v.quarters[3]));
  four = Max(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(Max(four, vextq_f32(four, four, 1)), 0);
}

using Folded = float32x4_t;
Folded Fold(Vector v) {
  return vaddq_f32(vaddq_f32(v.quarters[0], v.quarters[2]),
                   vaddq_f32(v.quarters[1], v.quarters[3]));
}

// Adds those two apart, of two Folded.
float32x4_t AddTwoApart(Folded a, Folded b) {
  const float64x2_t from = vreinterpretq_f64_f32(a);
  const float64x2_t other = vreinterpretq_f64_f32(b);
  return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(from, other)),
                   vreinterpretq_f32_f64(vzip2q_f64(from, other)));
}
float Sum(Vector v) {
  const Folded folded = Fold(v);
  const float32x4_t two = AddTwoApart(folded, folded);
  return vgetq_lane_f32(vpaddq_f32(two, two), 0);
}
Vector SumEach(const Folded* parts) {
  return EachQuarter([&](std::size_t i) {
    const Folded* four = parts + 4 * i;
    return vpaddq_f32(AddTwoApart(four[0], four[1]), AddTwoApart(four[2], four[3]));
  });
}

std::uint32_t Differing(const std::uint16_t* halves, std::size_t count, std::uint16_t from) {
  if (count < kVectorLength) {
    std::uint32_t set = 0;
    for (std::size_t i = 0; i < count; ++i) set |= std::uint32_t{halves[i] != from} << i;
    return set;
  }
  const auto differing = [&](const std::uint16_t* eight) -> std::uint32_t {
    const uint16x8_t equal = vceqq_u16(vld1q_u16(eight), vdupq_n_u16(from));
    const uint8x8_t bits = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddv_u8(vbic_u8(bits, vmovn_u16(equal)));
  };
  return differing(halves) | differing(halves + 8) << 8;
}

void StoreNumbers(std::uint32_t set, std::int32_t first, std::int32_t* to) {
  for (; set != 0; set &= set - 1) *to++ = first + __builtin_ctz(set);
}

}  // namespace
}  // namespace svc

#include "kernels/attention_of_vectors.h"

namespace svc {

void AttendNeon(const Attention& attention, std::uint8_t* scratch) {
  AttendOfVectors(attention, scratch);
}

}  // namespace svc
