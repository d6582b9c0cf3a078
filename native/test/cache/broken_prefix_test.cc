// Prefixes whose states hold values that are not numbers, in every tier of the prefix cache.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

#include "engine/cache/prefix_tiers.h"
#include "prefix_folder.h"
#include "test.h"
#include "virtual_bench.h"

namespace svc {
namespace {

using namespace test;

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
      Want want{.prompt = Prompt(1, 300), .max_tokens = 10};
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
        EXPECT(Eventually([&] { return !folder.Files().empty(); }));
        bench.runner.Close();
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
