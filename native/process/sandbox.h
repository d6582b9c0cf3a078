// The sandbox of an engine process. Model files, chat templates and requests are untrusted data
// that C++ code parses here; an exploit must find nothing useful in this process.
//
// All present and future threads give up for good: new privileges, capabilities, all files but
// those named, sockets, starting programs, and access to other processes. A part that the kernel
// lacks is skipped and reported.
#pragma once

#include "process/landlock.h"

namespace svc::process {

// State of each part: 0 if it is in force, otherwise an errno. ENOTSUP on systems other than Linux.
struct SandboxReport {
  int no_new_privileges;
  int capabilities;
  int landlock;
  // Landlock ABI version; 0: the kernel has no Landlock.
  int landlock_version;
  int seccomp;
};

// Enters the sandbox. Call once per process; other threads may be running. A root process keeps
// CAP_DAC_READ_SEARCH, for files of other users, until LeaveLastCapability().
SandboxReport EnterSandbox(const Paths& paths);

// Drops CAP_DAC_READ_SEARCH. Call it when all files are open. Returns 0 or an errno.
int LeaveLastCapability();

}  // namespace svc::process
