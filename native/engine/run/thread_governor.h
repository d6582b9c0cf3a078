// How many compute threads a step gets while other programs want the processors, too.
//
// The threads of a step meet after every operation and wait for each other, spinning. If another
// program takes the processor of one, all others spin until it is back: beside as many busy
// programs as there are cores, two threads were half as fast as one. So when the processors are
// contended, fewer threads are faster; and when they are free again, more.
//
// Contention shows in the clocks. Threads that spin use processor time for as long as a step takes;
// where the step took longer than the processor time that each of them got, they were kept from
// running, whatever the model is and however long its context. That is a reason to try fewer
// threads, and nothing more: what decides is whether steps then cost less, measured by what the
// cost model predicts for them, than those before the trial. A trial lasts a few steps. One that
// fails is repeated after a pause that grows, and with fewer threads yet: half of them may still be
// too many. With fewer threads than there could be, and nobody in their way, more are tried in the
// same way. A trial that goes badly ends with the first step that shows it, and the pause after a
// trial is many times as long as the trial: on a machine that is busy enough, a step with a thread
// too many takes a hundred times as long. Once one does, nothing is waited for.
#pragma once

#include <cstdint>

namespace svc {

// Not thread-safe. Times in milliseconds; `now_ms` on any clock that does not jump.
class ThreadGovernor {
 public:
  // With one thread it never changes anything.
  explicit ThreadGovernor(int most) : most_(most), threads_(most) {}

  // For the next step.
  int threads() const { return threads_; }
  // The next step is part of a trial: its cost says nothing of those that follow.
  bool trying() const { return from_ != 0; }

  // `cpu_ms`: processor time of the process during the step. Returns how much dearer steps have
  // become for good, as a factor; 1 but for the end of a trial that changed something.
  double StepDone(double now_ms, double spent_ms, double predicted_ms, double cpu_ms);

 private:
  struct Sums {
    int steps = 0;
    double spent_ms = 0;
    double predicted_ms = 0;
    double cpu_ms = 0;
  };
  void Try(int threads);
  double EndTrial(double now_ms, bool bad);

  const int most_;
  int threads_;
  int from_ = 0;       // the threads that a trial may return to; 0: there is none
  int part_ = 2;       // which part of the threads the next trial keeps: a half, a quarter, ...
  double before_ = 1;  // what steps cost before the trial, as a part of what was predicted
  Sums sums_;          // since the last decision
  double trial_ms_ = 0;
  double pause_ms_ = kFirstPauseMs;
  double next_trial_ms_ = 0;

  static constexpr double kFirstPauseMs = 1000;
};

}  // namespace svc
