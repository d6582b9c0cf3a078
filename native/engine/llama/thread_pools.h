// ggml's thread pools: one for each number of threads, created on first use.
//
// Pool threads spin for a while after their work. Contexts that compute in turn share the pools;
// with separate ones, the spinning threads of one would take the cores from the other's.
#pragma once

#include <map>
#include <memory>

struct ggml_threadpool;

namespace svc {

// Must outlive the contexts that its pools are attached to. Not thread-safe.
class ThreadPools {
 public:
  // Returns the pool of `threads` threads. Null: the CPU module offers no pools.
  ggml_threadpool* Get(int threads);

 private:
  using Free = void (*)(ggml_threadpool*);
  std::map<int, std::unique_ptr<ggml_threadpool, Free>> pools_;
};

}  // namespace svc
