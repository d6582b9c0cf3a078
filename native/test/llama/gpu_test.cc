// With a GPU backend: the platform package's Vulkan backend on Mesa's software driver (lavapipe).
// Skipped with a message if one of the two is not installed.
#include <cstdlib>
#include <filesystem>
#include <span>
#include <vector>

#include "engine/llama/llama_decoder.h"
#include "engine/llama/llama_prefill_lane.h"
#include "llama-ext.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using Progress = PrefillLane::Progress;

constexpr const char* kDriver = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";
const std::atomic<bool> kNever = false;

// Loads the backends including Vulkan; false if it or its driver is missing.
bool LoadGpu() {
  static const bool loaded = [] {
    if (!std::filesystem::exists(SVC_TEST_VULKAN) || !std::filesystem::exists(kDriver)) {
      std::printf("     not tested: no Vulkan backend, or no driver for it\n");
      return false;
    }
    setenv("GGML_BACKEND_PATH", SVC_TEST_VULKAN, 1);
    setenv("GGML_VK_VISIBLE_DEVICES", "0", 1);
    setenv("VK_ICD_FILENAMES", kDriver, 1);
    test::LoadModules();
    EXPECT(llama_supports_gpu_offload());
    return true;
  }();
  return loaded;
}

std::vector<Token> Prompt(std::size_t count, int factor) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(i * factor % 30'000 + 3);
  return tokens;
}

std::unique_ptr<LlamaPrefillLane> NewLane(llama_model* model) {
  llama_context_params params = llama_context_default_params();
  params.n_batch = 512;
  params.n_threads = params.n_threads_batch = 2;
  params.kv_unified = true;
  return LlamaPrefillLane::New(model, LlamaPrefillLane::Params(params, 1024));
}

std::vector<float> Compute(LlamaPrefillLane& lane, std::span<const Token> prompt, int vocabulary) {
  lane.Begin(prompt, 0);
  Progress progress = Progress::kMore;
  while (progress == Progress::kMore) {
    progress = lane.Advance(PrefillLane::Stretch::kPartOfLayer, kNever);
  }
  EXPECT(progress == Progress::kDone);
  EXPECT(!lane.SaveState(0, static_cast<std::uint32_t>(prompt.size())).empty());
  const float* logits = lane.Logits();
  return {logits, logits + vocabulary};
}

// With weights in the GPU's host memory the graph is split into many parts; the GPU computes the
// products.
TEST(ABatchThatIsGivenUpInTheLaneEndsWhereTheGraphHasManyParts) {
  if (!LoadGpu()) return;
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  const llama_model_ptr model(llama_model_load_from_file(test::TinyModels()[1].c_str(), params));
  REQUIRE(model != nullptr);
  REQUIRE(llama_model_n_devices(model.get()) > 0);
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model.get()));
  const std::vector<Token> prompt = Prompt(64, 7);
  const std::vector<float> expected = Compute(*NewLane(model.get()), prompt, vocabulary);

  const std::unique_ptr<LlamaPrefillLane> lane = NewLane(model.get());
  for (const int advances : {1, 3}) {
    lane->Begin(Prompt(96, 11), 0);
    Progress progress = Progress::kMore;
    for (int i = 0; i < advances && progress == Progress::kMore; ++i) {
      progress = lane->Advance(PrefillLane::Stretch::kPartOfLayer, kNever);
    }
    EXPECT(progress == Progress::kMore);
    lane->Clear();
    EXPECT(Compute(*lane, prompt, vocabulary) == expected);
    lane->Clear();
  }
  lane->Begin(prompt, 0);
  (void)lane->Advance(PrefillLane::Stretch::kPartOfLayer,
                      kNever);  // the lane is destroyed with a batch in progress
}

TEST(WithoutLayersOnTheGpuNoGpuIsOpened) {
  if (!LoadGpu()) return;
  const Result<std::unique_ptr<LlamaModel>> model =
      LlamaModel::Load({.path = test::TinyModels()[1], .gpu_layers = 0});
  REQUIRE(model.ok());
  EXPECT_EQ(llama_model_n_devices(model.value()->get()), 0);
  EXPECT_EQ(model.value()->device(), "CPU");
  // With a layer on the GPU it is opened.
  const Result<std::unique_ptr<LlamaModel>> offloaded =
      LlamaModel::Load({.path = test::TinyModels()[1], .gpu_layers = 1});
  REQUIRE(offloaded.ok());
  EXPECT(llama_model_n_devices(offloaded.value()->get()) > 0);
  EXPECT(offloaded.value()->device() != "CPU");
}

TEST(AGpuWithRoomGetsLargerBatches) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
  EXPECT_EQ(LargestBatch({}), 512U);
  EXPECT_EQ(LargestBatch(std::vector<std::uint64_t>{2 * kGiB}), 512U);
  EXPECT_EQ(LargestBatch(std::vector<std::uint64_t>{24 * kGiB}), 2048U);
  EXPECT_EQ(LargestBatch(std::vector<std::uint64_t>{24 * kGiB, 4 * kGiB}), 512U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
