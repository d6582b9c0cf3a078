#include "kernels/half_matrix.h"

#include "kernels/instructions.h"

namespace svc {

MultiplyHalves* HalfKernel() { return HasAvx512() ? MultiplyHalvesAvx512 : nullptr; }

}  // namespace svc
