// NativeEngine of src/engine/addon.ts: one loaded model in the hands of JavaScript.
//
// Life. JavaScript alone decides when an idle engine ends: by close(), or by forgetting it, in
// which case the garbage collector's finaliser closes it on a worker thread. While a generation is
// alive the object holds itself and the process. At the end of the environment Environment closes
// it.
//
// Order. The promise of submit() settles before any output of that generation is handed over, and
// cancel() and pause() of a generation that is still being submitted are not lost.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "binding/environment.h"
#include "binding/step_channel.h"
#include "engine/engine.h"

namespace svc::binding {

class EngineObject : public Napi::ObjectWrap<EngineObject> {
 public:
  // The class. Only New() can construct it.
  static Napi::FunctionReference Define(Napi::Env env);
  static Napi::Object New(Napi::Env env, EngineParts parts);

  explicit EngineObject(const Napi::CallbackInfo& info);
  void Finalize(Napi::Env env) override;

  // Closes the engine on this thread. Called by Environment, which the object then no longer knows.
  void EnvironmentEnds();

 private:
  struct Generation {
    bool accepted = false;  // submit() has settled
    bool cancelled = false;
    bool paused = false;
  };

  Napi::Value Tokenize(const Napi::CallbackInfo& info);
  Napi::Value Detokenize(const Napi::CallbackInfo& info);
  Napi::Value RenderChat(const Napi::CallbackInfo& info);
  Napi::Value Submit(const Napi::CallbackInfo& info);
  Napi::Value Embed(const Napi::CallbackInfo& info);
  void Cancel(const Napi::CallbackInfo& info);
  void Pause(const Napi::CallbackInfo& info);
  void Resume(const Napi::CallbackInfo& info);
  void SetPrefixBytes(const Napi::CallbackInfo& info);
  void Hold(const Napi::CallbackInfo& info);
  Napi::Value Stats(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  // Throws ENGINE_UNAVAILABLE once close() has been called.
  Engine& OpenEngine(Napi::Env env) const;
  // Hands a request to the engine, on a worker thread. `promise` gets the number of input tokens.
  void Begin(Napi::Env env, GenerationId id, const Napi::Promise::Deferred& promise,
             std::function<Result<std::uint32_t>(Engine&)> hand_over);
  void OnSubmitted(Napi::Env env, GenerationId id, const Napi::Promise::Deferred& promise,
                   const Result<std::uint32_t>& input_tokens);
  void Deliver(Napi::Env env);
  // Tells whether generations_ has entries to whoever must know.
  void UpdateHolds();
  // Settles the promise of close() when nothing is left to tell.
  void FinishClosing();

  Environment* environment_;
  std::shared_ptr<Engine> engine_;  // null once close() has been called
  std::shared_ptr<StepChannel> channel_;
  // Weak: a property of the object keeps the function, so that a cycle through it can be collected.
  Napi::FunctionReference on_step_;
  std::unordered_map<GenerationId, Generation> generations_;  // submitted, end not yet handed over
  bool held_ = false;
  Napi::ObjectReference close_promise_;
  std::optional<Napi::Promise::Deferred> closing_;  // the runner is joined, the promise not settled
};

}  // namespace svc::binding
