// Memory that loading a model would need, and memory that this process uses.
#pragma once

#include <napi.h>

namespace svc::binding {

// estimateMemory(path, options, contextLengths) -> Promise<NativeMemoryEstimates>.
Napi::Value EstimateMemory(const Napi::CallbackInfo& info);
// privateBytes() -> number | null.
Napi::Value PrivateBytes(const Napi::CallbackInfo& info);

}  // namespace svc::binding
