// Runs one of our operations as ggml's pool does: each thread calls it with a number of its own.
// For files that are compiled with ggml's internal headers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "aligned_bytes.h"
#include "engine/llama/cpu/operation.h"
#include "engine/llama/cpu/thread_shares.h"
#include "test.h"

namespace svc::test {

// Not std::barrier: that of MinGW's libstdc++ 12 hangs under Wine now and then.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}

  void Wait() {
    std::unique_lock lock(mutex_);
    const int turn = turn_;
    if (++arrived_ == threads_) {
      arrived_ = 0;
      ++turn_;
      all_.notify_all();
    } else {
      all_.wait(lock, [&] { return turn_ != turn; });
    }
  }

 private:
  const int threads_;
  std::mutex mutex_;
  std::condition_variable all_;
  int arrived_ = 0;
  int turn_ = 0;
};

inline Barrier*& PoolBarrier() {
  static Barrier* barrier = nullptr;
  return barrier;
}
inline std::atomic<int>& PoolShare() {
  static std::atomic<int> share = 0;
  return share;
}

// Computes the node into its own memory. One run at a time.
inline void Run(ggml::cpu::tensor_traits& operation, ggml_tensor* node, int threads) {
  Barrier barrier(threads);
  PoolBarrier() = &barrier;
  pool.barrier = [](ggml_threadpool*) { PoolBarrier()->Wait(); };
  pool.set_share = [](ggml_threadpool*, int value) { PoolShare() = value; };
  pool.add_share = [](ggml_threadpool*, int value) { return PoolShare().fetch_add(value); };
  std::size_t size = 0;
  EXPECT(operation.work_size(threads, node, size));
  const AlignedBytes scratch(size);
  std::vector<std::thread> others;
  const auto work = [&](int number) {
    ggml_compute_params params{};
    params.ith = number;
    params.nth = threads;
    params.wsize = size;
    params.wdata = scratch.data();
    EXPECT(operation.compute_forward(&params, node));
  };
  for (int number = 1; number < threads; ++number) others.emplace_back(work, number);
  work(0);
  for (std::thread& other : others) other.join();
}

}  // namespace svc::test
