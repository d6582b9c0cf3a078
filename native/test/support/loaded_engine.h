// A complete engine with a real model file, its requests and its outputs.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "answer.h"
#include "engine/engine.h"
#include "models.h"
#include "test.h"

namespace svc::test {

// Outputs that the sink received. Thread: any.
class Listener {
 public:
  OutputSink Sink();
  // False: it took longer than kPatience.
  bool WaitFor(GenerationId id);
  bool WaitForText(GenerationId id);

  std::string Text(GenerationId id);
  std::vector<TokenLogprobs> Logprobs(GenerationId id);
  std::vector<Token> Tokens(GenerationId id);
  svc::test::Answer Answer(GenerationId id);
  GenerationOutput End(GenerationId id);

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
std::unique_ptr<Engine> Load(const LoadOptions& options, OutputSink sink);

struct Loaded {
  Listener listener;
  std::unique_ptr<Engine> owner;
  TextEngine* engine = nullptr;
};

// Loads a text engine; on failure fails the test and returns null.
std::unique_ptr<Loaded> LoadEngine(const std::string& path, std::uint32_t context_length = 2048,
                                   int threads = 0);

// Returns a text of `words` words that depends on `start`.
std::string Prompt(int words, int start);

GenerationRequest Request(GenerationId id, const std::string& prompt, SamplingParams sampling,
                          std::uint32_t max_tokens);
SamplingParams Greedy();
SamplingParams Seeded(std::uint32_t seed);

}  // namespace svc::test
