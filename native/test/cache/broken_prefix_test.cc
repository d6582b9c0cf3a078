// Prefixes whose states hold values that are not numbers, in every tier of the prefix cache.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>

#include "bench.h"
#include "engine/cache/prefix_tiers.h"
#include "folder.h"
#include "test.h"

namespace svc {
namespace {

using namespace test;

LoopOptions On(const Folder& folder, bool divisible) {
  LoopOptions options;
  options.store = PrefixStore::Open({.folder = folder.path(),
                                     .model = "fake",
                                     .seal = {.fingerprint = 1, .key = {5, 6}},
                                     .max_bytes = 1U << 30U,
                                     .divisible = divisible});
  return options;
}

std::vector<Token> Prompt(std::size_t count) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(i * i % kFakeVocabulary);
  return tokens;
}

// Draws no token from logits that are not numbers.
class CarefulSampler final : public Sampler {
 public:
  Token Sample(const float* logits) override {
    return std::isnan(logits[0]) ? kBrokenLogits : Token{7};
  }
};

// A device fault must not outlive the request that met it, neither in memory nor on the disk.
TEST(WhatIsBrokenIsNeitherKeptNorSaved) {
  for (const bool can_share : {true, false}) {
    for (const bool was_saved : {true, false}) {
      const Folder folder;
      std::atomic<bool> broken = !was_saved;
      const FakeOptions options{
          .cells = 4096,
          .max_rows = 128,
          .can_share = can_share,
          .logits = [&](const std::vector<Token>& tokens, std::size_t, float* logits) {
            LogitsOf(HashOf(tokens), logits);
            if (broken) std::fill_n(logits, kFakeVocabulary, NAN);
          }};
      Want want{.prompt = Prompt(300), .max_tokens = 10};
      const auto run = [&](Bench& bench) {
        ++want.id;
        EXPECT(bench.Submit(want, std::make_unique<CarefulSampler>()).ok());
        EXPECT(bench.WaitFor(want.id));
        return bench.End(want.id);
      };
      if (was_saved) {
        Bench bench(options, On(folder, can_share));
        EXPECT(run(bench).status.ok());
        // A closing engine saves for a limited time.
        const auto end = Clock::now() + test::kPatience;
        while (folder.Files().empty() && Clock::now() < end) std::this_thread::yield();
        bench.runner.Close();
        EXPECT(!folder.Files().empty());
        broken = true;
      }
      {
        Bench bench(options, On(folder, can_share));
        EXPECT_EQ(run(bench).status.code(), StatusCode::kInternal);
        bench.runner.Close();
      }
      broken = false;
      Bench bench(options, On(folder, can_share));
      const GenerationOutput end = run(bench);
      EXPECT(end.status.ok());
      EXPECT_EQ(end.usage.cached_tokens, 0U);
      bench.ExpectNothingHeld();
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
