#include "binding/system.h"

#ifdef __linux__
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#endif

#include <mutex>
#include <utility>
#include <vector>

#include "binding/convert.h"
#include "binding/task.h"
#include "engine/base/private_bytes.h"
#include "engine/llama/devices.h"
#include "engine/llama/memory_estimate.h"
#include "engine/llama/quantize.h"

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
  return PromiseOfTask(info.Env(), "svc:devices", [] {
    return []() -> Result<std::vector<Device>> { return ListDevices(); };
  });
}

Napi::Value CpuFeatures(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), svc::CpuFeatures());
}

Napi::Value MeasureDevice(const Napi::CallbackInfo& info) {
  return PromiseOfTask(info.Env(), "svc:measure", [&] {
    const auto index = ReadInteger<std::uint32_t>(info[0], "index");
    return [index] { return svc::MeasureDevice(index); };
  });
}

Napi::Value EstimateMemory(const Napi::CallbackInfo& info) {
  return PromiseOfTask(info.Env(), "svc:estimate", [&] {
    LoadOptions options = ReadLoadOptions(info[0], info[1]);
    std::vector<std::uint32_t> lengths;
    ReadElements(info[2], "contextLengths", [&](Napi::Value value, const std::string& name) {
      lengths.push_back(ReadInteger<std::uint32_t>(value, name, 0, kMaxContextLength));
    });
    return [options = std::move(options), lengths = std::move(lengths)] {
      return svc::EstimateMemory(options, lengths);
    };
  });
}

Napi::Value PrivateBytes(const Napi::CallbackInfo& info) {
  return ToValue(info.Env(), svc::PrivateBytes());
}

Napi::Value Quantize(const Napi::CallbackInfo& info) {
  return PromiseOfTask(info.Env(), "svc:quantize", [&] {
    QuantizeOptions options;
    ReadRecord(ReadObject(info[0], "options"), "", options);
    for (const std::string* path : {&options.input, &options.output}) {
      if (path->find('\0') != std::string::npos) {
        throw InvalidRequest(info.Env(), "a path must not contain a null character");
      }
    }
    // Occupies a worker thread for the whole run: this process does nothing else.
    return [options = std::move(options)] { return svc::Quantize(options); };
  });
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
