// The cost of steps: predicted, measured while the engine runs, and kept low by using fewer threads
// while other programs keep the processors busy.
//
// Where the cost model was measured at load (on a processor), it predicts. Elsewhere (on a GPU) the
// record of earlier steps does (step_record.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/model/cost_model.h"
#include "engine/model/decoder.h"
#include "engine/run/scheduler.h"
#include "engine/run/step_record.h"
#include "engine/run/thread_governor.h"
#include "engine/types/engine_stats.h"

namespace svc {

// Processor time of the process, in milliseconds. Empty: not known.
using CpuClock = std::function<double()>;

// Owner and thread: the Loop.
class StepCosts {
 public:
  StepCosts(const CostModel& model, const StepTargets& targets, Now now, CpuClock cpu_ms,
            int max_threads);

  // Replaces the model by one measured on this decoder, in about `ms` milliseconds.
  void Measure(Decoder& decoder, double ms) { model_ = CostModel::Measure(decoder, now_, ms); }
  // The record of steps, for another loop on the same decoder.
  const StepRecord& record() const { return record_; }
  void SetRecord(const StepRecord& record) { record_ = record; }

  const CostModel& model() const { return model_; }
  bool measured() const { return model_.measured(); }
  // Those of a step; see ShareTargets.
  StepTargets targets() const;
  // Before each step is planned: number of sets of adapters that take turns (adapter_turns.h), and
  // one for a picture or sound, so that a step has only its part of the inter-token target.
  void ShareTargets(std::uint32_t turns) { turns_ = turns; }
  const CpuClock& cpu_clock() const { return cpu_ms_; }
  // Processor time of the process in milliseconds; 0 where it is not known.
  double CpuMs() const { return cpu_ms_ ? cpu_ms_() : 0; }
  // Number of threads that compute.
  int threads() const { return threads_.threads(); }

  // Bounds of the next step; see scheduler.h.
  StepLimits Limits(const std::vector<Demand>& demands, std::uint32_t max_rows,
                    const StepYield& yield) const;
  // Time to compute `rows` rows of a prompt: in milliseconds, or in rows where the cost is not
  // known.
  double OfPrompt(std::uint32_t rows) const;

  // Learns from a step that was computed to its end in `cpu_ms` of processor time. True: the number
  // of threads has changed.
  bool Learn(const StepStats& step, std::uint32_t outputs, double cpu_ms);
  // Milliseconds after which the next step has stalled and is to be aborted; 0: it may take any
  // time. See thread_governor.h.
  double LimitMs(double predicted_ms) const;
  // Learns from a step that was aborted for that after `spent_ms`: the number of threads has
  // changed.
  void Stalled(double spent_ms);
  // Records a step of `rows` that took `ms` with its sampling. A GPU continues computing after a
  // step has returned, and only a sample proves that it is done, so steps since the last sample are
  // recorded as one. `sampled`: this step ended with a sample. No effect where the cost is
  // measured.
  void Record(std::uint32_t rows, double ms, bool sampled);

 private:
  double NowMs() const;

  const StepTargets targets_;
  std::uint32_t turns_ = 1;
  const Now now_;
  const CpuClock cpu_ms_;
  CostModel model_;
  StepRecord record_;
  std::uint32_t unrecorded_rows_ = 0;
  double unrecorded_ms_ = 0;
  ThreadGovernor threads_;
};

}  // namespace svc
