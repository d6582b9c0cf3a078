#pragma once

namespace svc {

// Instruction sets of this processor.

// True with AVX2 and FMA. Implies F16C (half floats), which no processor with AVX2 lacks.
bool HasAvx2();
// True with AVX-512 F, BW, DQ, VL and VNNI: Intel from Cascade Lake on, AMD from Zen 4 on.
bool HasAvx512();

}  // namespace svc
