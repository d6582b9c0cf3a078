// Core dumps hold the memory of a process: prompts, answers, keys.
#pragma once

namespace svc::process {

// Sets RLIMIT_CORE to 0, for this process and those that it starts. On Linux also clears the
// dumpable flag of this process: no crash handler gets its memory, and no process of the same user
// that lacks CAP_SYS_PTRACE can trace it or read its memory. The flag is back after exec. Does
// nothing on Windows.
void ForbidCoreDumps();

}  // namespace svc::process
