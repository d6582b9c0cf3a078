// Functions of src/engine/addon.ts that need no engine. JavaScript thread.
#pragma once

#include <napi.h>

namespace svc::binding {

void LoadBackends(const Napi::CallbackInfo& info);
Napi::Value Devices(const Napi::CallbackInfo& info);
Napi::Value CpuFeatures(const Napi::CallbackInfo& info);
Napi::Value MeasureDevice(const Napi::CallbackInfo& info);
Napi::Value EstimateMemory(const Napi::CallbackInfo& info);
Napi::Value PrivateBytes(const Napi::CallbackInfo& info);
Napi::Value Quantize(const Napi::CallbackInfo& info);
void DieWithParent(const Napi::CallbackInfo& info);

}  // namespace svc::binding
