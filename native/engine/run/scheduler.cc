#include "engine/run/scheduler.h"

#include <algorithm>

#include "engine/model/step_constants.h"

namespace svc {
namespace {

std::uint32_t RoundDown(std::uint32_t rows, std::uint32_t group) { return rows - rows % group; }

// Milliseconds that the lane may compute between two steps that take `step_ms` each.
double LaneTurnMs(double step_ms, const StepTargets& targets) {
  const double fair = std::min(kLaneShare * step_ms, kLongestWaitMs) / targets.turns;
  return std::max(targets.decoding_ms - step_ms, fair);
}

// Rows for prompts in a step in which `outputs` sequences sample.
std::uint32_t RowsBeside(std::uint32_t outputs, const CostModel& cost, const StepRecord& record,
                         const StepTargets& targets, std::uint32_t rows) {
  std::uint32_t fitting = outputs + kUnmeasuredPromptRows;
  if (cost.measured()) {
    fitting = cost.RowsWithin(targets.decoding_ms, outputs, rows);
  } else if (!record.empty()) {
    fitting = record.RowsWithin(targets.decoding_ms, rows);
  }
  const std::uint32_t least = outputs + kLeastPromptRows;
  std::uint32_t total = RoundDown(fitting, kGroupRows);
  if (total < least) total = RoundDown(least + kGroupRows - 1, kGroupRows);
  return total - outputs;
}

// Rows for short prompts that go before the decoding sequences, if they arrived at about the same
// time and have more rows than fit `beside` them: then all decode together until the end, in full
// steps. No sequence waits longer than for a step of prompts. 0: they do not go first.
std::uint32_t RowsAhead(std::span<const Demand> demands, std::uint32_t beside,
                        const CostModel& cost, const StepTargets& targets, std::uint32_t rows) {
  if (!cost.measured()) return 0;
  double oldest_ms = 0;
  std::uint32_t waiting = 0;
  for (const Demand& demand : demands) {
    if (demand.rows > 1 && demand.rows <= kTile) waiting += demand.rows;
    if (demand.rows == 1) oldest_ms = std::max(oldest_ms, demand.age_ms);
  }
  if (waiting <= beside) return 0;
  const std::uint32_t fitting = cost.RowsWithin(targets.prompt_ms - oldest_ms, 1, rows);
  return fitting > beside ? std::min(RoundDown(fitting, kGroupRows), waiting) : 0;
}

// Rows of the prompt up to the next place where a plain loop would end a batch.
std::uint32_t RowsToBoundary(const Demand& prompt) {
  if (!prompt.plain) return prompt.rows;
  return std::min(prompt.rows, kPlainBatch - prompt.position % kPlainBatch);
}

// Number of the prompt's rows to compute, at most `most`; up to `capacity` to avoid a short rest.
std::uint32_t CutAtTile(const Demand& prompt, std::uint32_t most, std::uint32_t capacity) {
  const std::uint32_t left = RowsToBoundary(prompt);
  if (left <= most || most < kTile) return std::min(left, most);
  const std::uint32_t rows = RoundDown(most, kTile);
  if (left - rows >= kTile) return rows;
  if (left <= capacity) return left;
  return rows > kTile ? rows - kTile : rows;
}

}  // namespace

StepLimits LimitsFor(const CostModel& cost, const StepRecord& record, const StepTargets& targets,
                     std::span<const Demand> demands, std::uint32_t rows, const StepYield& yield) {
  StepLimits limits{.rows = rows, .prompt_rows = rows};
  if (std::uint32_t decoding = CountDecoding(demands); decoding > 0) {
    decoding = cost.Cheapest(std::min({decoding, rows, yield.decoding_rows}));
    limits.decoding_rows = decoding;
    limits.prompt_rows =
        std::min(RowsBeside(decoding, cost, record, targets, rows), yield.prompt_rows);
    if (yield.prompt_rows < UINT32_MAX) return limits;
    if (const std::uint32_t ahead = RowsAhead(demands, limits.prompt_rows, cost, targets, rows);
        ahead > 0) {
      limits.decoding_rows = 0;
      limits.prompt_rows = ahead;
    }
    return limits;
  }
  if (targets.turns > 1) {
    limits.prompt_rows = std::min(RowsBeside(1, cost, record, targets, rows), yield.prompt_rows);
    return limits;
  }
  if (cost.measured()) {
    limits.prompt_rows = std::max(RoundDown(cost.RowsWithin(targets.prompt_ms, 1, rows), kTile),
                                  std::min(rows, kTile));
  } else if (!record.empty()) {
    limits.prompt_rows = std::max(RoundDown(record.RowsWithin(targets.prompt_ms, rows), kTile),
                                  std::min(rows, kUnmeasuredPromptRows));
  }
  if (demands.size() > 1 && demands.front().rows < limits.prompt_rows) {
    limits.prompt_rows = std::max(demands.front().rows, RowsBeside(1, cost, record, targets, rows));
  }
  limits.prompt_rows = std::min(limits.prompt_rows, yield.prompt_rows);
  return limits;
}

std::uint32_t CountDecoding(std::span<const Demand> demands) {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(demands, [](const Demand& d) { return d.rows == 1; }));
}

std::vector<Share> PlanStep(std::span<const Demand> demands, const StepLimits& limits) {
  const std::uint32_t capacity = std::min(limits.rows, limits.cells);
  const std::uint32_t decoding = CountDecoding(demands);
  std::uint32_t decode_left = std::min({decoding, capacity, limits.decoding_rows});
  std::uint32_t left = capacity - decode_left;
  std::uint32_t prompt_left = std::min(left, limits.prompt_rows);

  std::vector<Share> shares;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    if (demands[i].rows == 1) {
      if (decode_left == 0) continue;
      --decode_left;
      shares.push_back({.index = i, .rows = 1});
      continue;
    }
    const std::uint32_t rows = decoding > 0 ? std::min(prompt_left, demands[i].rows)
                                            : CutAtTile(demands[i], prompt_left, left);
    if (rows == 0) continue;
    shares.push_back({.index = i, .rows = rows});
    left -= rows;
    prompt_left -= std::min(prompt_left, rows);
  }
  return shares;
}

std::uint32_t RowsOfBatch(const Demand& prompt, std::uint32_t most) {
  return CutAtTile(prompt, most, most);
}

bool IsStepDue(double since_ms, double step_ms, const StepTargets& targets) {
  return since_ms >= LaneTurnMs(step_ms, targets);
}

double LaneGain(const CostModel& cost, const StepTargets& targets, std::uint32_t decoding,
                std::uint32_t max_rows) {
  if (decoding == 0 || !cost.measured()) return std::numeric_limits<double>::infinity();
  const std::uint32_t outputs = cost.Cheapest(std::min(decoding, max_rows));
  const std::uint32_t rows = RowsBeside(outputs, cost, StepRecord(), targets, max_rows);
  const double in_steps = rows / cost.Predict(outputs + rows, outputs);
  const double step_ms = cost.Predict(outputs, outputs);
  const double turn_ms = LaneTurnMs(step_ms, targets);
  const double in_lane = kLaneRowsBeside / cost.Predict(kLaneRowsBeside, 0);
  return in_lane * turn_ms / (turn_ms + step_ms) / in_steps;
}

double SeniorityOf(double arrival_ms, Priority priority) {
  return arrival_ms + (priority == Priority::kBatch ? kBatchHandicapMs : 0);
}

double DeadlineOf(double seniority_ms, double remaining_ms) {
  return seniority_ms + kPatience * remaining_ms;
}

}  // namespace svc
