// Work on a Node worker thread, off the JavaScript thread: templating, tokenizing, freeing,
// measuring. A load takes minutes and has its own thread (load.h).
#pragma once

#include <napi.h>

#include <exception>
#include <functional>
#include <utility>

#include "engine/base/status.h"

namespace svc::binding {

// T is Status or a Result.
template <typename T>
class Task final : public Napi::AsyncWorker {
 public:
  using Work = std::function<T()>;
  using Done = std::function<void(Napi::Env, T)>;

  // JavaScript thread. `work` runs on a worker thread and is destroyed there; then `done` runs on
  // the JavaScript thread. An environment waits for the work before it ends.
  static void Start(Napi::Env env, const char* name, Work work, Done done) {
    (new Task(env, name, std::move(work), std::move(done)))->Queue();
  }

 private:
  Task(Napi::Env env, const char* name, Work work, Done done)
      : AsyncWorker(env, name), work_(std::move(work)), done_(std::move(done)) {}

  void Execute() override {
    try {
      outcome_ = work_();
    } catch (const std::exception&) {
      outcome_ = CaughtStatus("not enough memory for this request");
    }
    work_ = nullptr;
  }

  void OnOK() override { done_(Env(), std::move(outcome_)); }

  Work work_;
  Done done_;
  T outcome_ = Status(StatusCode::kInternal, "the work did not run");
};

}  // namespace svc::binding
