#include "loop_parts.h"

#include <chrono>
#include <vector>

#include "test.h"

namespace svc::test {

CostModel CostOf(const std::function<double(std::size_t rows)>& ms) {
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

LoopParts::LoopParts(FakeOptions options, const CostModel& cost)
    : decoder(std::move(options), &record), costs(cost, {}, now, {}, 1) {}

Generation& LoopParts::Add(const Want& want) {
  Submission submission = SubmissionOf(want);
  submission.submitted_at = time;
  generations.push_back(std::make_unique<Generation>(std::move(submission)));
  admission.Arrived(*generations.back());
  shares.Count(generations);
  return *generations.back();
}

void LoopParts::Compute(Generation& generation, std::uint32_t rows) {
  std::vector<Row> batch;
  for (std::uint32_t i = generation.computed; i < generation.computed + rows; ++i) {
    batch.push_back({.token = generation.tokens[i],
                     .position = static_cast<std::int32_t>(i),
                     .sequence = generation.sequence});
  }
  EXPECT(decoder.Decode(batch, false) == DecodeOutcome::kDone);
  admission.Computed(generation, rows);
}

}  // namespace svc::test
