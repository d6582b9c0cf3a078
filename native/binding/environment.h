// What the addon keeps for one JavaScript environment: the main thread's, or a Worker's.
//
// Everything that owns a thread or a model is listed here, and ends in one place, CloseAll(). That
// runs at the 'exit' event of `process`, because process.exit() runs no clean-up hook on the main
// thread and a thread inside libllama must not meet the destructors of static objects; and in the
// environment's clean-up hook, because a Worker that is terminated emits no 'exit'.
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

// What an EngineObject is made of.
struct EngineParts {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<StepChannel> channel;
  Napi::Function on_step;
};

class Environment {
 public:
  // Sets the instance up. Once for each environment, before anything else.
  static void Install(Napi::Env env);
  static Environment& Of(Napi::Env env);

  explicit Environment(Napi::Env env);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // Cancels the loads and closes the engines, and joins their threads: blocks for up to one chunk
  // of a prompt. Nothing can be loaded afterwards. Idempotent.
  void CloseAll();
  bool closing() const { return closing_; }

  Napi::FunctionReference error_class;
  Napi::FunctionReference engine_class;
  // Set only while EngineObject::New runs: JavaScript cannot construct an engine.
  EngineParts* engine_parts = nullptr;
  std::unordered_set<EngineObject*> engines;
  std::unordered_map<LoadJob*, std::unique_ptr<LoadJob>> loads;
  std::unique_ptr<LogForwarder> log;

 private:
  bool closing_ = false;
};

}  // namespace svc::binding
