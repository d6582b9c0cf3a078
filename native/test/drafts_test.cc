// Drafts on real models: a greedy text is what it is without them.
//
// Each text is computed alone, in a cache of its own, because cells that lie elsewhere are summed
// up in another order (see batch_test.cc).
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/llama_decoder.h"
#include "engine/loop.h"
#include "engine/sampler.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

constexpr std::uint32_t kTokens = 80;

struct Said {
  std::string text;
  EngineStats stats;
};

Said Say(const LlamaModel& model, const std::vector<Token>& prompt, const SamplingParams& params,
         bool drafts) {
  Said said;
  Result<std::unique_ptr<Decoder>> decoder =
      NewLlamaDecoder(model, {.context_length = 2048, .threads = 1, .max_sequences = 2});
  Result<std::unique_ptr<Sampler>> sampler =
      NewSampler(model.vocab(), {.params = params, .prompt = prompt});
  if (!decoder.ok() || !sampler.ok()) {
    test::Fail(__FILE__, __LINE__, "no decoder or no sampler");
    return said;
  }
  Loop loop(std::move(decoder.value()), {});  // without a measured cost, so that runs are alike
  Submission submission;
  submission.prompt = prompt;
  submission.max_tokens = kTokens;
  submission.sampler = std::move(sampler.value());
  submission.reuse_prefix = drafts;
  loop.Add(std::move(submission));
  const std::atomic<bool> never = false;
  while (loop.Plan()) {
    loop.Compute(never);
    for (const GenerationOutput& output : loop.TakeOutputs()) {
      EXPECT(output.status.ok());
      said.text += output.text;
    }
  }
  said.stats = loop.stats();
  EXPECT_EQ(said.stats.cells_used, 0U);
  return said;
}

std::string Words(int count) {
  std::string text = "List:";
  for (int i = 0; i < count; ++i) text += i % 3 == 0 ? " river" : i % 3 == 1 ? " stone" : " cloud";
  return text;
}

TEST(AGreedyTextIsTheSameWithAndWithoutDrafts) {
  for (const std::string& path : test::TinyModels()) {
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    SamplingParams plain;
    plain.temperature = 0;
    // Few words, so that they come again.
    SamplingParams few = plain;
    for (const char* word : {" river", " stone", " cloud", " and", ","}) {
      few.logit_bias.emplace_back(model->Tokenize(word, false, false).value().back(), 12.0F);
    }
    SamplingParams penalised = few;
    penalised.repeat_penalty = 1.02F;
    for (const int words : {20, 400}) {
      int texts = 0;
      int equal = 0;
      std::uint64_t drafted = 0;
      std::uint64_t accepted = 0;
      for (const SamplingParams& params : {plain, few, penalised}) {
        const std::vector<Token> prompt = model->Tokenize(Words(words), true, true).value();
        const Said with = Say(*model, prompt, params, true);
        const Said without = Say(*model, prompt, params, false);
        EXPECT_EQ(without.stats.drafted_tokens, 0U);
        drafted += with.stats.drafted_tokens;
        accepted += with.stats.accepted_tokens;
        ++texts;
        if (with.text == without.text) ++equal;
      }
      std::printf("     %s, %d words: %d of %d equal; %llu of %llu accepted\n",
                  std::filesystem::path(path).stem().string().c_str(), words, equal, texts,
                  static_cast<unsigned long long>(accepted),
                  static_cast<unsigned long long>(drafted));
      EXPECT_EQ(equal, texts);
      EXPECT(accepted > 0);
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
