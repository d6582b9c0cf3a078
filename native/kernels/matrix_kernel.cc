#include "kernels/matrix_kernel.h"

#include <array>

#include "kernels/instructions.h"

namespace svc {

std::span<const MatrixKernel> MatrixKernels() {
  static constexpr std::array<MatrixKernel, 2> kKernels = {
      {{"AVX512_VNNI", MultiplyAvx512}, {"AVX2", MultiplyAvx2}}};
  const std::span<const MatrixKernel> all = kKernels;
  if (!HasAvx2()) return {};
  return HasAvx512() ? all : all.subspan(1);
}

}  // namespace svc
