// svc.node: the module entry; src/engine/addon.ts declares its exports.
#include <napi.h>

#include "binding/arguments.h"
#include "binding/environment.h"
#include "binding/load.h"
#include "binding/log.h"
#include "binding/system.h"

namespace svc::binding {
namespace {

Napi::Object BuildInfo(Napi::Env env) {
  Napi::Object info = Napi::Object::New(env);
  info.Set("version", SVC_VERSION);
  info.Set("builtFor", SVC_BUILT_FOR);
  info.Set("llamaCpp", SVC_LLAMA_CPP_TAG);
  info.Set("llama", SVC_LLAMA_ORIGIN);
  info.Freeze();
  return info;
}

void SetErrorClass(const Napi::CallbackInfo& info) {
  Environment::Of(info.Env()).error_class = Napi::Persistent(ReadFunction(info[0], "errorClass"));
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  TakeLog();
  Environment::Install(env);
  exports.Set("info", BuildInfo(env));
  const auto function = [&](const char* name, auto call) {
    return Napi::PropertyDescriptor::Function(env, exports, name, call, napi_enumerable);
  };
  exports.DefineProperties({
      function("setErrorClass", SetErrorClass),
      function("setLogger", SetLogger),
      function("loadBackends", LoadBackends),
      function("devices", Devices),
      function("cpuFeatures", CpuFeatures),
      function("measureDevice", MeasureDevice),
      function("dieWithParent", DieWithParent),
      function("estimateMemory", EstimateMemory),
      function("privateBytes", PrivateBytes),
      function("load", Load),
      function("quantize", Quantize),
  });
  return exports;
}

}  // namespace

NODE_API_MODULE(svc, Init)

}  // namespace svc::binding
