#pragma once

#include <functional>

#include "kernels/kernels.h"

namespace svc {

// Returns true if our kernels take longer than ggml's on this processor. `use_ours`: as for
// TimeAttention.
using AreSlower = bool (*)(const std::function<void(bool is_ours)>& use_ours);
bool AreSlowerHere(const std::function<void(bool is_ours)>& use_ours);

// Registers our CPU kernels with ggml's CPU module: kernels for attention over an F16 cache and,
// where there are matrix kernels, a buffer type with kernels for model weights. The module keeps
// its own beside them. Returns them, and takes ggml's AMX products out of the module. Null, with
// the module's own kernels in use: this processor lacks the instructions; the module is of another
// version or has no place to register; a self-test fails, with a warning in the log; or kernels
// that no benchmark has measured are slower here (kernel_times.h). The first call decides; only
// tests give it another `are_slower`. REQUIRES: it comes after the backends are loaded and before
// any model is.
const Kernels* UseOwnKernels(AreSlower are_slower = AreSlowerHere);

}  // namespace svc
