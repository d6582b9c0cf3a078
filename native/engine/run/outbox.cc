#include "engine/run/outbox.h"

#include <utility>

namespace svc {
namespace {

// The longest wait of a text for more: half a frame of a screen.
constexpr double kTogetherMs = 8;

}  // namespace

void Outbox::Add(GenerationOutput output, bool urgent) {
  if (outputs_.empty()) since_ = now_();
  is_urgent_ |= urgent;
  outputs_.Add(std::move(output));
}

bool Outbox::MayWait(double next_ms) const {
  return !is_urgent_ && Milliseconds(now_() - since_) + next_ms <= kTogetherMs;
}

std::vector<GenerationOutput> Outbox::Take() {
  is_urgent_ = false;
  return outputs_.Take();
}

}  // namespace svc
