#include <cpuid.h>

#include "kernels/kernels.h"

namespace svc {
namespace {

constexpr Kernels kAll[] = {
    {"AVX512_VNNI", MultiplyAvx512, MultiplyHalvesAvx512, AttendAvx512,
     /*are_measured=*/true},
    {"AVX2", MultiplyAvx2, MultiplyHalvesAvx2, AttendAvx2, /*are_measured=*/true},
};

// __builtin_cpu_supports does not know "f16c" in clang 14, which clang-tidy uses.
bool HasF16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
}

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

}  // namespace

std::span<const Kernels> SupportedKernels() {
  const std::span<const Kernels> all = kAll;
  if (!HasAvx2()) return {};
  return HasAvx512() ? all : all.subspan(1);
}

}  // namespace svc
