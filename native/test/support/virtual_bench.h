// A loop over a fake model on a virtual clock, with the invariants that every test expects: each
// generation ends exactly once, no cell leaks, and each text equals that of the generation alone.
#pragma once

#include <atomic>
#include <functional>
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
  explicit VirtualBench(FakeOptions options = {}, bool measured = true, double part = 1);

  double now_ms() const { return Milliseconds(time_.time_since_epoch()); }
  void Pass(double ms);

  void Add(const Want& want);
  // False: there was nothing to do.
  bool Step();
  void RunToTheEnd();
  void ExpectAsAlone(GenerationId id) const;
  double TimeToFirstToken(GenerationId id) const { return ends.at(id).timings.first_token_ms; }
  FakeRecord record;
  std::unique_ptr<Loop> loop;
  std::map<GenerationId, std::string> texts;
  std::map<GenerationId, GenerationOutput> ends;
  std::map<GenerationId, std::vector<double>> heard_ms;
  double longest_step_ms = 0;
  // A picture or sound is computed between the steps; it takes no time here.
  bool beside_media = false;
  // Called for each demand, between two steps.
  std::function<void(CellDemand)> on_demand;

 private:
  void Hear();

  const std::uint32_t cells_;
  Clock::time_point time_;
  std::map<GenerationId, Want> wants_;
  const std::atomic<bool> never_ = false;
  bool has_answered_ = false;  // a demand
};

// Returns a request whose text has exactly `tokens` tokens.
Want Steady(GenerationId id, std::vector<Token> prompt, std::uint32_t tokens);

// Returns `count` tokens that depend on the first one.
std::vector<Token> Prompt(Token first, std::size_t count);

// Part of the cost: a step of one row takes 1.12 ms.
inline constexpr double kShort = 0.04;

// Options with a prefill lane, whose batches are computed in 48 stretches.
FakeOptions WithLane();

}  // namespace svc::test
