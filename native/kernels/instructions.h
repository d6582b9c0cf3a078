#pragma once

namespace svc {

// Whether this processor has the instructions that kernels are written for.

// And FMA and half floats (F16C), which are not younger.
bool HasAvx2();
// Of words, of bytes, of shorter registers and VNNI: from Cascade Lake and Zen 4 on.
bool HasAvx512();

}  // namespace svc
