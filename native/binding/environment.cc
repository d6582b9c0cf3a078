#include "binding/environment.h"

#include "binding/engine_object.h"
#include "binding/load.h"
#include "binding/log.h"

namespace svc::binding {

void Environment::Install(Napi::Env env) {
  auto* environment = new Environment(env);
  env.SetInstanceData(environment);
  env.AddCleanupHook([](Environment* self) { self->CloseAll(); }, environment);
  const Napi::Object process = env.Global().Get("process").As<Napi::Object>();
  const auto on_exit = Napi::Function::New(env, [](const Napi::CallbackInfo& info) {
    Environment& self = Environment::Of(info.Env());
    self.CloseAll();
    if (self.log) self.log->Deliver();
  });
  process.Get("on").As<Napi::Function>().Call(process, {Napi::String::New(env, "exit"), on_exit});
}

Environment& Environment::Of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

Environment::Environment(Napi::Env env) { engine_class = EngineObject::Define(env); }

Environment::~Environment() = default;

void Environment::CloseAll() {
  closing_ = true;
  for (const auto& [job, owner] : loads) job->Cancel();
  // Jobs are not destroyed: CloseAll may run inside a listener that a job has called.
  for (const auto& [job, owner] : loads) job->Stop();
  for (EngineObject* engine : engines) engine->EnvironmentEnds();
  engines.clear();
}

}  // namespace svc::binding
