#include "engine/run/step_costs.h"

#include <utility>

namespace svc {

StepCosts::StepCosts(const CostModel& model, const StepTargets& targets, Now now, CpuClock cpu_ms,
                     int max_threads)
    : targets_(targets),
      now_(std::move(now)),
      cpu_ms_(std::move(cpu_ms)),
      model_(model),
      threads_(cpu_ms_ ? max_threads : 1) {}

StepTargets StepCosts::targets() const {
  StepTargets targets = targets_;
  targets.decoding_ms /= turns_;
  targets.turns = turns_;
  return targets;
}

StepLimits StepCosts::Limits(const std::vector<Demand>& demands, std::uint32_t max_rows,
                             const StepYield& yield) const {
  return LimitsFor(model_, record_, targets(), demands, max_rows, yield);
}

double StepCosts::OfPrompt(std::uint32_t rows) const {
  const std::uint32_t chunk = kLeastPromptRows;
  return model_.measured() ? model_.Predict(chunk, 1) / chunk * rows : rows;
}

bool StepCosts::Learn(const StepStats& step, std::uint32_t outputs, double cpu_ms) {
  if (!threads_.trying()) model_.Observe(step.rows, outputs, step.spent_ms);
  if (!cpu_ms_) return false;
  const int threads = threads_.threads();
  model_.Scale(threads_.StepDone(NowMs(), step.spent_ms, step.predicted_ms, cpu_ms));
  return threads_.threads() != threads;
}

double StepCosts::NowMs() const { return Milliseconds(now_().time_since_epoch()); }

double StepCosts::LimitMs(double predicted_ms) const {
  return threads_.LimitMs(NowMs(), predicted_ms);
}

void StepCosts::Stalled(double spent_ms) { threads_.StepStalled(NowMs(), spent_ms); }

void StepCosts::Record(std::uint32_t rows, double ms, bool sampled) {
  if (model_.measured()) return;
  unrecorded_rows_ += rows;
  unrecorded_ms_ += ms;
  if (!sampled) return;
  record_.Add(std::exchange(unrecorded_rows_, 0), std::exchange(unrecorded_ms_, 0));
}

}  // namespace svc
