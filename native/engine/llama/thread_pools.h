// ggml's thread pools, one for each number of threads, made when it is first asked for.
//
// Threads of a pool spin for a while after their work. Contexts that are computed in turn share the
// pools, because two of them would keep each other's threads from running.
#pragma once

#include <map>
#include <memory>

struct ggml_threadpool;

namespace svc {

// Outlives the contexts that it was attached to. Not thread-safe.
class ThreadPools {
 public:
  ThreadPools();
  ~ThreadPools();
  ThreadPools(const ThreadPools&) = delete;
  ThreadPools& operator=(const ThreadPools&) = delete;

  // Null: the CPU module has none.
  ggml_threadpool* Get(int threads);

 private:
  class Pool;
  std::map<int, std::unique_ptr<Pool>> pools_;
};

}  // namespace svc
