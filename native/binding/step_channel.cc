#include "binding/step_channel.h"

#include <algorithm>
#include <utility>

namespace svc::binding {

StepChannel::StepChannel(Napi::Env env)
    : wakeup_(env, "svc:step", [this](Napi::Env js) {
        if (listener_) listener_(js);
      }) {}

void StepChannel::Push(std::vector<GenerationOutput> outputs) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (GenerationOutput& output : outputs) outputs_.Add(std::move(output));
  }
  wakeup_.Signal();
}

std::vector<GenerationOutput> StepChannel::Take(const std::function<bool(GenerationId)>& ready) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool all_ready =
      std::ranges::all_of(outputs_, [&](const auto& output) { return ready(output.id); });
  return all_ready ? outputs_.Take() : std::vector<GenerationOutput>{};
}

}  // namespace svc::binding
