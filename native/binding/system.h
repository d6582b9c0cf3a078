// Functions of src/engine/addon.ts about the machine and the process. JavaScript thread.
#pragma once

#include <napi.h>

namespace svc::binding {

void LoadBackends(const Napi::CallbackInfo& info);
Napi::Value Devices(const Napi::CallbackInfo& info);
Napi::Value CpuFeatures(const Napi::CallbackInfo& info);
Napi::Value MeasureDevice(const Napi::CallbackInfo& info);
void DieWithParent(const Napi::CallbackInfo& info);

}  // namespace svc::binding
