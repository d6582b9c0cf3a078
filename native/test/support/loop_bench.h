// A loop over a fake model, with a clock that only steps advance.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "engine/run/loop.h"
#include "fake_decoder.h"
#include "test.h"

namespace svc::test {

// A derived class creates the loop with now() as its clock.
class LoopBench {
 public:
  // Runs one step; false if there was nothing to do. Grants the cells that are wanted.
  bool Step() {
    const bool planned = loop->Plan();
    if (planned) loop->Compute(abort);
    bool granted = false;
    std::set<GenerationId> heard;
    for (GenerationOutput& output : loop->TakeOutputs()) {
      EXPECT(heard.insert(output.id).second);
      texts[output.id] += output.text;
      if (output.cells) {
        loop->GrantCells(output.cells->wanted, "");
        granted = true;
      }
      if (output.done) ends.emplace(output.id, std::move(output));
    }
    const EngineStats stats = loop->stats();
    EXPECT_EQ(stats.kv_cells_used + stats.kv_cells_cached, record.cells.load());
    return planned || granted;
  }
  // Runs until nothing is left to do; returns the time on the test clock in milliseconds.
  double RunToTheEnd() {
    const Clock::time_point start = time_;
    while (Step()) {
    }
    EXPECT_EQ(loop->stats().kv_cells_used, 0U);
    return Milliseconds(time_ - start);
  }

  FakeRecord record;
  std::unique_ptr<Loop> loop;
  std::map<GenerationId, std::string> texts;
  std::map<GenerationId, GenerationOutput> ends;
  std::atomic<bool> abort = false;

 protected:
  void Pass(double ms) { time_ += std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000)); }
  Now now() {
    return [this] { return time_; };
  }

 private:
  Clock::time_point time_;
};

}  // namespace svc::test
