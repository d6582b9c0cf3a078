// The sandbox of an engine process. A model's file, its chat template and the requests are foreign
// data that meet C++ code here; whoever gets code to run by them shall find nothing of use.
//
// What is given up, for every thread that there is or will be, and never comes back: gaining
// privileges, capabilities, all files but those named, sockets, other programs and other processes.
// Each part that a kernel lacks is left out and reported.
#pragma once

#include <string>

#include "process/landlock.h"

namespace svc::process {

// An errno, or 0 for what is in force. On systems other than Linux all are ENOTSUP.
struct SandboxReport {
  int no_new_privileges;
  int capabilities;
  int landlock;
  // Of Landlock; 0: the kernel has none.
  int landlock_version;
  int seccomp;
};

// Once in the life of a process; threads may run. A root process keeps CAP_DAC_READ_SEARCH, for
// files of other users, until LeaveLastCapability().
SandboxReport EnterSandbox(const Paths& paths);

// Call it when all files are open. Returns 0 or errno.
int LeaveLastCapability();

}  // namespace svc::process
