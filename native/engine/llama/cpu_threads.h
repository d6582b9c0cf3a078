// How many compute threads suit this process.
#pragma once

#include <cstdint>

namespace svc {

// One for each core that the process may run on (performance_cores.h): affinity and, on Linux, the
// control group's quota count. At least 1.
int DefaultThreads();

// The same, but no more than have work worth meeting for. Threads meet at a barrier after every
// operation and spin there; with few weights for each they do little else, and when another program
// takes one's core the rest wait for its time slice. Measured with 5 MB of weights on two busy
// cores: 2,300 tokens a second with one thread, 3 to 1,000 with two.
int DefaultThreads(std::uint64_t model_bytes);

// Processor time that this process has used, in milliseconds.
double ProcessCpuMs();

}  // namespace svc
