// Work on a Node worker thread, off the JavaScript thread: templating, tokenizing, freeing,
// measuring. A load takes minutes and has its own thread (load.h).
#pragma once

#include <napi.h>

#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

#include "binding/errors.h"
#include "binding/fields.h"

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

// Returns the promise that `start` is called with, rejected with what `start` throws.
template <typename Start>
Napi::Value NewPromise(Napi::Env env, Start start) {
  const auto promise = Napi::Promise::Deferred::New(env);
  try {
    start(promise);
  } catch (const Napi::Error& error) {
    promise.Reject(error.Value());
  }
  return promise.Promise();
}

// Returns a promise for the outcome of a task: a Status, or a Result of a value that fields.h
// converts. `prepare` reads the arguments and returns the work.
template <typename Prepare>
Napi::Value PromiseOfTask(Napi::Env env, const char* name, Prepare prepare) {
  return NewPromise(env, [&](const Napi::Promise::Deferred& promise) {
    auto work = prepare();
    using Outcome = decltype(work());
    const auto settle = [promise](Napi::Env js, const Outcome& outcome) {
      if constexpr (std::is_same_v<Outcome, Status>) {
        if (outcome.ok()) return promise.Resolve(js.Undefined());
        promise.Reject(MakeError(js, outcome).Value());
      } else {
        if (outcome.ok()) return promise.Resolve(ToValue(js, outcome.value()));
        promise.Reject(MakeError(js, outcome.status()).Value());
      }
    };
    Task<Outcome>::Start(env, name, std::move(work), settle);
  });
}

}  // namespace svc::binding
