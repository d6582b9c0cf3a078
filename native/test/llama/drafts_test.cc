// Draft tokens with real models: a greedy text is the same with and without them.
//
// Each text is computed alone in its own cache, because another order of cells changes the rounding
// of attention (see batch_test.cc).
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/llama/draft_model.h"
#include "engine/llama/llama_decoder.h"
#include "engine/llama/sampler.h"
#include "engine/run/loop.h"
#include "folder.h"
#include "loaded_engine.h"
#include "models.h"
#include "test.h"
#ifdef SVC_MATRIX_KERNELS
#include "engine/llama/cpu/cpu_kernels.h"
#endif

namespace svc {
namespace {

constexpr std::uint32_t kTokens = 80;
// Enough to learn a draft model's acceptance rate: random weights give flat distributions.
constexpr std::uint32_t kMany = 400;

struct Said {
  std::string text;
  EngineStats stats;
};

// Reports no Lead, so that the tie guard never rejects a row.
class Trusting final : public Sampler {
 public:
  explicit Trusting(std::unique_ptr<Sampler> sampler) : sampler_(std::move(sampler)) {}
  Token Sample(const float* logits) override { return sampler_->Sample(logits); }

 private:
  const std::unique_ptr<Sampler> sampler_;
};

// `draft`: a draft model in addition to prompt lookup.
Said Say(const LlamaModel& model, const std::vector<Token>& prompt, const SamplingParams& params,
         bool drafts, const LlamaModel* draft = nullptr, bool trusting = false) {
  Said said;
  Result<std::unique_ptr<Decoder>> decoder =
      NewLlamaDecoder(model, {.context_length = 2048, .threads = 1, .max_sequences = 2});
  Result<std::unique_ptr<Sampler>> sampler =
      NewSampler(model.vocab(), {.params = params, .prompt = prompt});
  if (!decoder.ok() || !sampler.ok()) {
    test::Fail(__FILE__, __LINE__, "no decoder or no sampler");
    return said;
  }
  LoopOptions options;  // no measured cost, so that runs are reproducible
  Clock::time_point time;
  if (draft != nullptr) {
    // On this clock steps take time and drafts take none.
    options.now = [&time] { return time += std::chrono::milliseconds(1); };
    Result<std::unique_ptr<Decoder>> drafting =
        NewLlamaDecoder(*draft, DraftDecoderOptions(*draft, decoder.value()->cells_total(), 1));
    if (!drafting.ok()) {
      test::Fail(__FILE__, __LINE__, drafting.status().message());
      return said;
    }
    options.drafter =
        std::make_unique<Drafter>(std::move(drafting.value()), decoder.value()->vocabulary(),
                                  [] { return Clock::time_point(); });
  }
  Loop loop(std::move(decoder.value()), std::move(options));
  Submission submission;
  submission.prompt = prompt;
  submission.max_tokens = trusting ? kMany : kTokens;
  submission.sampler = std::move(sampler.value());
  if (trusting) submission.sampler = std::make_unique<Trusting>(std::move(submission.sampler));
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
  EXPECT_EQ(said.stats.kv_cells_used, 0U);
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
    // Favors few words, so that they repeat.
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

#ifdef SVC_MATRIX_KERNELS
// Results of our kernels do not depend on other rows, so that no tie guard is needed.
TEST(WithKernelsOfOursEachRowIsTheSameToTheBitBesideDrafts) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::ModelPath("tiny-qwen2"));
  REQUIRE(model != nullptr);
  if (UseOwnKernels() == nullptr) return;
  for (const float bias : {4.0F, 8.0F, 12.0F}) {
    SamplingParams few;
    few.temperature = 0;
    for (const char* word : {" river", " stone", " cloud", " and", ","}) {
      few.logit_bias.emplace_back(model->Tokenize(word, false, false).value().back(), bias);
    }
    const std::vector<Token> prompt = model->Tokenize(Words(100), true, true).value();
    const Said with = Say(*model, prompt, few, true, nullptr, /*trusting=*/true);
    const Said without = Say(*model, prompt, few, false, nullptr, /*trusting=*/true);
    std::printf("     bias %.0f: %llu of %llu accepted\n", bias,
                static_cast<unsigned long long>(with.stats.accepted_tokens),
                static_cast<unsigned long long>(with.stats.drafted_tokens));
    EXPECT_EQ(with.text, without.text);
    EXPECT(with.stats.accepted_tokens > 0);
  }
}
#endif

TEST(ADraftModelThatSaysTheSameIsNearlyAlwaysRight) {
  for (const std::string& path : test::TinyModels()) {
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    const std::unique_ptr<LlamaModel> draft = test::LoadTinyModel(path);
    REQUIRE(model != nullptr && draft != nullptr);
    EXPECT_EQ(DraftRefusal(*model, *draft), "");
    SamplingParams params;
    params.temperature = 0;
    const std::vector<Token> prompt = model->Tokenize(Words(40), true, true).value();
    const Said plain = Say(*model, prompt, params, false);
    EXPECT_EQ(Say(*model, prompt, params, true, draft.get()).text, plain.text);
    const Said with = Say(*model, prompt, params, true, draft.get(), /*trusting=*/true);
    std::printf("     %s: %llu of %llu accepted, %llu steps\n",
                std::filesystem::path(path).stem().string().c_str(),
                static_cast<unsigned long long>(with.stats.accepted_tokens),
                static_cast<unsigned long long>(with.stats.drafted_tokens),
                static_cast<unsigned long long>(with.stats.steps));
    EXPECT(with.stats.accepted_tokens * 10 > with.stats.drafted_tokens * 9);
    EXPECT(with.stats.steps * 3 < kMany);
  }
}

// The engine with a copy of the model as draft model, with unsuitable draft models, and with none.
TEST(AnEngineTellsWhyADraftModelDraftsNothing) {
  test::LoadModules();
  const test::Folder folder;
  const std::filesystem::path models(SVC_TEST_MODELS);
  const std::string copy = folder.path() / "copy.gguf";
  std::filesystem::copy_file(models / "tiny-llama.gguf", copy);
  std::string plain;
  for (const auto& [draft, refusal] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {copy, ""},
           {models / "tiny-qwen2.gguf", "has a different vocabulary"},
           {models / "tiny-llama-embed.gguf", "is an embedding model"},
           {folder.path() / "none.gguf", "cannot be loaded"}}) {
    test::Listener listener;
    Result<std::unique_ptr<Engine>> engine = Engine::Load({.path = models / "tiny-llama.gguf",
                                                           .context_length = 1024,
                                                           .threads = 1,
                                                           .draft_path = draft},
                                                          listener.Sink());
    REQUIRE(engine.ok());
    const std::string& said = engine.value()->info().draft_refusal;
    EXPECT_EQ(said.empty(), refusal.empty());
    EXPECT_EQ(said.substr(0, refusal.size()), refusal);
    REQUIRE(engine.value()
                ->text()
                ->Submit(test::Request(1, test::Prompt(30, 1), test::Greedy(), kTokens))
                .ok());
    REQUIRE(listener.WaitFor(1));
    if (draft.empty()) plain = listener.Text(1);
    EXPECT_EQ(listener.Text(1), plain);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
