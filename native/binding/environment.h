// State of the addon for one JavaScript environment (the main thread or a Worker). Used on that
// environment's thread.
//
// Everything that owns a thread or a model is listed here and ends in CloseAll(). It is called at
// the 'exit' event of `process`, because process.exit() runs no clean-up hook on the main thread
// and static objects must not be destroyed while a thread is inside libllama; and in the
// environment's clean-up hook, because a terminated Worker emits no 'exit'.
#pragma once

#include <napi.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "engine/engine.h"

namespace svc::binding {

class EngineObject;
class LoadJob;
class LogForwarder;
class StepChannel;

// Constructor arguments of an EngineObject.
struct EngineParts {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<StepChannel> channel;
  Napi::Function on_step;
};

class Environment {
 public:
  // Creates the instance. Call once per environment, before anything else.
  static void Install(Napi::Env env);
  static Environment& Of(Napi::Env env);

  explicit Environment(Napi::Env env);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // Cancels all loads, closes all engines and joins their threads; blocks for up to one prefill
  // chunk. Nothing can be loaded afterwards. Idempotent.
  void CloseAll();
  bool closing() const { return closing_; }

  Napi::FunctionReference error_class;
  Napi::FunctionReference engine_class;
  // Set only while EngineObject::New runs, so that JavaScript cannot construct an engine.
  EngineParts* engine_parts = nullptr;
  std::unordered_set<EngineObject*> engines;
  std::unordered_map<LoadJob*, std::unique_ptr<LoadJob>> loads;
  std::unique_ptr<LogForwarder> log;

 private:
  bool closing_ = false;
};

}  // namespace svc::binding
