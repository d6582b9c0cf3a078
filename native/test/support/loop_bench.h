// A loop over a fake model, with a clock that only steps advance.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "engine/run/loop.h"
#include "fake_decoder.h"

namespace svc::test {

// A derived class creates the loop with now() as its clock.
class LoopBench {
 public:
  // Runs one step; false if there was nothing to do. Grants the cells that are wanted.
  bool Step();
  // Runs until nothing is left to do; returns the time on the test clock in milliseconds.
  double RunToTheEnd();

  FakeRecord record;
  std::unique_ptr<Loop> loop;
  std::map<GenerationId, std::string> texts;
  std::map<GenerationId, GenerationOutput> ends;
  std::atomic<bool> abort = false;

 protected:
  void Pass(double ms) { time_ += std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000)); }
  Now now();

 private:
  Clock::time_point time_;
};

}  // namespace svc::test
