#pragma once

#include "kernels/q4_kernel.h"

namespace svc {

// From now on, models take a kernel of ours for those of their Q4_0 weights that the processor
// multiplies: they go into a buffer type that ggml's processor module then knows beside its own.
// Call it first when the backends are loaded and no model is yet. Returns the kernel; null, and
// nothing is changed: this processor lacks the instructions, or the module does not let us in.
const Q4Kernel* UseQ4Kernel();

}  // namespace svc
