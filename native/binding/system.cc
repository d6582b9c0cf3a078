#include "binding/system.h"

#ifdef __linux__
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#endif

#include <mutex>

#include "binding/arguments.h"
#include "binding/errors.h"
#include "binding/fields.h"
#include "binding/task.h"
#include "engine/llama/devices.h"

namespace svc::binding {

void LoadBackends(const Napi::CallbackInfo& info) {
  const std::string directory = ReadString(info[0], "directory");
  // Backends are per process, and two environments may load them at the same time.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const Status status = svc::LoadBackends(directory);
  if (!status.ok()) throw MakeError(info.Env(), status);
}

Napi::Value Devices(const Napi::CallbackInfo& info) {
  const auto promise = Napi::Promise::Deferred::New(info.Env());
  Task<Result<std::vector<Device>>>::Start(
      info.Env(), "svc:devices", [] { return ListDevices(); },
      [promise](Napi::Env js, const Result<std::vector<Device>>& devices) {
        if (!devices.ok()) return promise.Reject(MakeError(js, devices.status()).Value());
        promise.Resolve(ToValue(js, devices.value()));
      });
  return promise.Promise();
}

Napi::Value CpuFeatures(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), svc::CpuFeatures());
}

Napi::Value MeasureDevice(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto promise = Napi::Promise::Deferred::New(env);
  try {
    const auto index = ReadInteger<std::uint32_t>(info[0], "index");
    Task<Result<double>>::Start(
        env, "svc:measure", [index] { return svc::MeasureDevice(index); },
        [promise](Napi::Env js, const Result<double>& gflops) {
          if (gflops.ok()) {
            promise.Resolve(Napi::Number::New(js, gflops.value()));
          } else {
            promise.Reject(MakeError(js, gflops.status()).Value());
          }
        });
  } catch (const Napi::Error& error) {
    promise.Reject(error.Value());
  }
  return promise.Promise();
}

void DieWithParent(const Napi::CallbackInfo& info) {
  const auto parent = ReadInteger<std::int32_t>(info[0], "parentPid", 1);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // If the parent died before prctl, no signal is sent.
  if (getppid() != parent) raise(SIGKILL);
#else
  (void)parent;
#endif
}

}  // namespace svc::binding
