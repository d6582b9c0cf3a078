// Runs one of our operations as ggml's pool does: each thread calls it with a number of its own.
// For files that are compiled with ggml's internal headers.
#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <thread>
#include <vector>

#include "aligned_bytes.h"
#include "engine/llama/cpu/operation.h"
#include "engine/llama/cpu/thread_shares.h"
#include "test.h"

namespace svc::test {

inline std::barrier<>*& PoolBarrier() {
  static std::barrier<>* barrier = nullptr;
  return barrier;
}
inline std::atomic<int>& PoolShare() {
  static std::atomic<int> share = 0;
  return share;
}

// Computes the node into its own memory. One run at a time.
inline void Run(ggml::cpu::tensor_traits& operation, ggml_tensor* node, int threads) {
  std::barrier<> barrier(threads);
  PoolBarrier() = &barrier;
  pool.barrier = [](ggml_threadpool*) { PoolBarrier()->arrive_and_wait(); };
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
