// What follows from the options of a load and from the model: the settings of a decoder, and sizes.
#include "engine/llama/decoder_options.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "edited_model.h"
#include "engine/llama/cpu_threads.h"
#include "engine/llama/llama_context_ptr.h"
#include "engine/model/decoder.h"
#include "folder.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

std::unique_ptr<LlamaModel> Load(const std::string& name) {
  return test::LoadTinyModel(test::ModelPath(name));
}

TEST(TheContextIsWhatIsAskedForOrWhatTheModelWasTrainedForWithinTheDefault) {
  const auto trained_for_8192 = Load("tiny-llama");
  const auto trained_for_more = Load("tiny-long");
  REQUIRE(trained_for_8192 != nullptr && trained_for_more != nullptr);
  EXPECT_EQ(DecoderOptionsOf({}, *trained_for_8192).context_length, 8192U);
  EXPECT_EQ(DecoderOptionsOf({}, *trained_for_more).context_length, kDefaultContextLength);
  // Also more than it was trained for.
  for (const std::uint32_t wanted : {1U, 1000U, 20'000U}) {
    EXPECT_EQ(DecoderOptionsOf({.context_length = wanted}, *trained_for_8192).context_length,
              wanted);
  }
  const test::Folder folder;
  const auto trained_for_less =
      test::LoadTinyModel(test::EditedModel(folder, "short", test::TinyModels()[0], [](auto* file) {
        gguf_set_val_u32(file, "llama.context_length", 777);
      }));
  REQUIRE(trained_for_less != nullptr);
  EXPECT_EQ(DecoderOptionsOf({}, *trained_for_less).context_length, 777U);
}

TEST(OtherOptionsAreTakenOver) {
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const DecoderOptions options = DecoderOptionsOf({.kv_cells = 600,
                                                   .threads = 3,
                                                   .prompt_threads = 5,
                                                   .cache_type = CacheType::kQ8_0,
                                                   .state_fixed_bytes = 7,
                                                   .state_token_bytes = 9,
                                                   .max_sequences = 11},
                                                  *model);
  EXPECT(options.cells == 600 && options.threads == 3 && options.prompt_threads == 5);
  EXPECT(options.cache_type == CacheType::kQ8_0 && options.max_sequences == 11);
  EXPECT(options.state_size.fixed_bytes == 7 && options.state_size.token_bytes == 9);
  EXPECT_EQ(options.state_size.Of(10), 97U);
  EXPECT_EQ(StateSize().Of(1000), 0U);
  const DecoderOptions defaults = DecoderOptionsOf({.max_sequences = 0}, *model);
  EXPECT_EQ(defaults.cells, 0U);
  EXPECT_EQ(defaults.threads, DefaultThreads(llama_model_size(model->get())));
  EXPECT_EQ(defaults.prompt_threads, 0);
  EXPECT_EQ(defaults.max_sequences, 1U);
}

// A model whose positions have other factors in a context of more than 2048 cells, or, with `type`
// "yarn", have not.
auto Turning(const test::Folder& folder, const char* type = "longrope") {
  const auto edit = [&](gguf_context* file) {
    gguf_set_val_u32(file, "llama.rope.scaling.original_context_length", 2048);
    gguf_set_val_str(file, "llama.rope.scaling.type", type);
  };
  return test::LoadTinyModel(test::EditedModel(folder, type, test::TinyModels()[0], edit));
}

// Where more cells have other factors of positions, a cache does not grow past the turn.
TEST(ACacheThatGrowsStaysBelowTheTurnOfThePositions) {
  const test::Folder folder;
  const auto turning = Turning(folder);
  const auto yarn = Turning(folder, "yarn");
  REQUIRE(turning != nullptr && yarn != nullptr);
  const auto length = [](const LlamaModel& model, std::uint32_t wanted, std::uint32_t cells) {
    return DecoderOptionsOf({.context_length = wanted, .kv_cells = cells}, model).context_length;
  };
  EXPECT_EQ(length(*turning, 4096, 1000), 2048U);
  EXPECT_EQ(length(*turning, 4096, 2048), 2048U);
  EXPECT_EQ(length(*turning, 1500, 1000), 1500U);
  // It has the larger cache from the beginning.
  EXPECT_EQ(length(*turning, 4096, 2049), 4096U);
  EXPECT_EQ(length(*turning, 4096, 0), 4096U);
  EXPECT_EQ(length(*yarn, 4096, 1000), 4096U);
}

TEST(FewSequencesKeepARecurrentState) {
  for (const std::string& path : test::ModelsOfEachMemory()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const std::uint32_t most = model->is_recurrent() ? 16 : kSequenceIds - 1;
    for (const std::uint32_t wanted : {1U, 16U, 17U, 255U, 256U, 100'000U}) {
      EXPECT_EQ(SequencesOf(*model, {.max_sequences = wanted}), std::min(wanted, most));
      // Each of them has an id of libllama's. Others share one.
      const llama_context_params params = DecoderParams(*model, {.max_sequences = wanted});
      EXPECT_EQ(params.n_seq_max, model->is_recurrent() ? std::min(wanted, most) : 1U);
      EXPECT_EQ(params.n_outputs_max, MaxOutputsOf(std::min(wanted, most)));
    }
  }
}

TEST(EachSequenceAndThePaddingMayHaveAnOutput) {
  EXPECT_EQ(MaxOutputsOf(1), kLeastOutputs);
  EXPECT_EQ(MaxOutputsOf(kLeastOutputs - kPaddingIds), kLeastOutputs);
  EXPECT_EQ(MaxOutputsOf(kLeastOutputs - kPaddingIds + 1), kLeastOutputs + 1);
  EXPECT_EQ(MaxOutputsOf(255), 255 + kPaddingIds);
}

TEST(CellsAreSharedWhereNoLayerForgets) {
  const auto shares = [](const std::string& name) {
    const auto model = Load(name);
    return model != nullptr && CanShareCells(*model);
  };
  EXPECT(shares("tiny-llama") && shares("tiny-qwen2") && shares("tiny-glm"));
  // Sliding windows, recurrent states, and both.
  for (const char* name :
       {"tiny-gemma2", "tiny-gemma3", "tiny-gpt-oss", "tiny-mamba", "tiny-lfm2", "tiny-qwen35"}) {
    EXPECT(!shares(name));
  }
}

TEST(TheLaneHasAQuarterOfTheCellsIfThatIsWorthIt) {
  const auto plain = Load("tiny-llama");
  const auto window = Load("tiny-gemma3");
  REQUIRE(plain != nullptr && window != nullptr);
  EXPECT_EQ(LaneCells(*plain, 8192), 2048U);
  EXPECT_EQ(LaneCells(*plain, 2048), 512U);
  EXPECT_EQ(LaneCells(*plain, 2051), 512U);
  EXPECT_EQ(LaneCells(*plain, 2047), 0U);
  EXPECT_EQ(LaneCells(*plain, 0), 0U);
  EXPECT_EQ(LaneCells(*window, 8192), 0U);
  // A GPU needs no lane.
  llama_model_ptr file(
      llama_model_load_from_file(test::TinyModels()[0].c_str(), llama_model_default_params()));
  REQUIRE(file != nullptr);
  const LlamaModel on_gpu(std::move(file), "Vulkan0");
  EXPECT_EQ(LaneCells(on_gpu, 8192), 0U);
}

TEST(TheLaneEncodesPositionsAsTheCacheDoes) {
  const test::Folder folder;
  const auto turning = Turning(folder);
  REQUIRE(turning != nullptr);
  EXPECT_EQ(LaneCells(*turning, 2048), 512U);
  for (const std::uint32_t cells : {2049, 4096, 8192}) EXPECT_EQ(LaneCells(*turning, cells), 0U);
  EXPECT_EQ(LaneCells(*turning, 8196), 2049U);
}

TEST(OnlyGpusThatAreAllRoomyGetLargeBatches) {
  using Sizes = std::vector<std::uint64_t>;
  EXPECT_EQ(LargestBatch(Sizes{}), 512U);
  EXPECT_EQ(LargestBatch(Sizes{8 * kGiB}), 2048U);
  EXPECT_EQ(LargestBatch(Sizes{8 * kGiB - 1}), 512U);
  EXPECT_EQ(LargestBatch(Sizes{24 * kGiB, 8 * kGiB}), 2048U);
  EXPECT_EQ(LargestBatch(Sizes{24 * kGiB, 4 * kGiB}), 512U);
}

// ---- the context --------------------------------------------------------------------------------

TEST(TheContextHasTheCellsToBeginWith) {
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const auto cells = [&](std::uint32_t length, std::uint32_t first) {
    return DecoderParams(*model, {.context_length = length, .cells = first}).n_ctx;
  };
  EXPECT_EQ(cells(4096, 0), 4096U);
  EXPECT_EQ(cells(4096, 1024), 1024U);
  EXPECT_EQ(cells(4096, 5000), 4096U);
}

TEST(AStepIsOneRunOfTheGraphInAnUndividedCache) {
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const llama_context_params params = DecoderParams(*model, {.threads = 2});
  EXPECT_EQ(params.n_batch, params.n_ubatch);
  EXPECT(params.kv_unified && params.swa_full && !params.embeddings);
  EXPECT(params.n_threads == 2 && params.n_threads_batch == 2);
  EXPECT(params.type_k == GGML_TYPE_F16 && params.type_v == GGML_TYPE_F16);
  const llama_context_params other =
      DecoderParams(*model, {.threads = 2, .prompt_threads = 4, .cache_type = CacheType::kQ8_0});
  EXPECT(other.n_threads == 2 && other.n_threads_batch == 4);
  EXPECT(other.type_k == GGML_TYPE_Q8_0 && other.type_v == GGML_TYPE_Q8_0);
}

TEST(TheBytesOfACacheGrowWithItsCellsAndItsType) {
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const auto bytes = [&](std::uint32_t cells, CacheType type) {
    const ContextPtr context(llama_init_from_model(
        model->get(), DecoderParams(*model, {.context_length = cells, .cache_type = type})));
    return context == nullptr ? 0 : CacheBytes(context.get());
  };
  const std::uint64_t small = bytes(1024, CacheType::kF16);
  EXPECT(small > 0);
  EXPECT_EQ(bytes(4096, CacheType::kF16), 4 * small);
  EXPECT(bytes(1024, CacheType::kQ8_0) < small * 6 / 10);
}

// ---- copies -------------------------------------------------------------------------------------

TEST(CopiesTakeAsMuchAsASmallCacheOrAPartOfALargeOne) {
  EXPECT_EQ(CopyBytes(0), 0U);
  EXPECT_EQ(CopyBytes(100 * kMiB), 100 * kMiB);
  EXPECT_EQ(CopyBytes(512 * kMiB), 512 * kMiB);
  EXPECT_EQ(CopyBytes(1024 * kMiB), 512 * kMiB);
  EXPECT_EQ(CopyBytes(2048 * kMiB), 512 * kMiB);
  EXPECT_EQ(CopyBytes(4096 * kMiB), 1024 * kMiB);
}

TEST(CopiesOfStatesHoldTwoOfTheLongest) {
  const StateSize size{.fixed_bytes = 100 * kMiB, .token_bytes = kMiB};
  // 1,124 MiB for a sequence of 1,024 tokens.
  EXPECT_EQ(StateCopyBytes(1024 * kMiB, size, 1024), 2248 * kMiB);
  EXPECT_EQ(StateCopyBytes(16 * kGiB, size, 1024), 4 * kGiB);
  EXPECT_EQ(StateCopyBytes(1024 * kMiB, {.fixed_bytes = 1}, 1024), 512 * kMiB);
  // If the size of a state is not known: as much as the cache.
  EXPECT_EQ(StateCopyBytes(3 * kGiB, {}, 1024), 3 * kGiB);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
