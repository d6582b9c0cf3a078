#include "kernels/q4_kernel.h"

#include <array>

namespace svc {
namespace {

constexpr std::array<Q4Kernel, 2> kKernels = {
    {{"AVX512_VNNI", MultiplyAvx512}, {"AVX2", MultiplyAvx2}}};

bool HasAvx512Vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

// Half floats (F16C) are older than AVX2: where that is, they are.
bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

}  // namespace

std::span<const Q4Kernel> Q4Kernels() {
  const std::span<const Q4Kernel> all = kKernels;
  if (!HasAvx2()) return {};
  return HasAvx512Vnni() ? all : all.subspan(1);
}

}  // namespace svc
