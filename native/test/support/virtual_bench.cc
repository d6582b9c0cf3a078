#include "virtual_bench.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "test.h"

namespace svc::test {

Want Steady(GenerationId id, std::vector<Token> prompt, std::uint32_t tokens) {
  Want want{.id = id, .prompt = std::move(prompt), .max_tokens = tokens, .seed = id + 1};
  while (Alone(want, 1U << 20U).output_tokens < tokens) ++want.seed;
  return want;
}

std::vector<Token> Prompt(Token first, std::size_t count) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>((first + i * 7) % 64);
  return tokens;
}

FakeOptions WithLane() {
  return {
      .cells = 8192, .max_rows = 512, .lane_cells = 2048, .lane_rows = 256, .lane_advances = 48};
}

VirtualBench::VirtualBench(FakeOptions options, bool measured, double part)
    : cells_(std::max(options.cells, options.max_cells)) {
  auto fault = std::move(options.fault);
  options.fault = [this, fault, part](std::span<const Row> rows, const std::atomic<bool>& abort) {
    double ms = 20;
    for (const Row& row : rows) ms += row.wants_logits ? 8 : 5;
    Pass(ms * part);
    return fault ? fault(rows, abort) : DecodeOutcome::kDone;
  };
  options.lane_fault = [this, lane_fault = std::move(options.lane_fault),
                        advances = options.lane_advances](std::uint32_t rows) {
    Pass((20 + rows * 5.0) / advances);
    return lane_fault ? lane_fault(rows) : PrefillLane::Progress::kDone;
  };
  auto decoder = std::make_unique<FakeDecoder>(std::move(options), &record);
  const Now now = [this] { return time_; };
  CostModel cost;
  if (measured) cost = CostModel::Measure(*decoder, now, 1e6);
  loop = std::make_unique<Loop>(std::move(decoder), LoopOptions{.cost = cost, .now = now});
}

void VirtualBench::Pass(double ms) {
  time_ +=
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
}

void VirtualBench::Add(const Want& want) {
  wants_[want.id] = want;
  Submission submission = SubmissionOf(want);
  submission.submitted_at = time_;
  loop->Add(std::move(submission));
}

bool VirtualBench::Step() {
  const bool planned = loop->Plan(beside_media);
  // The runner sleeps now, so a second plan must not find more.
  if (!planned) EXPECT(!loop->Plan(beside_media) && !loop->HasWork());
  Hear();
  if (planned) {
    const double start = now_ms();
    loop->Compute(never_);
    longest_step_ms = std::max(longest_step_ms, now_ms() - start);
    Hear();
  }
  const EngineStats stats = loop->stats();
  EXPECT_EQ(stats.kv_cells_used + stats.kv_cells_cached, record.cells.load());
  EXPECT(record.cells <= stats.kv_cells_total);
  return planned;
}

void VirtualBench::RunToTheEnd() {
  // A step may only have asked for cells.
  do {
    has_answered_ = false;
  } while (Step() || has_answered_);
  EXPECT_EQ(ends.size(), wants_.size());
  EXPECT_EQ(loop->stats().kv_cells_used, 0U);
}

void VirtualBench::ExpectAsAlone(GenerationId id) const {
  const Want& want = wants_.at(id);
  const Outcome alone = Alone(want, cells_);
  if (!ends.contains(id)) {
    Fail(__FILE__, __LINE__, "a generation did not end");
    return;
  }
  const GenerationOutput& end = ends.at(id);
  const auto text = texts.find(id);
  if (end.reason == FinishReason::kCancelled) {
    EXPECT(text == texts.end() || alone.text.starts_with(text->second));
    return;
  }
  EXPECT(end.status.ok());
  EXPECT_EQ(text->second, alone.text);
  EXPECT_EQ(end.reason, alone.reason);
  EXPECT_EQ(end.usage.output_tokens, alone.output_tokens);
}

void VirtualBench::Hear() {
  if (loop->MayWait()) return;
  for (GenerationOutput& output : loop->TakeOutputs()) {
    texts[output.id] += output.text;
    heard_ms[output.id].push_back(now_ms());
    if (output.cells && on_demand) {
      on_demand(*output.cells);
      has_answered_ = true;
    }
    if (output.done) EXPECT(ends.emplace(output.id, std::move(output)).second);
  }
}

}  // namespace svc::test
