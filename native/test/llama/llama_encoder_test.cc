// Embeddings with real model files: a bidirectional encoder and a causal model.
#include "engine/llama/llama_encoder.h"

#include <algorithm>
#include <cmath>

#include "engine/base/private_bytes.h"
#include "models.h"
#include "pooled_reference.h"
#include "test.h"

namespace svc {
namespace {

using Vectors = std::vector<std::vector<float>>;

const std::atomic<bool> kNoAbort = false;

std::vector<std::string> EmbeddingModels() {
  return {test::ModelPath("tiny-bert"), test::ModelPath("tiny-llama-embed")};
}

float Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0;
  double a_square = 0;
  double b_square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    a_square += static_cast<double>(a[i]) * a[i];
    b_square += static_cast<double>(b[i]) * b[i];
  }
  return static_cast<float>(product / std::sqrt(a_square * b_square));
}

std::unique_ptr<Encoder> NewEncoder(const LlamaModel& model, std::uint32_t max_tokens) {
  Result<std::unique_ptr<Encoder>> encoder =
      NewLlamaEncoder(model, {.max_tokens = max_tokens, .threads = 1});
  if (encoder.ok()) return std::move(encoder.value());
  test::Fail(__FILE__, __LINE__, encoder.status().message());
  return nullptr;
}

Vectors Encode(Encoder& encoder, const std::vector<std::vector<Token>>& inputs) {
  std::vector<float> flat;
  const std::vector<std::span<const Token>> spans(inputs.begin(), inputs.end());
  const Status status = encoder.Encode(spans, kNoAbort, &flat);
  if (!status.ok()) test::Fail(__FILE__, __LINE__, status.message());
  Vectors vectors;
  for (std::size_t i = 0; i < inputs.size() && status.ok(); ++i) {
    const auto from = flat.begin() + static_cast<std::ptrdiff_t>(i * encoder.length());
    vectors.emplace_back(from, from + encoder.length());
  }
  return vectors;
}

std::vector<std::vector<Token>> Tokens(const LlamaModel& model) {
  const std::vector<std::string> texts = {"a",
                                          "the river runs under the old bridge",
                                          "the bridge runs under the old river",
                                          "Grüße aus Köln! 你好，世界。",
                                          "seven boats wait",
                                          "[SEP] </s> is plain text here"};
  std::vector<std::vector<Token>> tokens;
  tokens.reserve(texts.size());
  for (const std::string& text : texts) {
    tokens.push_back(model.Tokenize(text, /*add_special=*/true, /*parse_special=*/false).value());
  }
  return tokens;
}

// Minimum cosine similarity of equal inputs: the batch shape may change the rounding (see
// batch_test.cc).
constexpr float kSame = 0.999F;

TEST(ManyInABatchEqualOneByOneAndThePlainContext) {
  for (const std::string& path : EmbeddingModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    EXPECT(MakesEmbeddings(*model));
    const auto encoder = NewEncoder(*model, 512);
    REQUIRE(encoder != nullptr);
    const auto inputs = Tokens(*model);
    const Vectors together = Encode(*encoder, inputs);
    REQUIRE(together.size() == inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<float> alone = Encode(*encoder, {inputs[i]})[0];
      EXPECT(Cosine(together[i], alone) > kSame);
      EXPECT(Cosine(together[i], test::PooledReference(*model, inputs[i])) > kSame);
      double square = 0;
      for (const float value : together[i]) square += static_cast<double>(value) * value;
      EXPECT(std::fabs(square - 1) < 1e-4);
      // Vectors of different texts and word orders differ, so the comparisons above are meaningful.
      for (std::size_t j = 0; j < i; ++j) EXPECT(Cosine(together[i], together[j]) < 0.99F);
    }
  }
}

// The plan for a machine's memory has only a context for short inputs.
TEST(TheMemoryOfALongInputIsFreedAfterIt) {
  // The other model has positions for 512 tokens only, which is no more than a batch.
  const auto model = test::LoadTinyModel(test::ModelPath("tiny-llama-embed"));
  REQUIRE(model != nullptr);
  const auto encoder = NewEncoder(*model, 2048);
  REQUIRE(encoder != nullptr);
  const std::vector<Token> short_input = Tokens(*model)[1];
  Encode(*encoder, {short_input});
  const auto before = PrivateBytes();
  // Not known on this system, or a sanitizer keeps freed memory.
  if (!before || test::kSanitized) return;
  Encode(*encoder, {std::vector<Token>(encoder->max_tokens(), short_input[1])});
  Encode(*encoder, {short_input});
  EXPECT(PrivateBytes().value_or(0) < *before + (16U << 20U));
}

TEST(ALongInputGetsAContextOfItsSizeAndShortOnesStayTheSame) {
  const auto model = test::LoadTinyModel(EmbeddingModels()[1]);
  REQUIRE(model != nullptr);
  const auto encoder = NewEncoder(*model, 2048);
  REQUIRE(encoder != nullptr);
  const std::vector<Token> short_input = Tokens(*model)[1];
  std::vector<Token> long_input;
  long_input.reserve(1500);
  for (Token token = 0; token < 1500; ++token) long_input.push_back(1000 + token % 700);
  const std::vector<float> before = Encode(*encoder, {short_input})[0];
  EXPECT(Cosine(Encode(*encoder, {long_input})[0], test::PooledReference(*model, long_input)) >
         kSame);
  EXPECT(Cosine(Encode(*encoder, {short_input})[0], before) > kSame);
}

// The rows before the last ones are computed apart, in pieces if they are many.
TEST(InputsOfWhichTheLastTokenCountsEqualThePlainContext) {
  for (const char* const name : {"tiny-llama-embed", "tiny-rank-qwen3", "tiny-lfm2-embed"}) {
    const auto model = test::LoadTinyModel(test::ModelPath(name));
    REQUIRE(model != nullptr);
    const auto encoder = NewEncoder(*model, 2048);
    REQUIRE(encoder != nullptr);
    const auto input_of = [](std::size_t size, Token first) {
      std::vector<Token> input(size);
      for (std::size_t i = 0; i < size; ++i) input[i] = first + static_cast<Token>(i * 7 % 900);
      return input;
    };
    const std::vector<std::vector<std::vector<Token>>> batches = {
        {input_of(1, 900)},    {input_of(65, 901), input_of(1, 902), input_of(64, 903)},
        {input_of(512, 904)},  {input_of(513, 905)},
        {input_of(1537, 906)}, {input_of(20, 907), input_of(1, 908)}};
    for (const auto& batch : batches) {
      const Vectors vectors = Encode(*encoder, batch);
      REQUIRE(vectors.size() == batch.size());
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const std::vector<float> expected = test::PooledReference(*model, batch[i]);
        if (Ranks(*model)) {
          EXPECT(std::fabs(vectors[i][0] - expected[0]) < 0.01F * (1 + std::fabs(expected[0])));
        } else {
          EXPECT(Cosine(vectors[i], expected) > kSame);
        }
      }
    }
  }
}

TEST(AnAbortedBatchIsCancelledAndTheNextOneIsRight) {
  for (const std::string& path : EmbeddingModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const auto encoder = NewEncoder(*model, 512);
    REQUIRE(encoder != nullptr);
    const std::vector<Token> input = Tokens(*model)[1];
    const std::vector<Token> longer(512, input[1]);
    const std::vector<float> before = Encode(*encoder, {input})[0];
    const std::atomic<bool> abort = true;
    std::vector<float> vectors;
    for (const std::span<const Token> each : {std::span(input), std::span(longer)}) {
      EXPECT(encoder->Encode({&each, 1}, abort, &vectors).code() == StatusCode::kCancelled);
    }
    EXPECT(Cosine(Encode(*encoder, {input})[0], before) > kSame);
  }
}

TEST(ModelsOfTextMakeNoEmbeddings) {
  for (const std::string& path : test::TinyModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    EXPECT(!MakesEmbeddings(*model));
  }
}

TEST(OnlyModelsThatRankAreSaidToRank) {
  const auto ranks = [](const std::string& name) {
    const auto model = test::LoadTinyModel(test::ModelPath(name));
    return model != nullptr && MakesEmbeddings(*model) && Ranks(*model);
  };
  EXPECT(ranks("tiny-rank") && ranks("tiny-rank-qwen3"));
  EXPECT(!ranks("tiny-bert") && !ranks("tiny-llama-embed") && !ranks("tiny-llama"));
}

TEST(TheLongestInputIsWhatIsWantedWithinWhatTheModelWasTrainedFor) {
  EXPECT_EQ(MaxInputTokens({}, 512), 512U);
  EXPECT_EQ(MaxInputTokens({}, 0), kDefaultContextLength);
  EXPECT_EQ(MaxInputTokens({}, 1'000'000), kDefaultContextLength);
  EXPECT_EQ(MaxInputTokens({.context_length = 100}, 512), 100U);
  EXPECT_EQ(MaxInputTokens({.context_length = 600}, 512), 512U);
  EXPECT_EQ(MaxInputTokens({.context_length = 100'000}, 0), 100'000U);
}

// Pooling needs each input whole in one run of the graph.
TEST(AContextHasOneBatchOfItsSize) {
  const auto bert = test::LoadTinyModel(EmbeddingModels()[0]);
  const auto rank = test::LoadTinyModel(test::ModelPath("tiny-rank"));
  REQUIRE(bert != nullptr && rank != nullptr);
  for (const std::uint32_t tokens : {512U, 2048U}) {
    const llama_context_params params = EncoderParams(*bert, tokens);
    EXPECT(params.n_ctx == tokens && params.n_batch == tokens && params.n_ubatch == tokens);
    EXPECT_EQ(params.n_seq_max, 1U);
    EXPECT(params.embeddings && params.kv_unified);
    EXPECT(params.pooling_type == LLAMA_POOLING_TYPE_MEAN ||
           params.pooling_type == LLAMA_POOLING_TYPE_CLS);
  }
  EXPECT_EQ(EncoderParams(*rank, 512).pooling_type, LLAMA_POOLING_TYPE_RANK);
}

TEST(AnEncoderTellsItsSizes) {
  const auto model = test::LoadTinyModel(EmbeddingModels()[0]);
  const auto rank = test::LoadTinyModel(test::ModelPath("tiny-rank"));
  REQUIRE(model != nullptr && rank != nullptr);
  const auto encoder = NewEncoder(*model, 300);
  const auto ranker = NewEncoder(*rank, 512);
  REQUIRE(encoder != nullptr && ranker != nullptr);
  EXPECT_EQ(encoder->max_tokens(), 300U);
  EXPECT_EQ(encoder->length(), static_cast<std::uint32_t>(llama_model_n_embd_out(model->get())));
  EXPECT_EQ(ranker->length(), 1U);
  EXPECT_EQ(encoder->batch_tokens(), kBatchTokens);
  EXPECT(encoder->max_inputs() > 1);
  // A batch of as many inputs as it takes.
  const std::vector<std::vector<Token>> inputs(encoder->max_inputs(), Tokens(*model)[0]);
  const Vectors vectors = Encode(*encoder, inputs);
  REQUIRE(vectors.size() == inputs.size());
  EXPECT(Cosine(vectors.front(), vectors.back()) > kSame);
  EXPECT_EQ(Encode(*ranker, {Tokens(*rank)[1]})[0].size(), 1U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
