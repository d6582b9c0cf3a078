#pragma once

#include "kernels/kernels.h"

namespace svc {

// Registers our CPU kernels with ggml's CPU module: kernels for attention over an F16 cache and,
// where there are matrix kernels, a buffer type with kernels for model weights. The module keeps
// its own beside them. Returns them, and takes ggml's AMX products out of the module. Null, with
// the module's own kernels in use: this processor lacks the instructions; the module is of another
// version or has no place to register; a self-test fails, with a warning in the log; or kernels
// that no benchmark has measured are slower here (kernel_times.h). REQUIRES: the first call comes
// after the backends are loaded and before any model is.
const Kernels* UseOwnKernels();

}  // namespace svc
