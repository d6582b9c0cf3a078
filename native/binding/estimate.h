// What loading a model would take of memory, and what this process has of it.
#pragma once

#include <napi.h>

namespace svc::binding {

// estimateMemory(path, options, contextLengths) -> Promise<NativeMemoryEstimates>.
Napi::Value EstimateMemory(const Napi::CallbackInfo& info);
// privateBytes() -> number | null.
Napi::Value PrivateBytes(const Napi::CallbackInfo& info);

}  // namespace svc::binding
