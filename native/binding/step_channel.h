// Passes outputs from the runner to the JavaScript thread, with one wake-up per step and at most
// one pending. Outputs that wait are merged per generation, so that a slow reader costs only the
// memory of the text; the reader applies back-pressure with hold().
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "binding/wakeup.h"
#include "engine/types/output_list.h"

namespace svc::binding {

class StepChannel {
 public:
  // JavaScript thread.
  explicit StepChannel(Napi::Env env);

  // JavaScript thread. Sets the function called there when outputs may be taken.
  void Listen(std::function<void(Napi::Env)> listener) { listener_ = std::move(listener); }

  // Any thread. Implements the engine's OutputSink.
  void Push(std::vector<GenerationOutput> outputs);

  // JavaScript thread. Takes all outputs, or none while the generation of any is not `ready`.
  std::vector<GenerationOutput> Take(const std::function<bool(GenerationId)>& ready);

  // JavaScript thread. Requests another call of the listener.
  void Rouse() { wakeup_.Signal(); }

  void KeepProcessAlive(bool on) { wakeup_.KeepProcessAlive(on); }

 private:
  std::function<void(Napi::Env)> listener_;  // JavaScript thread only
  std::mutex mutex_;
  OutputList outputs_;  // guarded by mutex_
  Wakeup wakeup_;
};

}  // namespace svc::binding
