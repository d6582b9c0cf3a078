// A runner over the fake model, with the invariants that every test expects: each generation ends
// exactly once, no cell leaks, and each text equals the text of the same generation run alone.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/run/runner.h"
#include "fake_decoder.h"

namespace svc::test {

struct Want {
  GenerationId id = 0;
  std::vector<Token> prompt;
  std::optional<std::uint32_t> max_tokens;
  std::vector<std::string> stop;
  std::uint64_t seed = 0;
  std::uint32_t period = 0;  // tokens after which the text repeats (EchoSampler); 0: no repetition
  Priority priority = Priority::kInteractive;
  bool reuse_prefix = true;
  bool in_group = false;
  AdapterSet adapters = {};  // not in `scope`: SubmissionOf adds them
  PrefixScope scope = {};
  bool store = true;
};

struct Outcome {
  std::string text;
  FinishReason reason = FinishReason::kStop;
  std::uint32_t output_tokens = 0;
};

std::unique_ptr<Sampler> SamplerOf(const Want& want);

// Computes a generation alone, without a runner.
Outcome Alone(const Want& want, std::uint32_t cells);

Want RandomWant(GenerationId id, std::mt19937& random, std::uint32_t longest_prompt);

Submission SubmissionOf(const Want& want);

// A runner and the outputs that its sink received. Methods: any thread.
class Bench {
 public:
  explicit Bench(FakeOptions options = {}, LoopOptions loop = {});

  Status Submit(const Want& want) { return runner.Submit(SubmissionOf(want)); }
  Status Submit(const Want& want, std::unique_ptr<Sampler> sampler);

  // False if the generation did not end within 60 s.
  bool WaitFor(GenerationId id);
  bool Ended(GenerationId id) const;
  std::string Text(GenerationId id) const;
  // Bytes of the tokens with reported probabilities, each followed by "|".
  std::string Told(GenerationId id) const;
  GenerationOutput End(GenerationId id) const;
  // Expects that no generation is alive and all used cells hold evictable prefixes.
  void ExpectNothingHeld() const;
  std::uint32_t sink_calls() const;

  void ExpectAsAlone(const Want& want) const;

 private:
  void Hear(std::vector<GenerationOutput> outputs);

  const std::uint32_t cells_;
  mutable std::mutex mutex_;
  std::condition_variable heard_;
  std::map<GenerationId, std::string> texts_;
  std::map<GenerationId, std::string> told_;
  std::map<GenerationId, GenerationOutput> ends_;
  std::uint32_t sink_calls_ = 0;

 public:
  FakeRecord record;
  // Called on the runner thread for each demand.
  std::function<void(CellDemand)> on_demand = [this](CellDemand demand) {
    runner.GrantCells(demand.wanted, "");
  };
  Runner runner;  // last: its thread uses the other members
};

// Blocks the runner inside a step until opened.
class Gate {
 public:
  // Returns a FakeOptions::fault with which step `n` waits until Open().
  std::function<DecodeOutcome(std::span<const Row>, const std::atomic<bool>&)> AtStep(int n);
  void WaitUntilReached();
  void Open();
  void Pass();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool open_ = false;
};

}  // namespace svc::test
