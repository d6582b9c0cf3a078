// Carries what the runner produces to the JavaScript thread: one wake-up a step, and none while the
// last one waits to be answered. What comes meanwhile is joined, one output for each generation, so
// that a slow reader costs memory for the text alone; hold() is how it stops the text.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "binding/wakeup.h"
#include "engine/base/output_list.h"
#include "engine/engine.h"

namespace svc::binding {

class StepChannel {
 public:
  // JavaScript thread.
  explicit StepChannel(Napi::Env env);

  // JavaScript thread. Who is told, there, that something is to be taken.
  void Listen(std::function<void(Napi::Env)> listener) { listener_ = std::move(listener); }

  // Any thread: the engine's OutputSink.
  void Push(std::vector<GenerationOutput> outputs);

  // JavaScript thread. Takes everything, or nothing while an output's generation is not `ready`.
  std::vector<GenerationOutput> Take(const std::function<bool(GenerationId)>& ready);

  // JavaScript thread. Asks for another call of the listener.
  void Rouse() { wakeup_.Signal(); }

  void KeepProcessAlive(bool on) { wakeup_.KeepProcessAlive(on); }

 private:
  std::function<void(Napi::Env)> listener_;  // JavaScript thread only
  std::mutex mutex_;
  OutputList outputs_;  // guarded by mutex_
  Wakeup wakeup_;
};

}  // namespace svc::binding
