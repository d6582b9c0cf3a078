// A load in progress, on its own thread.
//
// It does not use a worker thread of Node: a load takes minutes, would occupy one of the few, and
// Node would wait for it, uncancelled, before an environment ends.
#pragma once

#include <napi.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "binding/environment.h"
#include "binding/step_channel.h"
#include "binding/wakeup.h"
#include "engine/engine.h"

namespace svc::binding {

// load(path, options, onProgress, onStep) -> a promise of NativeEngine.
Napi::Value Load(const Napi::CallbackInfo& info);

// Owned by Environment::loads until the promise is settled. All methods but Run() are called on the
// JavaScript thread.
class LoadJob {
 public:
  LoadJob(Environment& environment, Napi::Env env, LoadOptions options, Napi::Function on_progress,
          Napi::Function on_step);
  ~LoadJob();
  LoadJob(const LoadJob&) = delete;
  LoadJob& operator=(const LoadJob&) = delete;

  Napi::Promise promise() const { return promise_.Promise(); }
  void Cancel() { cancelled_ = true; }
  // Cancels the load, joins the thread and frees the engine if one was loaded.
  void Stop();

 private:
  void Run();
  void OnWake(Napi::Env env);
  void Settle(Napi::Env env);

  Environment& environment_;
  Napi::Promise::Deferred promise_;
  Napi::FunctionReference on_progress_;
  Napi::FunctionReference on_step_;
  LoadOptions options_;
  std::shared_ptr<StepChannel> channel_;
  std::atomic<bool> cancelled_{false};
  std::atomic<float> progress_{0.0F};  // the latest
  float told_progress_ = -1.0F;
  std::atomic<bool> loaded_{false};  // publishes result_
  std::optional<Result<std::unique_ptr<Engine>>> result_;
  Wakeup wakeup_;
  std::thread thread_;
};

}  // namespace svc::binding
