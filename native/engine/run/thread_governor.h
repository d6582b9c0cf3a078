// Chooses the number of compute threads while other programs use the processors, too.
//
// The threads of a step meet after every operation and wait for each other, spinning. If another
// program takes the processor of one, all others spin until it is back: beside as many busy
// programs as there are cores, two threads were half as fast as one. So when the processors are
// contended, fewer threads are faster; and when they are free again, more.
//
// Contention is visible in the clocks. Spinning threads use processor time for as long as a step
// takes; if the step took longer than the processor time that each thread got, other programs kept
// them from running. This holds for any model and any context length. It only starts a trial with
// fewer threads. The trial succeeds if its steps cost less, relative to the cost model's
// predictions, than the steps before it. A failed trial is repeated after a growing pause with even
// fewer threads, since half may still be too many. Without contention, more threads are tried in
// the same way. A trial ends with the first step that is clearly worse, and the pause after it is
// many times as long as the trial: on a busy machine, a step with one thread too many can take a
// hundred times as long. So a step that takes several times as long as predicted is aborted and
// computed again with fewer threads, in a trial that starts without a pause. Beside two busy
// processes the longest gap between tokens of 8 streams was 2.7 to 3.0 s, and is 0.6 to 1.6 s
// (measured: two cores, 0.5B Q4_0).
#pragma once

namespace svc {

// Not thread-safe. Times in milliseconds; `now_ms` on any clock that does not jump.
class ThreadGovernor {
 public:
  // With one thread it never changes anything.
  explicit ThreadGovernor(int most) : most_(most), threads_(most) {}

  // Threads of the next step.
  int threads() const { return threads_; }
  // The next step is part of a trial: its cost does not predict later ones.
  bool trying() const { return from_ != 0; }

  // Milliseconds after which the next step, predicted to take `predicted_ms`, has stalled. 0: it
  // may take any time.
  double LimitMs(double now_ms, double predicted_ms) const;
  // The step was aborted after `spent_ms`, at that limit. REQUIRES: LimitMs was above 0.
  void StepStalled(double now_ms, double spent_ms);

  // `cpu_ms`: processor time of the process during the step. Returns the factor by which the cost
  // of later steps has changed: 1, except at the end of a trial that changed the threads.
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
  int from_ = 0;  // threads before the trial; 0: there is no trial
  int part_ = 2;  // divisor of the threads in the next trial: 2, 4, ...
  // Cost of the steps before the trial, relative to the prediction; infinite after a stall.
  double before_ = 1;
  Sums sums_;  // since the last decision
  double trial_ms_ = 0;
  double pause_ms_ = kFirstPauseMs;
  double next_trial_ms_ = 0;

  static constexpr double kFirstPauseMs = 1000;
};

}  // namespace svc
