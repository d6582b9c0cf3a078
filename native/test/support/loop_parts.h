// The parts of a loop over a fake decoder, without the loop, for tests of one of them.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "bench.h"
#include "engine/run/admission.h"

namespace svc::test {

// Returns the cost model measured where a step of so many rows takes `ms(rows)`.
inline CostModel CostOf(const std::function<double(std::size_t rows)>& ms) {
  Clock::time_point time;
  FakeRecord record;
  FakeDecoder decoder(
      {.max_rows = 512,
       .fault =
           [&](std::span<const Row> rows, const std::atomic<bool>&) {
             time += std::chrono::microseconds(static_cast<std::int64_t>(ms(rows.size()) * 1000));
             return DecodeOutcome::kDone;
           }},
      &record);
  return CostModel::Measure(
      decoder, [&] { return time; }, 1e6);
}

struct LoopParts {
  explicit LoopParts(FakeOptions options = {}, const CostModel& cost = {})
      : decoder(std::move(options), &record), costs(cost, {}, now, {}, 1) {}

  Generation& Add(const Want& want) {
    Submission submission = SubmissionOf(want);
    submission.submitted_at = time;
    generations.push_back(std::make_unique<Generation>(std::move(submission)));
    admission.Arrived(*generations.back());
    shares.Count(generations);
    return *generations.back();
  }
  // Computes the next `rows` tokens of a generation in the cache.
  void Compute(Generation& generation, std::uint32_t rows) {
    std::vector<Row> batch;
    for (std::uint32_t i = generation.computed; i < generation.computed + rows; ++i) {
      batch.push_back({.token = generation.tokens[i],
                       .position = static_cast<std::int32_t>(i),
                       .sequence = generation.sequence});
    }
    EXPECT(decoder.Decode(batch, false) == DecodeOutcome::kDone);
    admission.Computed(generation, rows);
  }
  void Pass(double ms) { time += std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000)); }

  Clock::time_point time;
  const Now now = [this] { return time; };
  FakeRecord record;
  FakeDecoder decoder;
  StepCosts costs;
  FairShares shares{&decoder};
  Prefiller prefiller{&decoder, &costs};
  Generations generations;
  EngineStats counts;
  Admission admission{{.decoder = &decoder,
                       .generations = &generations,
                       .shares = &shares,
                       .prefiller = &prefiller,
                       .costs = &costs,
                       .counts = &counts,
                       .now = now,
                       .on_leave = [](const Generation&) {}},
                      nullptr};
};

}  // namespace svc::test
