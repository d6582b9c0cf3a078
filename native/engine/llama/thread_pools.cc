#include "engine/llama/thread_pools.h"

#include "llama.h"

namespace svc {

ggml_threadpool* ThreadPools::Get(int threads) {
  const auto [pool, added] = pools_.try_emplace(threads, nullptr, nullptr);
  if (!added) return pool->second.get();
  // Through the CPU module's registry, because the module is loaded at run time.
  ggml_backend_reg_t cpu =
      ggml_backend_dev_backend_reg(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
  using New = ggml_threadpool* (*)(ggml_threadpool_params*);
  const auto make =
      reinterpret_cast<New>(ggml_backend_reg_get_proc_address(cpu, "ggml_threadpool_new"));
  const auto free =
      reinterpret_cast<Free>(ggml_backend_reg_get_proc_address(cpu, "ggml_threadpool_free"));
  ggml_threadpool_params params = ggml_threadpool_params_default(threads);
  if (make != nullptr && free != nullptr) pool->second = {make(&params), free};
  return pool->second.get();
}

}  // namespace svc
