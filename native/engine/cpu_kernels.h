#pragma once

#include "kernels/matrix_kernel.h"

namespace svc {

// From now on, ggml's processor module takes kernels of ours: for the weights of models, which go
// into a buffer type that the module then knows beside its own, and for attention to a cache of
// half floats. Call it first when the backends are loaded and no model is yet. Returns the kernel
// of the weights; null, and nothing is changed: this processor lacks the instructions, or the
// module does not let us in.
const MatrixKernel* UseOwnKernels();

}  // namespace svc
