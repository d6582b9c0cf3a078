// LoRA adapters in a complete engine: the text with a set of adapters is that of a plain loop of
// libllama with the same ones, alone and beside others, with every way to reuse a prefix.
#include <cmath>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/llama/lora/adapters.h"
#include "folder.h"
#include "loaded_engine.h"
#include "models.h"
#include "reference.h"
#include "test.h"
#include "ties.h"

namespace svc {
namespace {

using test::Folder;
using test::Greedy;
using test::Listener;
using test::ModelPath;
using test::Prompt;
using test::Request;
using test::SameButForTies;
using test::Seeded;

AdapterFile File(const std::string& id) { return {.id = id, .path = ModelPath("adapters/" + id)}; }

constexpr const char* kAttention = "llama-attention";
constexpr const char* kForward = "llama-forward";

struct Answer {
  std::string text;
  GenerationUsage usage;
};

// An engine with adapters.
class Host {
 public:
  explicit Host(LoadOptions options) {
    OutputSink listen = listener_.Sink();
    if (options.context_length == 0) options.context_length = 2048;
    engine_ = test::Load(options, [this, listen](std::vector<GenerationOutput> outputs) {
      for (const GenerationOutput& output : outputs) {
        if (output.cells) engine_->text()->GrantCells(output.cells->wanted, "");
      }
      listen(std::move(outputs));
    });
  }
  ~Host() {
    if (engine_ != nullptr) engine_->Close();
  }

  bool is_loaded() const { return engine_ != nullptr; }
  const ModelInfo& info() const { return engine_->info(); }
  EngineStats stats() const { return engine_->stats(); }

  Status Submit(GenerationRequest request, std::vector<AdapterWish> lora) {
    request.lora = std::move(lora);
    return engine_->text()->Submit(std::move(request)).status();
  }
  // Log probabilities of an answer that has ended.
  std::vector<TokenLogprobs> Logprobs(GenerationId id) { return listener_.Logprobs(id); }
  Answer Wait(GenerationId id) {
    EXPECT(listener_.WaitFor(id));
    const GenerationOutput end = listener_.End(id);
    EXPECT(end.status.ok());
    return {listener_.Text(id), end.usage};
  }
  Answer Ask(const std::string& prompt, std::vector<AdapterWish> lora,
             const SamplingParams& sampling = Greedy(), std::uint32_t tokens = 32) {
    const GenerationId id = ++last_id_;
    EXPECT(Submit(Request(id, prompt, sampling, tokens), std::move(lora)).ok());
    return Wait(id);
  }
  GenerationId NextId() { return ++last_id_; }

 private:
  Listener listener_;
  std::unique_ptr<Engine> engine_;
  GenerationId last_id_ = 0;
};

LoadOptions LlamaWithBoth() {
  return {.path = ModelPath("tiny-llama"), .adapters = {File(kAttention), File(kForward)}};
}

TEST(AtScaleZeroTheTextIsThatOfTheBaseToTheByte) {
  Host plain({.path = ModelPath("tiny-llama"), .context_length = 2048});
  Host host(LlamaWithBoth());
  REQUIRE(plain.is_loaded() && host.is_loaded());
  for (const SamplingParams& sampling : {Greedy(), Seeded(1), Seeded(7)}) {
    for (const int words : {3, 300}) {
      const std::string prompt = Prompt(words, 1);
      const std::string expected = plain.Ask(prompt, {}, sampling).text;
      EXPECT_EQ(host.Ask(prompt, {{kAttention, 0}}, sampling).text, expected);
      EXPECT_EQ(host.Ask(prompt, {{kAttention, 0}, {kForward, -0.0F}}, sampling).text, expected);
      EXPECT(host.Ask(prompt, {{kAttention, 1}}, sampling).text != expected);
      EXPECT_EQ(host.Ask(prompt, {{kForward, 0}}, sampling).text, expected);
    }
  }
  // It shares the prefixes of the base.
  const Answer base = host.Ask(Prompt(200, 5), {});
  EXPECT_EQ(base.usage.cached_tokens, 0U);
  EXPECT(host.Ask(Prompt(200, 5), {{kForward, 0}}).usage.cached_tokens > 150);
}

// Llama and Qwen have quantised weights, which our kernels compute where they can; Gemma 3 has a
// sliding window, Qwen 3.5 a recurrent state. The longest prompts go through the lane.
TEST(TheTextIsThatOfAPlainLoopWithTheSameAdapters) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> models = {
      {"tiny-llama", {kAttention, kForward}},
      {"tiny-qwen2", {"qwen2"}},
      {"tiny-gemma3", {"gemma3"}},
      {"tiny-qwen35", {"qwen35"}}};
  for (const auto& [name, ids] : models) {
    LoadOptions options{.path = ModelPath(name), .context_length = 2048};
    for (const std::string& id : ids) options.adapters.push_back(File(id));
    Host host(options);
    const auto model = test::LoadTinyModel(options.path);
    REQUIRE(host.is_loaded() && model != nullptr);
    const Adapters adapters(model->get(), options.path, options.adapters);
    std::vector<std::vector<AdapterWish>> choices = {{{ids[0], 1}}, {{ids[0], -0.6F}}};
    if (ids.size() > 1) choices.push_back({{ids[1], 0.8F}, {ids[0], 0.4F}});
    for (const std::vector<AdapterWish>& wishes : choices) {
      const AdapterSet set = adapters.Choose(wishes).value();
      for (const int words : {3, 40, 900}) {
        for (const SamplingParams& sampling : {Greedy(), Seeded(9)}) {
          GenerationRequest request = Request(host.NextId(), Prompt(words, 1), sampling, 40);
          request.reuse_prefix = false;  // as the plain loop
          const std::vector<Token> tokens = model->Tokenize(request.prompt, true, true).value();
          const test::Reference expected = test::RunReference(
              *model, tokens, sampling, 40, 2048, host.info().threads, "",
              [&](llama_context* context) { UseAdapters(context, adapters.handles(), set); });
          const GenerationId id = request.id;
          EXPECT(host.Submit(std::move(request), wishes).ok());
          EXPECT_EQ(host.Wait(id).text, expected.text);
        }
      }
    }
  }
}

std::vector<std::vector<AdapterWish>> Choices() {
  return {{}, {{kAttention, 1}}, {{kForward, 1}}, {{kAttention, 0.5F}, {kForward, 1}}};
}

// The `number`th request of twelve, with its set.
GenerationId SubmitNumber(Host& host, int number) {
  const GenerationId id = host.NextId();
  GenerationRequest request = Request(id, Prompt(20 + number, number / 4), Greedy(), 60);
  request.logprobs = 2;
  EXPECT(host.Submit(std::move(request), Choices()[number % 4]).ok());
  return id;
}

TEST(TextsOfSeveralSetsBesideOneAnotherAreThoseOfEachAloneButForTies) {
  constexpr int kRequests = 12;
  std::vector<std::vector<TokenLogprobs>> alone;
  {
    Host host(LlamaWithBoth());
    REQUIRE(host.is_loaded());
    for (int i = 0; i < kRequests; ++i) {
      const GenerationId id = SubmitNumber(host, i);
      host.Wait(id);
      alone.push_back(host.Logprobs(id));
    }
  }
  Host host(LlamaWithBoth());
  REQUIRE(host.is_loaded());
  std::vector<GenerationId> ids;
  for (int i = 0; i < kRequests; ++i) ids.push_back(SubmitNumber(host, i));
  int told_apart = 0;
  for (int i = 0; i < kRequests; ++i) {
    host.Wait(ids[i]);
    EXPECT(SameButForTies(alone[i], host.Logprobs(ids[i])));
    if (!SameButForTies(alone[(i + 1) % kRequests], host.Logprobs(ids[i]))) ++told_apart;
  }
  // Other sets give other texts, unless the first words are a near tie.
  EXPECT(told_apart > kRequests / 2);
}

TEST(OneAfterTheOtherEachSetHasItsOwnTextAndPrefixes) {
  Host host(LlamaWithBoth());
  REQUIRE(host.is_loaded());
  const std::string prompt = Prompt(300, 3);
  std::vector<std::string> texts;
  for (const auto& choice : Choices()) {
    const Answer answer = host.Ask(prompt, choice);
    EXPECT_EQ(answer.usage.cached_tokens, 0U);
    for (const std::string& other : texts) EXPECT(answer.text != other);
    texts.push_back(answer.text);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<AdapterWish> choice = Choices()[i];
    std::ranges::reverse(choice);
    const Answer again = host.Ask(prompt, choice);
    EXPECT(again.usage.cached_tokens > 250);
    EXPECT_EQ(again.text, texts[i]);
  }
  EXPECT_EQ(host.Ask(prompt, {{kAttention, 0.9F}}).usage.cached_tokens, 0U);
}

TEST(AdaptersThatCannotBeUsedDoNotFailTheLoad) {
  LoadOptions options = LlamaWithBoth();
  options.adapters = {File("qwen2"), File(kForward), {.id = "none", .path = "/none.gguf"}};
  Host host(options);
  REQUIRE(host.is_loaded());
  const std::vector<AdapterInfo>& infos = host.info().adapters;
  REQUIRE(infos.size() == 3);
  EXPECT_EQ(infos[0].id, "qwen2");
  EXPECT(infos[0].error.find("another base model") != std::string::npos);
  EXPECT(infos[1].error.empty() && !infos[2].error.empty());
  for (const std::vector<AdapterWish>& wishes :
       std::vector<std::vector<AdapterWish>>{{{"qwen2", 1}},
                                             {{"none", 1}},
                                             {{"unknown", 1}},
                                             {{kForward, NAN}},
                                             {{kForward, INFINITY}},
                                             {{kForward, 1}, {kForward, 1}}}) {
    const Status refused = host.Submit(Request(host.NextId(), "Hello", Greedy(), 4), wishes);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidRequest);
    EXPECT_EQ(refused.param(), "lora");
  }
  EXPECT(!host.Ask("Hello", {{kForward, 1}}).text.empty());
}

TEST(AGrownCacheComputesWithTheSameAdapters) {
  for (const auto& [name, id] : std::vector<std::pair<std::string, std::string>>{
           {"tiny-llama", kAttention}, {"tiny-qwen35", "qwen35"}}) {
    LoadOptions options{.path = ModelPath(name), .context_length = 4096, .adapters = {File(id)}};
    Host large(options);
    options.kv_cells = 256;
    Host small(options);
    REQUIRE(large.is_loaded() && small.is_loaded());
    // The answer outgrows the cache, then the next prompt does.
    for (const auto& [words, tokens] : {std::pair(150, 300U), std::pair(1200, 20U)}) {
      const std::string expected = large.Ask(Prompt(words, 2), {{id, 1}}, Greedy(), tokens).text;
      EXPECT_EQ(small.Ask(Prompt(words, 2), {{id, 1}}, Greedy(), tokens).text, expected);
    }
    EXPECT(small.stats().kv_cells_total > 256);
  }
}

TEST(AfterARestartEachSetFindsItsOwnPrefixesOnTheDisk) {
  for (const auto& [name, id] : std::vector<std::pair<std::string, std::string>>{
           {"tiny-llama", kAttention}, {"tiny-qwen35", "qwen35"}}) {
    const Folder folder;
    LoadOptions options{.path = ModelPath(name), .threads = 1, .adapters = {File(id)}};
    options.prefix_folder = folder.path();
    options.prefix_model = "model";
    options.prefix_bytes = 1U << 30U;
    options.prefix_key = {1, 2};
    const std::string prompt = Prompt(300, 1);
    std::string text;
    {
      Host host(options);
      REQUIRE(host.is_loaded());
      text = host.Ask(prompt, {{id, 1}}).text;
    }
    EXPECT(!folder.Files().empty());
    // Where the adapter stands in the list does not matter.
    options.adapters.insert(options.adapters.begin(), {.id = "none", .path = "/none.gguf"});
    Host host(options);
    REQUIRE(host.is_loaded());
    EXPECT_EQ(host.Ask(prompt, {}).usage.cached_tokens, 0U);
    EXPECT_EQ(host.Ask(prompt, {{id, 0.5F}}).usage.cached_tokens, 0U);
    const Answer again = host.Ask(prompt, {{id, 1}});
    EXPECT(again.usage.cached_tokens > 128);
    EXPECT_EQ(again.text, text);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
