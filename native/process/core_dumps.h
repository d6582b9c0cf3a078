// Core dumps contain the memory of a process: prompts, answers, keys.
#pragma once

namespace svc::process {

// Sets RLIMIT_CORE to 0 for this process and its children. On Linux also clears this process's
// dumpable flag: crash handlers do not get its memory, and processes of the same user without
// CAP_SYS_PTRACE cannot trace it or read its memory. exec sets the flag again. Does nothing on
// Windows.
void ForbidCoreDumps();

}  // namespace svc::process
