#include "binding/step_channel.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace svc::binding {
namespace {

// `later` follows `earlier` in the same generation.
void Join(GenerationOutput& earlier, GenerationOutput&& later) {
  later.text.insert(0, earlier.text);
  later.embeddings.insert(later.embeddings.begin(), earlier.embeddings.begin(),
                          earlier.embeddings.end());
  later.logprobs.insert(later.logprobs.begin(), std::make_move_iterator(earlier.logprobs.begin()),
                        std::make_move_iterator(earlier.logprobs.end()));
  earlier = std::move(later);
}

}  // namespace

StepChannel::StepChannel(Napi::Env env)
    : wakeup_(env, "svc:step", [this](Napi::Env js) {
        if (listener_) listener_(js);
      }) {}

void StepChannel::Push(std::vector<GenerationOutput> outputs) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (outputs_.empty()) {
      outputs_ = std::move(outputs);
    } else {
      for (GenerationOutput& output : outputs) {
        const auto same = std::find_if(outputs_.begin(), outputs_.end(),
                                       [&](const auto& held) { return held.id == output.id; });
        if (same == outputs_.end()) {
          outputs_.push_back(std::move(output));
        } else {
          Join(*same, std::move(output));
        }
      }
    }
  }
  wakeup_.Signal();
}

std::vector<GenerationOutput> StepChannel::Take(const std::function<bool(GenerationId)>& ready) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool all_ready = std::all_of(outputs_.begin(), outputs_.end(),
                                     [&](const auto& output) { return ready(output.id); });
  return all_ready ? std::exchange(outputs_, {}) : std::vector<GenerationOutput>{};
}

}  // namespace svc::binding
