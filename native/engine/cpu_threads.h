// How many compute threads suit this process.
#pragma once

namespace svc {

// One for each physical core that the process may run on: affinity and, on Linux, the control
// group's quota count. At least 1.
int DefaultThreads();

}  // namespace svc
