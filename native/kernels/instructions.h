#pragma once

#include <array>
#include <span>

namespace svc {

// Instruction sets of this processor.

// True with AVX2, FMA and F16C (half floats).
bool HasAvx2();
// True with AVX-512 F, BW, DQ, VL and VNNI: Intel from Cascade Lake on, AMD from Zen 4 on.
bool HasAvx512();

// Returns the kernels that this processor supports, fastest first. `kernels`: for AVX-512, for
// AVX2; must outlive the result.
template <typename Kernel>
std::span<const Kernel> Supported(const std::array<Kernel, 2>& kernels) {
  const std::span<const Kernel> all = kernels;
  if (!HasAvx2()) return {};
  return HasAvx512() ? all : all.subspan(1);
}

}  // namespace svc
