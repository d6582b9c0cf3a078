#include "bench.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "test.h"

namespace svc::test {

std::unique_ptr<Sampler> SamplerOf(const Want& want) {
  if (want.period > 0) return std::make_unique<EchoSampler>(want.seed, want.period);
  return std::make_unique<FakeSampler>(want.seed);
}

Outcome Alone(const Want& want, std::uint32_t cells) {
  std::vector<Token> tokens = want.prompt;
  const std::unique_ptr<Sampler> sampler = SamplerOf(want);
  TextStream stream(want.stop);
  Outcome outcome;
  if (want.max_tokens == 0) return {"", FinishReason::kLength, 0};
  for (;;) {
    std::vector<float> logits(kFakeVocabulary);
    LogitsOf(HashOf(tokens) + TagOf(want.adapters), logits.data());
    const Token token = sampler->Sample(logits.data());
    tokens.push_back(token);
    ++outcome.output_tokens;
    if (token == kFakeEnd) break;
    if (stream.Push(FakePiece(token), &outcome.text)) return outcome;
    if (outcome.output_tokens == want.max_tokens || tokens.size() >= cells) {
      outcome.reason = FinishReason::kLength;
      break;
    }
  }
  stream.Finish(&outcome.text);
  return outcome;
}

Want RandomWant(GenerationId id, std::mt19937& random, std::uint32_t longest_prompt) {
  Want want{.id = id, .seed = random()};
  want.prompt.resize(1 + random() % longest_prompt);
  for (Token& token : want.prompt) token = static_cast<Token>(random() % kFakeVocabulary);
  if (random() % 4 != 0) want.max_tokens = random() % 60;
  if (random() % 2 == 0) want.period = 1 + random() % 9;
  if (random() % 3 == 0) want.stop = {std::string(1, static_cast<char>('3' + random() % 40))};
  if (random() % 4 == 0) {
    want.adapters = {{.index = static_cast<std::uint32_t>(random() % 3), .scale = 1}};
  }
  return want;
}

Submission SubmissionOf(const Want& want) {
  Submission submission;
  submission.id = want.id;
  submission.prompt = want.prompt;
  submission.max_tokens = want.max_tokens;
  submission.stop = want.stop;
  submission.sampler = SamplerOf(want);
  submission.priority = want.priority;
  submission.reuse_prefix = want.reuse_prefix;
  submission.in_group = want.in_group;
  submission.adapters = want.adapters;
  submission.scope = want.scope;
  if (!want.adapters.empty()) {
    submission.scope.salt = submission.scope.salt * 256 + TagOf(want.adapters);
  }
  submission.store = want.store;
  return submission;
}

Bench::Bench(FakeOptions options, LoopOptions loop)
    : cells_(std::max(options.cells, options.max_cells)),
      runner(
          std::make_unique<FakeDecoder>(std::move(options), &record),
          [this](std::vector<GenerationOutput> outputs) { Hear(std::move(outputs)); },
          std::move(loop)) {}

Status Bench::Submit(const Want& want, std::unique_ptr<Sampler> sampler) {
  Submission submission = SubmissionOf(want);
  submission.sampler = std::move(sampler);
  return runner.Submit(std::move(submission));
}

bool Bench::WaitFor(GenerationId id) {
  std::unique_lock lock(mutex_);
  return heard_.wait_for(lock, kPatience, [&] { return ends_.contains(id); });
}

bool Bench::Ended(GenerationId id) const {
  const std::lock_guard lock(mutex_);
  return ends_.contains(id);
}

std::string Bench::Text(GenerationId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = texts_.find(id);
  return found == texts_.end() ? "" : found->second;
}

std::string Bench::Told(GenerationId id) const {
  const std::lock_guard lock(mutex_);
  return told_.at(id);
}

GenerationOutput Bench::End(GenerationId id) const {
  const std::lock_guard lock(mutex_);
  return ends_.at(id);
}

void Bench::ExpectNothingHeld() const {
  const auto deadline = Clock::now() + kPatience;
  EngineStats stats = runner.stats();
  std::uint32_t cells = record.cells;
  // Prefixes may still be on their way to disk and hold cells meanwhile.
  while (stats.kv_cells_cached != cells && Clock::now() < deadline) {
    std::this_thread::yield();
    stats = runner.stats();
    cells = record.cells;
  }
  EXPECT_EQ(stats.active + stats.waiting, 0U);
  EXPECT_EQ(stats.kv_cells_used, 0U);
  EXPECT_EQ(stats.kv_cells_cached, cells);
}

std::uint32_t Bench::sink_calls() const {
  const std::lock_guard lock(mutex_);
  return sink_calls_;
}

void Bench::ExpectAsAlone(const Want& want) const {
  const Outcome alone = Alone(want, cells_);
  const GenerationOutput end = End(want.id);
  EXPECT(end.status.ok());
  EXPECT_EQ(Text(want.id), alone.text);
  EXPECT_EQ(end.reason, alone.reason);
  EXPECT_EQ(end.usage.output_tokens, alone.output_tokens);
  EXPECT_EQ(end.usage.input_tokens, want.prompt.size());
}

void Bench::Hear(std::vector<GenerationOutput> outputs) {
  const std::lock_guard lock(mutex_);
  ++sink_calls_;
  EXPECT(!outputs.empty());
  std::set<GenerationId> ids;
  for (GenerationOutput& output : outputs) {
    EXPECT(ids.insert(output.id).second);  // one output per step
    EXPECT(!ends_.contains(output.id));    // nothing after the last one
    EXPECT(output.done || output.cells || !output.text.empty());
    if (output.cells) on_demand(*output.cells);
    texts_[output.id] += output.text;
    for (const TokenLogprobs& token : output.logprobs) {
      EXPECT(!output.text.empty());
      told_[output.id] += token.chosen.bytes + "|";
    }
    if (output.done) ends_.emplace(output.id, std::move(output));
  }
  heard_.notify_all();
}

std::function<DecodeOutcome(std::span<const Row>, const std::atomic<bool>&)> Gate::AtStep(int n) {
  return [this, n, step = 0](std::span<const Row>, const std::atomic<bool>&) mutable {
    if (++step == n) Pass();
    return DecodeOutcome::kDone;
  };
}

void Gate::WaitUntilReached() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

void Gate::Open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Gate::Pass() {
  std::unique_lock lock(mutex_);
  reached_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return open_; });
}

}  // namespace svc::test
