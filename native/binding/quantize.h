// Addon.quantize of src/engine/addon.ts.
#pragma once

#include <napi.h>

namespace svc::binding {

// quantize(options): Promise<void>
Napi::Value Quantize(const Napi::CallbackInfo& info);

}  // namespace svc::binding
