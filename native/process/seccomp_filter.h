// Blocks system calls that an engine never makes but injected code would.
#pragma once

#include <vector>

// An instruction, from linux/filter.h.
struct sock_filter;

namespace svc::process {

// Installs a seccomp filter for all threads of this process. Returns 0 or an errno; ENOTSUP except
// on Linux x86-64 and ARM64. REQUIRES: no_new_privs is set.
//
// A deny list, because Node and GPU drivers may make any harmless call: the calls listed in
// seccomp_filter.cc fail with EPERM. Call numbers above kNewestCall, and calls of other ABIs
// (32-bit, x32), fail with ENOSYS.
int InstallFilter();

// Returns the filter for this process, so that a test can read it; empty where there is none.
std::vector<sock_filter> Filter();

}  // namespace svc::process
