// The memory estimate of the dry run equals the memory of a real load.
#include "engine/llama/memory_estimate.h"

#include <atomic>
#include <fstream>

#include "engine/base/private_bytes.h"
#include "engine/llama/llama_decoder.h"
#include "engine/llama/llama_prefill_lane.h"
#include "engine/llama/lora/adapters.h"
#include "llama-ext.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

struct Taken {
  std::uint64_t weights = 0;
  std::uint64_t cache = 0;
  std::uint64_t compute = 0;
};

Taken Add(const std::vector<DeviceMemory>& devices) {
  Taken sum;
  for (const DeviceMemory& device : devices) {
    sum.weights += device.weights_bytes;
    sum.cache += device.cache_bytes;
    sum.compute += device.compute_bytes;
  }
  return sum;
}

void AddContext(const LlamaModel& model, const llama_context_params& params, Taken* sum) {
  llama_context* context = llama_init_from_model(model.get(), params);
  std::uint64_t weights = 0;
  for (const auto& [type, bytes] : llama_get_memory_breakdown(context)) {
    weights += bytes.model;
    sum->cache += bytes.context;
    sum->compute += bytes.compute;
  }
  sum->weights = weights;  // all contexts of a model share them
  // One row of logits for each output of a step.
  sum->compute += static_cast<std::uint64_t>(params.n_outputs_max) *
                  llama_vocab_n_tokens(llama_model_get_vocab(model.get())) * sizeof(float);
  llama_free(context);
}

// Measures real contexts: the decoder's and its lane's.
Taken Load(const std::string& path, std::uint32_t context_length, CacheType cache_type) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
  if (model == nullptr) return {};
  const llama_context_params params = DecoderParams(
      *model,
      DecoderOptionsOf({.path = path, .context_length = context_length, .cache_type = cache_type},
                       *model));
  Taken sum;
  AddContext(*model, params, &sum);
  if (CanShareCells(*model)) sum.cache += CopyBytes(sum.cache);
  const std::uint32_t lane = LaneCells(*model, context_length);
  if (lane > 0) AddContext(*model, LlamaPrefillLane::Params(params, lane), &sum);
  return sum;
}

TEST(TellsWhatALoadTakes) {
  test::LoadModules();
  for (const std::string& path : test::TinyModels()) {
    const Result<MemoryEstimates> told = EstimateMemory({.path = path}, {512, 4096, 0});
    REQUIRE(told.ok());
    const MemoryEstimates& estimates = told.value();
    EXPECT_EQ(estimates.trained_context_length, 8192U);
    EXPECT_EQ(estimates.layers, 2U);
    EXPECT(!estimates.has_experts);
    EXPECT(!estimates.makes_embeddings);
    REQUIRE(estimates.estimates.size() == 3);
    EXPECT_EQ(estimates.estimates[2].context_length, 8192U);
    EXPECT_EQ(estimates.state_fixed_bytes + estimates.state_token_bytes, 0U);
    for (const MemoryEstimate& estimate : estimates.estimates) {
      const Taken expected = Load(path, estimate.context_length, CacheType::kF16);
      const Taken found = Add(estimate.devices);
      EXPECT_EQ(found.cache, expected.cache);
      EXPECT_EQ(found.compute, expected.compute);
      // A mapped file counts up to the end of its last page.
      EXPECT(found.weights <= expected.weights && expected.weights - found.weights < 1U << 20U);
    }
  }
}

TEST(TellsWhetherThereAreExperts) {
  test::LoadModules();
  const std::string path = test::ModelPath("tiny-gpt-oss");
  const Result<MemoryEstimates> told = EstimateMemory({.path = path}, {512});
  REQUIRE(told.ok());
  EXPECT(told.value().has_experts);
}

// What a context takes once it computes with adapters.
TEST(AdaptersAreCounted) {
  const std::string path = test::TinyModels()[0];
  LoadOptions options{.path = path, .context_length = 512};
  const auto model = test::LoadTinyModel(path);
  REQUIRE(model != nullptr);
  const Result<MemoryEstimates> plain = EstimateMemory(options, {512});
  for (const char* name : {"llama-attention", "llama-forward"}) {
    options.adapters.push_back(
        {.id = name, .path = test::ModelPath(std::string("adapters/") + name)});
  }
  options.adapters.push_back({.id = "none", .path = "/none.gguf"});
  const Result<MemoryEstimates> told = EstimateMemory(options, {512});
  REQUIRE(plain.ok() && told.ok());
  const Taken without = Add(plain.value().estimates[0].devices);
  const Taken with = Add(told.value().estimates[0].devices);
  std::uint64_t bytes = 0;
  for (const AdapterFile& file : options.adapters)
    bytes += AdapterMemoryOf(file.path).weights_bytes;
  EXPECT(bytes > 0);
  EXPECT_EQ(with.weights - without.weights, bytes);
  EXPECT_EQ(with.cache, without.cache);

  const Adapters adapters(model->get(), options.path, options.adapters);
  const auto compute = [&](const AdapterSet& set) {
    llama_context* context = llama_init_from_model(
        model->get(), DecoderParams(*model, DecoderOptionsOf(options, *model)));
    UseAdapters(context, adapters.handles(), set);
    std::vector<llama_token> tokens = {1, 2, 3};
    EXPECT_EQ(llama_decode(context, llama_batch_get_one(tokens.data(), 3)), 0);
    std::uint64_t taken = 0;
    for (const auto& [type, each] : llama_get_memory_breakdown(context)) taken += each.compute;
    llama_free(context);
    return taken;
  };
  const std::uint64_t more = compute({{.index = 0, .scale = 1}, {.index = 1, .scale = 1}});
  EXPECT(more - compute({}) <= with.compute - without.compute);
}

// A decoder with the sizes of the estimate, whose sequence 0 fills the context.
std::unique_ptr<Decoder> Filled(const LlamaModel& model, const MemoryEstimates& told,
                                std::uint32_t context_length) {
  Result<std::unique_ptr<Decoder>> decoder =
      NewLlamaDecoder(model, DecoderOptionsOf({.context_length = context_length,
                                               .threads = 1,
                                               .state_fixed_bytes = told.state_fixed_bytes,
                                               .state_token_bytes = told.state_token_bytes},
                                              model));
  if (!decoder.ok()) return nullptr;
  const std::atomic<bool> abort = false;
  std::vector<Row> rows(256);
  for (std::uint32_t at = 0; at < context_length; at += 256) {
    for (std::uint32_t i = 0; i < 256; ++i) {
      rows[i] = {.token = 300 + static_cast<Token>((at + i) % 1000),
                 .position = static_cast<std::int32_t>(at + i)};
    }
    if (decoder.value()->Decode(rows, abort) != DecodeOutcome::kDone) return nullptr;
  }
  return std::move(decoder.value());
}

// Where sequences cannot share cells, a conversation continues from a copy of its whole state: two
// of the longest fit and are counted.
TEST(TwoOfTheLongestStatesFitAndAreCounted) {
  test::LoadModules();
  for (const std::string& path : test::ModelsOfEachMemory()) {
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    if (CanShareCells(*model)) continue;
    const auto estimated = EstimateMemory({.path = path}, {2048, 4096});
    REQUIRE(estimated.ok());
    const MemoryEstimates& told = estimated.value();
    for (const MemoryEstimate& estimate : told.estimates) {
      const std::uint32_t length = estimate.context_length;
      const std::unique_ptr<Decoder> decoder = Filled(*model, told, length);
      REQUIRE(decoder != nullptr);
      const std::uint64_t bytes = decoder->SizeOfState(0, 0, length);
      EXPECT_EQ(decoder->SaveState(0, 0, length).size(), bytes);
      const std::uint64_t limit = told.state_fixed_bytes + told.state_token_bytes * length;
      EXPECT(bytes > 0 && bytes <= limit);
      // The window's cache is rounded up, and a state has heads.
      EXPECT(limit < 2 * bytes + (512U << 10U));
      EXPECT(decoder->max_state_bytes() >= 2 * limit);
      const Taken alone = Load(path, length, CacheType::kF16);
      EXPECT_EQ(Add(estimate.devices).cache, alone.cache + decoder->max_state_bytes());
    }
  }
}

TEST(ASmallerCacheTakesAboutHalf) {
  test::LoadModules();
  for (const std::string& path : test::TinyModels()) {
    const auto whole = EstimateMemory({.path = path}, {4096});
    const auto half = EstimateMemory({.path = path, .cache_type = CacheType::kQ8_0}, {4096});
    REQUIRE(whole.ok());
    if (!half.ok()) {  // the model's heads are too narrow for Q8_0
      EXPECT_EQ(half.status().code(), StatusCode::kModelInvalid);
      continue;
    }
    const double part = static_cast<double>(Add(half.value().estimates[0].devices).cache) /
                        static_cast<double>(Add(whole.value().estimates[0].devices).cache);
    EXPECT(part > 0.5 && part < 0.55);
    EXPECT_EQ(Add(half.value().estimates[0].devices).cache,
              Load(path, 4096, CacheType::kQ8_0).cache);
  }
}

TEST(AllocatesNothing) {
  test::LoadModules();
  const std::string path = test::TinyModels()[0];
  REQUIRE(EstimateMemory({.path = path}, {512}).ok());  // one-time initialization
  const std::optional<std::uint64_t> before = PrivateBytes();
  const auto large = EstimateMemory({.path = path}, {1U << 24U});
  REQUIRE(large.ok());
  EXPECT(Add(large.value().estimates[0].devices).cache > 1ULL << 30U);
  if (before) EXPECT(*PrivateBytes() < *before + (256U << 20U));
}

TEST(AModelThatEmbedsHasBuffersForABatch) {
  test::LoadModules();
  const auto told = EstimateMemory({.path = test::ModelPath("tiny-bert")}, {0, 512});
  REQUIRE(told.ok());
  EXPECT(told.value().makes_embeddings);
  EXPECT(Add(told.value().estimates[0].devices).weights > 1000000U);
  EXPECT_EQ(Add(told.value().estimates[0].devices).compute,
            Add(told.value().estimates[1].devices).compute);
}

TEST(ADraftModelIsCountedWhereItCanBeUsed) {
  test::LoadModules();
  const std::string path = test::TinyModels()[0];
  const auto alone = EstimateMemory({.path = path}, {1024});
  REQUIRE(alone.ok());
  const Taken before = Add(alone.value().estimates[0].devices);
  for (const std::string& draft : {path, test::TinyModels()[1]}) {
    const auto told = EstimateMemory({.path = path, .draft_path = draft}, {1024});
    REQUIRE(told.ok());
    EXPECT_EQ(told.value().estimates[0].devices.size(), 1U);
    const Taken with = Add(told.value().estimates[0].devices);
    const bool used = draft == path;
    EXPECT_EQ(with.weights, used ? 2 * before.weights : before.weights);
    EXPECT_EQ(with.cache > before.cache, used);
    EXPECT_EQ(with.compute > before.compute, used);
  }
}

TEST(WhatIsNoModelIsRefused) {
  test::LoadModules();
  const auto told = EstimateMemory({.path = "/nowhere/model.gguf"}, {0});
  REQUIRE(!told.ok());
  EXPECT_EQ(told.status().code(), StatusCode::kModelInvalid);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
