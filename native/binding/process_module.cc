// process.node: the module entry; src/process/addon.ts declares its exports. Separate from svc.node
// because the daemon loads it too, and the daemon must not load libllama.
#include <napi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "process/core_dumps.h"
#include "process/inherited_files.h"
#include "process/notify.h"
#include "process/sandbox.h"
#include "process/trials.h"

namespace svc::binding {
namespace {

std::vector<std::string> ReadPaths(Napi::Object object, const char* name) {
  const auto array = object.Get(name).As<Napi::Array>();
  std::vector<std::string> paths;
  for (std::uint32_t i = 0; i < array.Length(); ++i) {
    paths.push_back(array.Get(i).As<Napi::String>().Utf8Value());
  }
  return paths;
}

void ForbidCoreDumps(const Napi::CallbackInfo& /*info*/) { process::ForbidCoreDumps(); }

void CloseInheritedFiles(const Napi::CallbackInfo& info) {
  process::CloseInheritedFiles(info[0].As<Napi::Number>().Int32Value());
}

Napi::Value Notify(const Napi::CallbackInfo& info) {
  const std::string path = info[0].As<Napi::String>().Utf8Value();
  const std::string message = info[1].As<Napi::String>().Utf8Value();
  return Napi::Number::New(info.Env(), process::Notify(path, message));
}

Napi::Value EnterSandbox(const Napi::CallbackInfo& info) {
  const auto allowed = info[0].As<Napi::Object>();
  const process::SandboxReport report =
      process::EnterSandbox({.read = ReadPaths(allowed, "read"),
                             .write = ReadPaths(allowed, "write"),
                             .devices = ReadPaths(allowed, "devices")});
  auto object = Napi::Object::New(info.Env());
  object.Set("noNewPrivileges", report.no_new_privileges);
  object.Set("capabilities", report.capabilities);
  object.Set("landlock", report.landlock);
  object.Set("landlockVersion", report.landlock_version);
  object.Set("seccomp", report.seccomp);
  return object;
}

Napi::Value LeaveLastCapability(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), process::LeaveLastCapability());
}

Napi::Value MakeTrials(const Napi::CallbackInfo& info) {
  auto array = Napi::Array::New(info.Env());
  for (const auto& [what, error] : process::MakeTrials(info[0].As<Napi::Number>().Int32Value())) {
    auto trial = Napi::Object::New(info.Env());
    trial.Set("what", what);
    trial.Set("error", error);
    array.Set(array.Length(), trial);
  }
  return array;
}

Napi::Object InitProcess(Napi::Env env, Napi::Object exports) {
  const auto function = [&](const char* name, auto call) {
    return Napi::PropertyDescriptor::Function(env, exports, name, call, napi_enumerable);
  };
  exports.DefineProperties({
      function("forbidCoreDumps", ForbidCoreDumps),
      function("closeInheritedFiles", CloseInheritedFiles),
      function("notify", Notify),
      function("enterSandbox", EnterSandbox),
      function("leaveLastCapability", LeaveLastCapability),
      function("makeTrials", MakeTrials),
  });
  return exports;
}

}  // namespace

NODE_API_MODULE(process, InitProcess)

}  // namespace svc::binding
