// A KV cache that grows, with real models of each kind of memory: the texts are those of an engine
// that has all cells from the beginning.
#include "folder.h"
#include "loaded_engine.h"
#include "test.h"

namespace svc {
namespace {

using namespace test;

constexpr std::uint32_t kContext = 4096;

// An engine that begins with `cells` cells and is granted what it asks for, but at least `grant`.
struct Growing {
  Growing(const std::string& path, std::uint32_t cells, const std::string& folder = "",
          std::uint32_t grant = 0, CacheType cache_type = CacheType::kF16) {
    OutputSink listen = listener.Sink();
    LoadOptions options{.path = path, .context_length = kContext, .kv_cells = cells, .threads = 1};
    options.cache_type = cache_type;
    options.prefix_folder = folder;
    options.prefix_model = "model";
    options.prefix_bytes = 1U << 30U;
    options.prefix_key = {1, 2};
    owner = Load(options, [this, listen, grant](std::vector<GenerationOutput> outputs) {
      for (const GenerationOutput& output : outputs) {
        if (!output.cells) continue;
        ++demands;
        owner->text()->GrantCells(std::max(output.cells->wanted, grant), "");
      }
      listen(std::move(outputs));
    });
  }
  ~Growing() {
    if (owner != nullptr) owner->Close();
  }

  // Text of up to `tokens` tokens.
  std::string Ask(GenerationId id, const std::string& prompt, std::uint32_t tokens,
                  const SamplingParams& sampling = Greedy()) {
    EXPECT(owner->text()->Submit(Request(id, prompt, sampling, tokens)).ok());
    EXPECT(listener.WaitFor(id));
    EXPECT(listener.End(id).status.ok());
    return listener.Text(id);
  }

  std::atomic<int> demands = 0;
  Listener listener;
  std::unique_ptr<Engine> owner;
};

TEST(TextsAreThoseOfACacheThatNeedNotGrow) {
  for (const std::string& path : ModelsOfEachMemory()) {
    Growing small(path, 512);
    Growing large(path, 0);
    REQUIRE(small.owner != nullptr && large.owner != nullptr);
    EXPECT_EQ(small.owner->info().context_length, kContext);
    EXPECT_EQ(small.owner->stats().kv_cells_total, 512U);
    // A short one, a long prompt, its continuation, and an answer that outgrows what there is.
    const std::string long_prompt = Prompt(1200, 2);
    GenerationId id = 0;
    const auto same = [&](const std::string& prompt, std::uint32_t tokens) {
      ++id;
      EXPECT_EQ(small.Ask(id, prompt, tokens), large.Ask(id, prompt, tokens));
    };
    same(Prompt(40, 1), 16);
    EXPECT_EQ(small.demands.load(), 0);
    same(long_prompt, 16);
    EXPECT(small.demands > 0);
    same(long_prompt + " " + Prompt(20, 3), 16);
    EXPECT(small.owner->stats().kv_cells_total > 1200);
    EXPECT_EQ(large.demands.load(), 0);
  }
}

TEST(AnAnswerGoesOnAcrossGrowths) {
  for (const std::string& path : ModelsOfEachMemory()) {
    Growing small(path, 256);
    Growing large(path, 0);
    REQUIRE(small.owner != nullptr && large.owner != nullptr);
    const std::string prompt = Prompt(150, 1);
    // With a seed a text is bit-identical to that of a plain loop.
    const std::string text = small.Ask(1, prompt, 600, Seeded(3));
    EXPECT_EQ(text, large.Ask(1, prompt, 600, Seeded(3)));
    if (small.listener.End(1).usage.output_tokens > 150) EXPECT(small.demands > 0);
  }
}

TEST(AQuantizedCacheGrowsAsWell) {
  const std::string path = TinyModels()[0];
  Growing small(path, 256, "", 0, CacheType::kQ8_0);
  Growing large(path, 0, "", 0, CacheType::kQ8_0);
  REQUIRE(small.owner != nullptr && large.owner != nullptr);
  const std::string prompt = Prompt(150, 1);
  EXPECT_EQ(small.Ask(1, prompt, 300, Seeded(3)), large.Ask(1, prompt, 300, Seeded(3)));
  EXPECT_EQ(small.Ask(2, Prompt(900, 2), 8, Seeded(3)), large.Ask(2, Prompt(900, 2), 8, Seeded(3)));
  EXPECT(small.demands > 0);
}

TEST(WhatTheDiskHasOfALongPromptIsReadAfterTheGrowth) {
  for (const std::string& path : ModelsOfEachMemory()) {
    const Folder folder;
    const std::string prompt = Prompt(1200, 2);
    std::string text;
    {
      Growing first(path, 512, folder.path(), kContext);
      REQUIRE(first.owner != nullptr);
      text = first.Ask(1, prompt, 8);
    }
    Growing second(path, 512, folder.path(), kContext);
    REQUIRE(second.owner != nullptr);
    EXPECT_EQ(second.Ask(1, prompt, 8), text);
    EXPECT(second.demands > 0);
    EXPECT(second.listener.End(1).usage.cached_tokens > 1000);
  }
}

TEST(AnotherAnswerRunsMeanwhile) {
  Growing small(TinyModels()[0], 512);
  Growing large(TinyModels()[0], 0);
  REQUIRE(small.owner != nullptr && large.owner != nullptr);
  REQUIRE(small.owner->text()->Submit(Request(1, Prompt(30, 1), Greedy(), 200)).ok());
  REQUIRE(small.listener.WaitForText(1));
  const std::string text = small.Ask(2, Prompt(1000, 2), 8);
  REQUIRE(small.listener.WaitFor(1));
  EXPECT_EQ(text, large.Ask(2, Prompt(1000, 2), 8));
  EXPECT_EQ(small.listener.Text(1), large.Ask(1, Prompt(30, 1), 200));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
