#include "loaded_engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace svc::test {

OutputSink Listener::Sink() {
  return [this](std::vector<GenerationOutput> outputs) {
    const std::lock_guard lock(mutex_);
    for (GenerationOutput& output : outputs) {
      texts_[output.id] += output.text;
      answers_[output.id].Add(output);
      std::move(output.logprobs.begin(), output.logprobs.end(),
                std::back_inserter(logprobs_[output.id]));
      std::ranges::copy(output.tokens, std::back_inserter(tokens_[output.id]));
      if (output.done) ends_[output.id] = std::move(output);
    }
    heard_.notify_all();
  };
}

bool Listener::WaitFor(GenerationId id) {
  std::unique_lock lock(mutex_);
  return heard_.wait_for(lock, kPatience, [&] { return ends_.contains(id); });
}

bool Listener::WaitForText(GenerationId id) {
  std::unique_lock lock(mutex_);
  return heard_.wait_for(lock, kPatience, [&] { return !texts_[id].empty(); });
}

std::string Listener::Text(GenerationId id) {
  const std::lock_guard lock(mutex_);
  return texts_[id];
}

std::vector<TokenLogprobs> Listener::Logprobs(GenerationId id) {
  const std::lock_guard lock(mutex_);
  return logprobs_[id];
}

std::vector<Token> Listener::Tokens(GenerationId id) {
  const std::lock_guard lock(mutex_);
  return tokens_[id];
}

svc::test::Answer Listener::Answer(GenerationId id) {
  const std::lock_guard lock(mutex_);
  return answers_[id];
}

GenerationOutput Listener::End(GenerationId id) {
  const std::lock_guard lock(mutex_);
  return ends_[id];
}

std::unique_ptr<Engine> Load(const LoadOptions& options, OutputSink sink) {
  LoadModules();
  Result<std::unique_ptr<Engine>> engine = Engine::Load(options, std::move(sink));
  if (engine.ok()) return std::move(engine.value());
  Fail(__FILE__, __LINE__, engine.status().message());
  return nullptr;
}

std::unique_ptr<Loaded> LoadEngine(const std::string& path, std::uint32_t context_length,
                                   int threads) {
  auto loaded = std::make_unique<Loaded>();
  loaded->owner = Load({.path = path, .context_length = context_length, .threads = threads},
                       loaded->listener.Sink());
  if (loaded->owner == nullptr) return nullptr;
  loaded->engine = loaded->owner->text();
  EXPECT(loaded->engine != nullptr);
  return loaded;
}

std::string Prompt(int words, int start) {
  static const std::vector<std::string> kWords = {"the",    "river", "runs",  "under", "old",
                                                  "bridge", "and",   "seven", "boats", "wait"};
  std::string text;
  for (int i = 0; i < words; ++i) text += (i == 0 ? "" : " ") + kWords[(start * 3 + i * 7) % 10];
  return text;
}

GenerationRequest Request(GenerationId id, const std::string& prompt, SamplingParams sampling,
                          std::uint32_t max_tokens) {
  GenerationRequest request;
  request.id = id;
  request.prompt = prompt;
  request.sampling = std::move(sampling);
  request.max_tokens = max_tokens;
  return request;
}

SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

SamplingParams Seeded(std::uint32_t seed) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

}  // namespace svc::test
