// Outputs that were not delivered yet, and how long they may wait.
//
// Each delivery wakes threads and processes all the way to the client, which costs as much as a
// step of a very small model. So where steps are short, the text of several may be delivered
// together.
#pragma once

#include <utility>
#include <vector>

#include "engine/model/cost_model.h"
#include "engine/types/output_list.h"

namespace svc {

// Owner and thread: the Loop.
class Outbox {
 public:
  explicit Outbox(Now now) : now_(std::move(now)) {}

  // `urgent`: the first text of a generation, or its end.
  void Add(GenerationOutput output, bool urgent) {
    if (outputs_.empty()) since_ = now_();
    is_urgent_ |= urgent;
    outputs_.Add(std::move(output));
  }
  // True if nothing in it is urgent and all of it can wait for a step of about `next_ms`.
  bool MayWait(double next_ms) const {
    return !is_urgent_ && Milliseconds(now_() - since_) + next_ms <= kTogetherMs;
  }
  std::vector<GenerationOutput> Take() {
    is_urgent_ = false;
    return outputs_.Take();
  }

 private:
  // The longest wait of a text for more: half a frame of a screen.
  static constexpr double kTogetherMs = 8;

  const Now now_;
  OutputList outputs_;
  Clock::time_point since_;  // when the first of them was added
  bool is_urgent_ = false;
};

}  // namespace svc
