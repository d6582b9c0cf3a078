#include "kernels/half_matrix.h"

#include <array>

#include "kernels/instructions.h"

namespace svc {

std::span<const HalfKernel> HalfKernels() {
  static constexpr std::array<HalfKernel, 2> kKernels = {MultiplyHalvesAvx512, MultiplyHalvesAvx2};
  return Supported(kKernels);
}

}  // namespace svc
