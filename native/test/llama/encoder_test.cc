// Embeddings with real model files: a bidirectional encoder and a causal model.
#include <algorithm>
#include <cmath>

#include "engine/engine.h"
#include "engine/llama/llama_encoder.h"
#include "heard_vectors.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using Vectors = std::vector<std::vector<float>>;

const std::atomic<bool> kNoAbort = false;

std::vector<std::string> EmbeddingModels() {
  return {std::string(SVC_TEST_MODELS) + "/tiny-bert.gguf",
          std::string(SVC_TEST_MODELS) + "/tiny-llama-embed.gguf"};
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

// Computes one sequence in a plain libllama context.
std::vector<float> Reference(const LlamaModel& model, std::vector<Token> tokens) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 2048;
  params.n_batch = 2048;
  params.n_ubatch = 2048;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.embeddings = true;
  llama_context* context = llama_init_from_model(model.get(), params);
  std::vector<float> vector;
  const auto count = static_cast<std::int32_t>(tokens.size());
  if (llama_decode(context, llama_batch_get_one(tokens.data(), count)) == 0) {
    const float* pooled = llama_get_embeddings_seq(context, 0);
    vector.assign(pooled, pooled + llama_model_n_embd_out(model.get()));
  } else {
    test::Fail(__FILE__, __LINE__, "the reference cannot compute");
  }
  llama_free(context);
  return vector;
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
      EXPECT(Cosine(together[i], Reference(*model, inputs[i])) > kSame);
      double square = 0;
      for (const float value : together[i]) square += static_cast<double>(value) * value;
      EXPECT(std::fabs(square - 1) < 1e-4);
      // Vectors of different texts and word orders differ, so the comparisons above are meaningful.
      for (std::size_t j = 0; j < i; ++j) EXPECT(Cosine(together[i], together[j]) < 0.99F);
    }
  }
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
  EXPECT(Cosine(Encode(*encoder, {long_input})[0], Reference(*model, long_input)) > kSame);
  EXPECT(Cosine(Encode(*encoder, {short_input})[0], before) > kSame);
}

TEST(AnAbortedBatchIsCancelledAndTheNextOneIsRight) {
  for (const std::string& path : EmbeddingModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const auto encoder = NewEncoder(*model, 512);
    REQUIRE(encoder != nullptr);
    const std::vector<Token> input = Tokens(*model)[1];
    const std::vector<float> before = Encode(*encoder, {input})[0];
    const std::atomic<bool> abort = true;
    std::vector<float> vectors;
    const std::vector<std::span<const Token>> inputs = {input};
    EXPECT(encoder->Encode(inputs, abort, &vectors).code() == StatusCode::kCancelled);
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

std::unique_ptr<Engine> LoadEngine(const std::string& path, test::HeardVectors& heard) {
  Result<std::unique_ptr<Engine>> engine = test::LoadInto(heard, path);
  if (engine.ok()) return std::move(engine.value());
  test::Fail(__FILE__, __LINE__, engine.status().message());
  return nullptr;
}

TEST(AnEngineEmbedsTextsAndTokensAndWritesNothing) {
  for (const std::string& path : EmbeddingModels()) {
    test::HeardVectors heard;
    const auto engine = LoadEngine(path, heard);
    REQUIRE(engine != nullptr);
    const ModelInfo& info = engine->info();
    EXPECT(info.makes_embeddings && !info.has_chat_template);
    EXPECT_EQ(info.context_length, info.trained_context_length);

    const std::string text = "the river runs under the old bridge";
    const std::vector<Token> tokens = engine->Tokenize(text, true, false).value();
    const Result<std::uint32_t> input_tokens =
        engine->embedding()->Embed({.id = 1, .input = {text, tokens, "</s>", "[SEP]"}});
    REQUIRE(input_tokens.ok());
    EXPECT_EQ(heard.End(1).usage.input_tokens, input_tokens.value());
    const auto& flat = heard.vectors[1];
    REQUIRE(flat.size() == std::size_t{4} * info.embedding_length);
    const auto length = static_cast<std::ptrdiff_t>(info.embedding_length);
    EXPECT(Cosine({flat.begin(), flat.begin() + length},
                  {flat.begin() + length, flat.begin() + 2 * length}) > kSame);

    EXPECT(engine->text() == nullptr);
  }
}

TEST(AnEngineRefusesWhatItCannotEmbed) {
  test::HeardVectors heard;
  const auto engine = LoadEngine(EmbeddingModels()[0], heard);
  REQUIRE(engine != nullptr);
  std::string text;
  for (int i = 0; i < 600; ++i) text += "river ";
  const Status status = engine->embedding()->Embed({.id = 1, .input = {"a", text}}).status();
  EXPECT(status.code() == StatusCode::kContextOverflow);
  EXPECT_EQ(status.message(), "input[1] has 602 tokens, and the model takes at most 512");
  EXPECT(engine->embedding()->Embed({.id = 2, .input = {std::vector<Token>{}}}).status().code() ==
         StatusCode::kInvalidRequest);
  EXPECT(engine->embedding()->Embed({.id = 3, .input = {}}).status().code() ==
         StatusCode::kInvalidRequest);

  test::HeardVectors other;
  const auto writer = LoadEngine(test::TinyModels()[0], other);
  REQUIRE(writer != nullptr);
  EXPECT(writer->embedding() == nullptr && writer->text() != nullptr);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
