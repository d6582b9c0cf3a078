// Distribution of an operation's work among the threads of ggml's pool.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ggml-backend-impl.h"
#include "ggml-cpu/traits.h"

namespace svc {

// Functions of ggml's CPU module that its public headers do not declare. Set once, before any
// operation runs.
struct PoolFunctions {
  void (*barrier)(ggml_threadpool*);
  void (*set_share)(ggml_threadpool*, int);
  int (*add_share)(ggml_threadpool*, int);
};
inline PoolFunctions pool;

// Work shares per thread in one operation, so that threads that are faster or not interrupted take
// more of them.
constexpr std::size_t kSharesPerThread = 8;

inline std::size_t ThreadOf(const ggml_compute_params& params) {
  return static_cast<std::size_t>(params.ith);
}

// Distributes the parts [0, count) of an operation among the threads: calls take(begin, end) until
// no parts are left. Each thread of the pool must call it. Starts with a barrier, so each thread
// sees what all did before.
template <typename Take>
void Share(const ggml_compute_params& params, std::size_t count, Take take) {
  if (params.ith == 0) pool.set_share(params.threadpool, params.nth);
  pool.barrier(params.threadpool);
  const auto threads = static_cast<std::size_t>(params.nth);
  const std::size_t shares = std::min(count, threads == 1 ? 1 : threads * kSharesPerThread);
  for (std::size_t share = ThreadOf(params); share < shares;
       share = static_cast<std::size_t>(pool.add_share(params.threadpool, 1))) {
    take(count * share / shares, count * (share + 1) / shares);
  }
}

// Row `row` of a tensor of any number of dimensions, counted through all planes.
inline float* RowOf(const ggml_tensor* tensor, std::size_t row) {
  const auto row_count = static_cast<std::size_t>(tensor->ne[1]);
  const auto plane_count = static_cast<std::size_t>(tensor->ne[2]);
  const std::size_t plane = row / row_count;
  return reinterpret_cast<float*>(
      static_cast<char*>(tensor->data) + row % row_count * tensor->nb[1] +
      plane % plane_count * tensor->nb[2] + plane / plane_count * tensor->nb[3]);
}

}  // namespace svc
