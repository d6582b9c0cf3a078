#include "binding/estimate.h"

#include <utility>
#include <vector>

#include "binding/arguments.h"
#include "binding/convert.h"
#include "binding/errors.h"
#include "binding/fields.h"
#include "binding/task.h"
#include "engine/llama/memory_estimate.h"

namespace svc::binding {

Napi::Value EstimateMemory(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto promise = Napi::Promise::Deferred::New(env);
  try {
    LoadOptions options = ReadLoadOptions(info[0], info[1]);
    std::vector<std::uint32_t> lengths;
    ReadElements(info[2], "contextLengths", [&](Napi::Value value, const std::string& name) {
      lengths.push_back(ReadInteger<std::uint32_t>(value, name, 0, kMaxContextLength));
    });
    Task<Result<MemoryEstimates>>::Start(
        env, "svc:estimate",
        [options = std::move(options), lengths = std::move(lengths)] {
          return svc::EstimateMemory(options, lengths);
        },
        [promise](Napi::Env js, const Result<MemoryEstimates>& estimates) {
          if (estimates.ok()) {
            promise.Resolve(ToObject(js, estimates.value()));
          } else {
            promise.Reject(MakeError(js, estimates.status()).Value());
          }
        });
  } catch (const Napi::Error& error) {
    promise.Reject(error.Value());
  }
  return promise.Promise();
}

Napi::Value PrivateBytes(const Napi::CallbackInfo& info) {
  const std::optional<std::uint64_t> bytes = svc::PrivateBytes();
  if (!bytes) return info.Env().Null();
  return Napi::Number::New(info.Env(), static_cast<double>(*bytes));
}

}  // namespace svc::binding
