// svc.node: the module entry; src/engine/addon.ts declares its exports.
#include <napi.h>

#include "binding/arguments.h"
#include "binding/environment.h"
#include "binding/estimate.h"
#include "binding/load.h"
#include "binding/log.h"
#include "binding/quantize.h"
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
  exports.DefineProperties({
      Napi::PropertyDescriptor::Function(env, exports, "setErrorClass", SetErrorClass,
                                         napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "setLogger", SetLogger, napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "loadBackends", LoadBackends,
                                         napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "devices", Devices, napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "cpuFeatures", CpuFeatures, napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "measureDevice", MeasureDevice,
                                         napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "dieWithParent", DieWithParent,
                                         napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "estimateMemory", EstimateMemory,
                                         napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "privateBytes", PrivateBytes,
                                         napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "load", Load, napi_enumerable),
      Napi::PropertyDescriptor::Function(env, exports, "quantize", Quantize, napi_enumerable),
  });
  return exports;
}

}  // namespace

NODE_API_MODULE(svc, Init)

}  // namespace svc::binding
