// A loop over a fake model on a virtual clock, with the invariants that every test expects: each
// generation ends exactly once, no cell leaks, and each text equals that of the generation alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench.h"
#include "engine/run/loop.h"

namespace svc::test {

// A loop over a fake model whose steps cost 20 ms, 5 for each row and 3 for each output; or a part
// of that.
class VirtualBench {
 public:
  explicit VirtualBench(FakeOptions options = {}, bool measured = true, double part = 1)
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

  double now_ms() const { return Milliseconds(time_.time_since_epoch()); }
  void Pass(double ms) {
    time_ +=
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
  }

  void Add(const Want& want) {
    wants_[want.id] = want;
    Submission submission = SubmissionOf(want);
    submission.submitted_at = time_;
    loop->Add(std::move(submission));
  }
  // False: there was nothing to do.
  bool Step() {
    const bool planned = loop->Plan();
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
  void RunToTheEnd() {
    // A step may only have asked for cells.
    do {
      has_answered_ = false;
    } while (Step() || has_answered_);
    EXPECT_EQ(ends.size(), wants_.size());
    EXPECT_EQ(loop->stats().kv_cells_used, 0U);
  }
  void ExpectAsAlone(GenerationId id) const {
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
  double TimeToFirstToken(GenerationId id) const { return ends.at(id).timings.first_token_ms; }
  FakeRecord record;
  std::unique_ptr<Loop> loop;
  std::map<GenerationId, std::string> texts;
  std::map<GenerationId, GenerationOutput> ends;
  std::map<GenerationId, std::vector<double>> heard_ms;
  double longest_step_ms = 0;
  // Called for each demand, between two steps.
  std::function<void(CellDemand)> on_demand;

 private:
  void Hear() {
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

  const std::uint32_t cells_;
  Clock::time_point time_;
  std::map<GenerationId, Want> wants_;
  const std::atomic<bool> never_ = false;
  bool has_answered_ = false;  // a demand
};

// Returns a request whose text has exactly `tokens` tokens.
inline Want Steady(GenerationId id, std::vector<Token> prompt, std::uint32_t tokens) {
  Want want{.id = id, .prompt = std::move(prompt), .max_tokens = tokens, .seed = id + 1};
  while (Alone(want, 1U << 20U).output_tokens < tokens) ++want.seed;
  return want;
}

// Returns `count` tokens that depend on the first one.
inline std::vector<Token> Prompt(Token first, std::size_t count) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>((first + i * 7) % 64);
  return tokens;
}

// Part of the cost: a step of one row takes 1.12 ms.
inline constexpr double kShort = 0.04;

// Options with a prefill lane, whose batches are computed in 48 stretches.
inline FakeOptions WithLane() {
  return {
      .cells = 8192, .max_rows = 512, .lane_cells = 2048, .lane_rows = 256, .lane_advances = 48};
}

}  // namespace svc::test
