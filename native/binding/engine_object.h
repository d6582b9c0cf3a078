// NativeEngine of src/engine/addon.ts: one loaded model, owned by JavaScript. JavaScript thread.
//
// Lifetime. JavaScript ends an idle engine with close() or by dropping the object; the finalizer
// then closes the engine on a worker thread. While a generation is alive, the object keeps itself
// and the process alive. When the JavaScript environment ends, Environment closes the engine.
//
// Order. The promise of submit() settles before any output of that generation is delivered.
// cancel() and pause() of a generation that is still being submitted take effect after it.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "binding/environment.h"
#include "binding/step_channel.h"
#include "engine/engine.h"

namespace svc::binding {

// Closes and frees the engine on a worker thread, then calls `then` on the JavaScript thread.
void CloseEngine(Napi::Env env, std::shared_ptr<Engine> engine,
                 std::function<void(Napi::Env)> then);

class EngineObject : public Napi::ObjectWrap<EngineObject> {
 public:
  // Returns the class. Only New() can construct an object of it.
  static Napi::FunctionReference Define(Napi::Env env);
  static Napi::Object New(Napi::Env env, EngineParts parts);

  explicit EngineObject(const Napi::CallbackInfo& info);
  void Finalize(Napi::Env env) override;

  // Closes the engine on this thread. Called by Environment, to which the object then drops its
  // pointer.
  void EnvironmentEnds();

 private:
  struct Generation {
    bool accepted = false;  // submit() has settled
    bool cancelled = false;
    bool paused = false;
  };

  Napi::Value Detokenize(const Napi::CallbackInfo& info);
  Napi::Value Encode(const Napi::CallbackInfo& info);
  Napi::Value Pieces(const Napi::CallbackInfo& info);
  Napi::Value Render(const Napi::CallbackInfo& info);
  Napi::Value Submit(const Napi::CallbackInfo& info);
  Napi::Value Embed(const Napi::CallbackInfo& info);
  Napi::Value Rerank(const Napi::CallbackInfo& info);
  void Cancel(const Napi::CallbackInfo& info);
  template <bool kPaused>
  void SetPaused(const Napi::CallbackInfo& info);
  void GrantCells(const Napi::CallbackInfo& info);
  void SetPrefixBytes(const Napi::CallbackInfo& info);
  void Hold(const Napi::CallbackInfo& info);
  Napi::Value Stats(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  // Throws ENGINE_UNAVAILABLE once close() has been called.
  Engine& OpenEngine(Napi::Env env) const;
  // Null if close() has been called or the model makes embeddings: the calls that only a text
  // engine knows then have no effect.
  TextEngine* OpenText() const { return engine_ ? engine_->text() : nullptr; }
  // Reads a request and submits it to an engine of its kind on a worker thread. Returns a promise
  // of the number of input tokens.
  template <typename Read, typename KindOf, typename HandOver>
  Napi::Value Begin(Napi::Env env, Read read, KindOf kind_of, HandOver hand_over);
  void OnSubmitted(Napi::Env env, GenerationId id, const Napi::Promise::Deferred& promise,
                   const Result<std::uint32_t>& input_tokens);
  void Deliver(Napi::Env env);
  // Keeps the object and the process alive exactly while generations_ has entries; finishes
  // close() when the last one is gone.
  void UpdateHolds();
  // Settles the promise of close() once all generations have been reported.
  void FinishClosing();

  Environment* environment_;
  std::shared_ptr<Engine> engine_;  // null once close() has been called
  std::shared_ptr<StepChannel> channel_;
  // Weak: a property of the object keeps the function alive, so that a reference cycle can be
  // collected.
  Napi::FunctionReference on_step_;
  std::unordered_map<GenerationId, Generation> generations_;  // submitted, end not yet delivered
  bool held_ = false;
  Napi::ObjectReference close_promise_;
  std::optional<Napi::Promise::Deferred> closing_;  // the runner is joined, the promise not settled
};

}  // namespace svc::binding
