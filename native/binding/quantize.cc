#include "binding/quantize.h"

#include <utility>

#include "binding/arguments.h"
#include "binding/errors.h"
#include "binding/fields.h"
#include "binding/task.h"
#include "engine/llama/quantize.h"

namespace svc::binding {
namespace {

QuantizeOptions ReadOptions(Napi::Value value) {
  QuantizeOptions options;
  ReadRecord(ReadObject(value, "options"), "", options);
  for (const std::string* path : {&options.input, &options.output}) {
    if (path->find('\0') != std::string::npos) {
      throw InvalidRequest(value.Env(), "a path must not contain a null character");
    }
  }
  return options;
}

}  // namespace

Napi::Value Quantize(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto promise = Napi::Promise::Deferred::New(env);
  try {
    // Occupies a worker thread for the whole run: this process does nothing else.
    Task<Status>::Start(
        env, "svc:quantize", [options = ReadOptions(info[0])] { return svc::Quantize(options); },
        [promise](Napi::Env js, const Status& status) {
          if (status.ok()) {
            promise.Resolve(js.Undefined());
          } else {
            promise.Reject(MakeError(js, status).Value());
          }
        });
  } catch (const Napi::Error& error) {
    promise.Reject(error.Value());
  }
  return promise.Promise();
}

}  // namespace svc::binding
