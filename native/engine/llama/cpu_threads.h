// Default number of compute threads of this process. Any thread; on a hybrid x86 processor the
// calling thread visits each allowed processor and then gets its affinity back.
#pragma once

#include <cstdint>

namespace svc {

// One thread for each core that the process may use (performance_cores.h), limited by CPU affinity
// and, on Linux, by the control group's CPU quota. At least 1.
int DefaultThreads();

// As above, but fewer for a model of few bytes. Threads meet at a barrier after every operation and
// spin there. With few weights per thread they mostly wait; and when another program takes one
// thread's core, all others wait for its time slice. Measured with 5 MB of weights on two busy
// cores: 2,300 tokens/s with one thread, 3 to 1,000 with two.
int DefaultThreads(std::uint64_t model_bytes);

// CPU time that this process has used, in ms.
double ProcessCpuMs();

}  // namespace svc
