#include "engine/llama/thread_pools.h"

#include "llama.h"

namespace svc {

// Calls ggml through the CPU module's registry, because the module is loaded at run time.
class ThreadPools::Pool {
 public:
  explicit Pool(int threads) {
    ggml_backend_reg_t cpu =
        ggml_backend_dev_backend_reg(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    using New = ggml_threadpool* (*)(ggml_threadpool_params*);
    const auto make =
        reinterpret_cast<New>(ggml_backend_reg_get_proc_address(cpu, "ggml_threadpool_new"));
    free_ = reinterpret_cast<Free>(ggml_backend_reg_get_proc_address(cpu, "ggml_threadpool_free"));
    ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    if (make != nullptr && free_ != nullptr) pool_ = make(&params);
  }
  ~Pool() {
    if (pool_ != nullptr) free_(pool_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  ggml_threadpool* get() const { return pool_; }

 private:
  using Free = void (*)(ggml_threadpool*);
  Free free_ = nullptr;
  ggml_threadpool* pool_ = nullptr;
};

ThreadPools::ThreadPools() = default;
ThreadPools::~ThreadPools() = default;

ggml_threadpool* ThreadPools::Get(int threads) {
  std::unique_ptr<Pool>& pool = pools_[threads];
  if (pool == nullptr) pool = std::make_unique<Pool>(threads);
  return pool->get();
}

}  // namespace svc
