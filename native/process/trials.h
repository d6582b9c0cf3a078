// Attempts of a sandboxed process at what the sandbox forbids, for `svc doctor`.
#pragma once

#include <vector>

namespace svc::process {

struct Trial {
  // `to trace another process`.
  const char* what;
  // 0: it was not refused, otherwise an errno.
  int error;
};

// Makes each attempt once. Without a sandbox none of them harms a file, this process, or its
// parent, whose id is `parent`: most are calls with an argument that the kernel rejects. Empty
// except on Linux.
std::vector<Trial> MakeTrials(int parent);

}  // namespace svc::process
