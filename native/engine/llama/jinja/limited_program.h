// Makes a parsed chat template observe the WorkLimit of the rendering thread.
//
// Statements that check the limit are inserted at the beginning of every loop and macro body.
// Operators, literals and output are replaced by nodes that estimate their cost first. Containers
// that are made or changed are given to the thread's ValueKeeper. Variables and members are read
// without copies (direct_lookup.h), which gains more time than the checks take.
#pragma once

#include "jinja/runtime.h"

namespace svc {

// Inserts the checks. Afterwards, rendering throws std::runtime_error once the limit is exceeded;
// the rendered text stays the same. REQUIRES: no other thread uses `program` yet.
void LimitProgram(jinja::program* program);

}  // namespace svc
