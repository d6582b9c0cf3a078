// A complete engine with a real model file, its requests and its outputs.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "answer.h"
#include "engine/engine.h"
#include "models.h"
#include "test.h"

namespace svc::test {

// Outputs that the sink received. Thread: any.
class Listener {
 public:
  OutputSink Sink() {
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
  bool WaitFor(GenerationId id) {
    std::unique_lock lock(mutex_);
    return heard_.wait_for(lock, kPatience, [&] { return ends_.contains(id); });
  }
  bool WaitForText(GenerationId id) {
    std::unique_lock lock(mutex_);
    return heard_.wait_for(lock, kPatience, [&] { return !texts_[id].empty(); });
  }
  std::string Text(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return texts_[id];
  }
  std::vector<TokenLogprobs> Logprobs(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return logprobs_[id];
  }
  std::vector<Token> Tokens(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return tokens_[id];
  }
  svc::test::Answer Answer(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return answers_[id];
  }
  GenerationOutput End(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return ends_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::map<GenerationId, std::string> texts_;
  std::map<GenerationId, svc::test::Answer> answers_;
  std::map<GenerationId, std::vector<TokenLogprobs>> logprobs_;
  std::map<GenerationId, std::vector<Token>> tokens_;
  std::map<GenerationId, GenerationOutput> ends_;
};

// Loads an engine; on failure fails the test and returns null.
inline std::unique_ptr<Engine> Load(const LoadOptions& options, OutputSink sink) {
  LoadModules();
  Result<std::unique_ptr<Engine>> engine = Engine::Load(options, std::move(sink));
  if (engine.ok()) return std::move(engine.value());
  Fail(__FILE__, __LINE__, engine.status().message());
  return nullptr;
}

struct Loaded {
  Listener listener;
  std::unique_ptr<Engine> owner;
  TextEngine* engine = nullptr;
};

// Loads a text engine; on failure fails the test and returns null.
inline std::unique_ptr<Loaded> LoadEngine(const std::string& path,
                                          std::uint32_t context_length = 2048, int threads = 0) {
  auto loaded = std::make_unique<Loaded>();
  loaded->owner = Load({.path = path, .context_length = context_length, .threads = threads},
                       loaded->listener.Sink());
  if (loaded->owner == nullptr) return nullptr;
  loaded->engine = loaded->owner->text();
  EXPECT(loaded->engine != nullptr);
  return loaded;
}

// Returns a text of `words` words that depends on `start`.
inline std::string Prompt(int words, int start) {
  static const std::vector<std::string> kWords = {"the",    "river", "runs",  "under", "old",
                                                  "bridge", "and",   "seven", "boats", "wait"};
  std::string text;
  for (int i = 0; i < words; ++i) text += (i == 0 ? "" : " ") + kWords[(start * 3 + i * 7) % 10];
  return text;
}

inline GenerationRequest Request(GenerationId id, const std::string& prompt,
                                 SamplingParams sampling, std::uint32_t max_tokens) {
  GenerationRequest request;
  request.id = id;
  request.prompt = prompt;
  request.sampling = std::move(sampling);
  request.max_tokens = max_tokens;
  return request;
}

inline SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

inline SamplingParams Seeded(std::uint32_t seed) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

}  // namespace svc::test
