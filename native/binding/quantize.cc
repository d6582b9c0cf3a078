#include "binding/quantize.h"

#include <utility>

#include "binding/arguments.h"
#include "binding/errors.h"
#include "binding/task.h"
#include "engine/llama/quantize.h"

namespace svc::binding {
namespace {

std::string ReadPath(Napi::Value value, const std::string& name) {
  std::string path = ReadString(value, name);
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw InvalidRequest(value.Env(), name + " must be a path");
  }
  return path;
}

QuantizeOptions ReadOptions(Napi::Value value) {
  const Napi::Object object = ReadObject(value, "options");
  QuantizeOptions options;
  options.input = ReadPath(object.Get("input"), "input");
  options.output = ReadPath(object.Get("output"), "output");
  options.file_type = ReadInteger<std::int32_t>(object.Get("fileType"), "fileType");
  const auto boolean_into = [](bool& target) {
    return [&target](Napi::Value field, const std::string& name) {
      target = ReadBoolean(field, name);
    };
  };
  ReadField(object, "allowRequantize", boolean_into(options.allow_requantize));
  ReadField(object, "dryRun", boolean_into(options.dry_run));
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
