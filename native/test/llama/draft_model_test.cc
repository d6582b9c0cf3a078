// Which models can draft for which, and how a draft model is loaded.
#include "engine/llama/draft_model.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "edited_model.h"
#include "engine/llama/quantize.h"
#include "folder.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using test::ModelPath;

constexpr const char* kOtherVocabulary = "has a different vocabulary";

std::unique_ptr<LlamaModel> Load(const std::string& name) {
  return test::LoadTinyModel(ModelPath(name));
}

TEST(ACopyAndALongerOneCanDraft) {
  const auto model = Load("tiny-llama");
  const auto longer = Load("tiny-long");
  REQUIRE(model != nullptr && longer != nullptr);
  EXPECT_EQ(DraftRefusal(*model, *model), "");
  EXPECT_EQ(DraftRefusal(*model, *longer), "");
  EXPECT_EQ(DraftRefusal(*longer, *model), "");
}

TEST(OtherKindsOfModelsCannotDraft) {
  const auto model = Load("tiny-llama");
  const auto other = Load("tiny-qwen2");
  const auto embeds = Load("tiny-llama-embed");
  REQUIRE(model != nullptr && other != nullptr && embeds != nullptr);
  EXPECT_EQ(DraftRefusal(*model, *embeds), "is an embedding model");
  EXPECT_EQ(DraftRefusal(*model, *other), kOtherVocabulary);
  EXPECT_EQ(DraftRefusal(*other, *model), kOtherVocabulary);
  for (const char* name : {"tiny-gemma2", "tiny-mamba", "tiny-lfm2"}) {
    const auto itself = Load(name);
    REQUIRE(itself != nullptr);
    EXPECT_EQ(DraftRefusal(*itself, *itself),
              "has a cache that cannot be rolled back (recurrent state or sliding window)");
  }
}

TEST(AModelThatIsLargerIsNotWorthIt) {
  test::LoadModules();
  const test::Folder folder;
  const std::string path = (folder.path() / "small.gguf").string();
  REQUIRE(Quantize({.input = ModelPath("tiny-llama"),
                    .output = path,
                    .file_type = LLAMA_FTYPE_MOSTLY_Q4_0,
                    .allow_requantize = true})
              .ok());
  const auto model = Load("tiny-llama");
  const auto smaller = test::LoadTinyModel(path);
  REQUIRE(model != nullptr && smaller != nullptr);
  EXPECT_EQ(DraftRefusal(*model, *smaller), "");
  EXPECT_EQ(DraftRefusal(*smaller, *model), "is larger than the model itself");
  EXPECT_EQ(DraftRefusal(*smaller, *smaller), "");
}

// A copy of tiny-llama with changed metadata.
template <typename Edit>
std::unique_ptr<LlamaModel> Edited(const test::Folder& folder, const std::string& name, Edit edit) {
  const std::string path = test::EditedModel(folder, name, ModelPath("tiny-llama"), edit);
  return test::LoadTinyModel(path);
}

// Renames one token of the vocabulary.
void Rename(gguf_context* file, std::size_t token) {
  const std::int64_t key = gguf_find_key(file, "tokenizer.ggml.tokens");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < gguf_get_arr_n(file, key); ++i) {
    texts.emplace_back(gguf_get_arr_str(file, key, i));
  }
  texts[token] = "renamed";
  std::vector<const char*> all;
  all.reserve(texts.size());
  for (const std::string& text : texts) all.push_back(text.c_str());
  gguf_set_arr_str(file, "tokenizer.ggml.tokens", all.data(), all.size());
}

TEST(VocabulariesMayDifferInTheirFirstTokens) {
  const test::Folder folder;
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const auto renamed = [&](std::size_t token) {
    const auto draft = Edited(folder, "renamed-" + std::to_string(token),
                              [&](gguf_context* file) { Rename(file, token); });
    return draft == nullptr ? "not loaded" : DraftRefusal(*model, *draft);
  };
  const auto last = static_cast<std::size_t>(llama_vocab_n_tokens(model->vocab())) - 1;
  EXPECT_EQ(renamed(4), "");
  EXPECT_EQ(renamed(5), kOtherVocabulary);
  EXPECT_EQ(renamed(last), kOtherVocabulary);
}

TEST(TokensAtTheEndsOfAPromptMustBeTheSame) {
  const test::Folder folder;
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const auto refusal = [&](const std::string& name, auto edit) {
    const auto draft = Edited(folder, name, edit);
    return draft == nullptr ? "not loaded" : DraftRefusal(*model, *draft);
  };
  const bool adds_bos = llama_vocab_get_add_bos(model->vocab());
  EXPECT_EQ(refusal("bos",
                    [&](gguf_context* file) {
                      gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", !adds_bos);
                    }),
            kOtherVocabulary);
  EXPECT_EQ(refusal("eos",
                    [&](gguf_context* file) {
                      gguf_set_val_bool(file, "tokenizer.ggml.add_eos_token",
                                        !llama_vocab_get_add_eos(model->vocab()));
                    }),
            kOtherVocabulary);
  EXPECT_EQ(refusal("other-bos",
                    [&](gguf_context* file) {
                      gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", 7);
                    }),
            adds_bos ? kOtherVocabulary : "");
}

// ---- loading ------------------------------------------------------------------------------------

TEST(ADraftModelIsLoadedOntoTheSameDevices) {
  std::vector<float> told;
  const LoadOptions options{.path = "model.gguf",
                            .context_length = 100,
                            .threads = 3,
                            .gpu_layers = 7,
                            .main_gpu = "Vulkan1",
                            .tensor_split = {1, 2},
                            .cpu_experts = 4,
                            .draft_path = "draft.gguf",
                            .projector_path = "projector.gguf",
                            .on_progress = [&](float part) {
                              told.push_back(part);
                              return told.size() < 3;
                            }};
  const LoadOptions draft = DraftLoadOptions(options);
  EXPECT_EQ(draft.path, "draft.gguf");
  EXPECT(draft.gpu_layers == 7 && draft.main_gpu == "Vulkan1");
  EXPECT((draft.tensor_split == std::vector<float>{1, 2}));
  EXPECT(draft.draft_path.empty() && draft.projector_path.empty() && draft.adapters.empty());
  EXPECT_EQ(draft.cpu_experts, 0U);
  // The progress does not go back, and the load can be cancelled.
  REQUIRE(draft.on_progress != nullptr);
  EXPECT(draft.on_progress(0) && draft.on_progress(0.5F) && !draft.on_progress(0.7F));
  EXPECT((told == std::vector<float>{1, 1, 1}));
  EXPECT(DraftLoadOptions({.draft_path = "draft.gguf"}).on_progress == nullptr);
}

TEST(ItsContextIsTheModelsWithinWhatItWasTrainedFor) {
  const auto draft = Load("tiny-llama");
  REQUIRE(draft != nullptr);
  EXPECT_EQ(DraftDecoderOptions(*draft, 4096, 2).context_length, 4096U);
  EXPECT_EQ(DraftDecoderOptions(*draft, 100'000, 2).context_length, 8192U);
  EXPECT_EQ(DraftDecoderOptions(*draft, 4096, 2).threads, 2);
  EXPECT_EQ(DraftDecoderOptions(*draft, 4096, 2).max_sequences, Drafter::kPlaces);
}

// A model with its decoder, for which the draft model at `path` is loaded.
Result<DraftModel> LoadFor(const LlamaModel& model, LoadOptions options) {
  const auto pools = std::make_shared<ThreadPools>();
  const auto decoder =
      std::move(NewLlamaDecoder(model, {.context_length = 1024, .cells = 512}, pools).value());
  return LoadDraftModel(options, model, *decoder, 1, pools);
}

TEST(ADraftModelThatCanBeUsedHasADrafter) {
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const Result<DraftModel> draft = LoadFor(*model, {.draft_path = ModelPath("tiny-llama")});
  REQUIRE(draft.ok());
  EXPECT_EQ(draft.value().refusal, "");
  EXPECT(draft.value().model != nullptr && draft.value().drafter != nullptr);
}

TEST(AnotherOneIsARefusalAndNoError) {
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const auto refusal = [&](const std::string& path) {
    const Result<DraftModel> draft = LoadFor(*model, {.draft_path = path});
    if (!draft.ok()) return "error: " + draft.status().message();
    EXPECT(draft.value().model == nullptr && draft.value().drafter == nullptr);
    return draft.value().refusal;
  };
  EXPECT_EQ(refusal(ModelPath("tiny-qwen2")), kOtherVocabulary);
  EXPECT_EQ(refusal(ModelPath("tiny-llama-embed")), "is an embedding model");
  EXPECT_EQ(refusal("/none.gguf"), "cannot be loaded: /none.gguf does not exist");
}

TEST(ACancelledLoadIsAnError) {
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const Result<DraftModel> draft = LoadFor(
      *model, {.draft_path = ModelPath("tiny-llama"), .on_progress = [](float) { return false; }});
  EXPECT_EQ(draft.status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
