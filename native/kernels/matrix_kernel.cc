#include "kernels/matrix_kernel.h"

#include <array>

#include "kernels/instructions.h"

namespace svc {

std::span<const MatrixKernel> MatrixKernels() {
  static constexpr std::array<MatrixKernel, 2> kKernels = {
      {{"AVX512_VNNI", MultiplyAvx512}, {"AVX2", MultiplyAvx2}}};
  return Supported(kKernels);
}

}  // namespace svc
