// What the engines for embeddings and for ranking share: their parts and what their infos say, and
// the calls that reach the embedder.
#include "engine/encoder_engine.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/llama/cpu_threads.h"
#include "fake_encoder.h"
#include "heard_vectors.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

Result<EncoderParts> Parts(const std::string& model, LoadOptions options) {
  options.path = test::ModelPath(model);
  return NewEncoderParts(test::LoadTinyModel(options.path), options);
}

TEST(TheInfoIsThatOfTheEncoder) {
  const Result<EncoderParts> bert = Parts("tiny-bert", {.context_length = 100});
  const Result<EncoderParts> rank = Parts("tiny-rank", {});
  REQUIRE(bert.ok() && rank.ok());
  const ModelInfo& info = bert.value().info;
  EXPECT_EQ(info.context_length, 100U);
  EXPECT_EQ(bert.value().encoder->max_tokens(), 100U);
  EXPECT_EQ(info.embedding_length,
            static_cast<std::uint32_t>(llama_model_n_embd_out(bert.value().model->get())));
  EXPECT(info.makes_embeddings && !info.ranks);
  EXPECT_EQ(rank.value().info.context_length, rank.value().info.trained_context_length);
  EXPECT_EQ(rank.value().info.embedding_length, 1U);
  EXPECT(rank.value().info.makes_embeddings && rank.value().info.ranks);
}

TEST(InputsAreComputedWithTheThreadsForPrompts) {
  const auto threads = [](const LoadOptions& options) {
    const Result<EncoderParts> parts = Parts("tiny-bert", options);
    return parts.ok() ? parts.value().info.threads : 0;
  };
  EXPECT_EQ(threads({.threads = 3, .prompt_threads = 2}), 2);
  EXPECT_EQ(threads({.threads = 3}), 3);
  EXPECT_EQ(threads({.prompt_threads = 2}), 2);
  const Result<EncoderParts> parts = Parts("tiny-bert", {});
  REQUIRE(parts.ok());
  EXPECT_EQ(parts.value().info.threads, DefaultThreads(parts.value().info.size_bytes));
}

TEST(AdaptersAreListedWithTheReasonWhyTheyAreNotUsed) {
  const Result<EncoderParts> parts =
      Parts("tiny-bert", {.threads = 1, .adapters = {{.id = "one"}, {.id = "two"}}});
  REQUIRE(parts.ok());
  const std::vector<AdapterInfo>& adapters = parts.value().info.adapters;
  REQUIRE(adapters.size() == 2);
  EXPECT(adapters[0].id == "one" && adapters[1].id == "two");
  for (const AdapterInfo& adapter : adapters) {
    EXPECT_EQ(adapter.error, "cannot be used: this model generates no text");
  }
}

TEST(AnInputMayHaveAsManyTokensAsTheModelTakes) {
  const ModelInfo info{.context_length = 512};
  EXPECT(CheckInputLength(info, "query has", 0).ok());
  EXPECT(CheckInputLength(info, "query has", 512).ok());
  const Status refused = CheckInputLength(info, "query has", 513);
  EXPECT_EQ(refused.code(), StatusCode::kContextOverflow);
  EXPECT_EQ(refused.message(), "query has 513 tokens, and the model takes at most 512");
}

// An engine over a fake encoder, for requests of tokens.
class FakeEngine final : public EncoderEngine<EmbeddingEngine> {
 public:
  FakeEngine(test::FakeEncoderRecord* record, OutputSink sink)
      : EncoderEngine({.model = nullptr,
                       .encoder = std::make_unique<test::FakeEncoder>(record),
                       .info = {.layers = 7}},
                      std::move(sink)) {}

  Result<std::uint32_t> Embed(EmbeddingRequest request) override {
    EmbeddingSubmission submission;
    submission.id = request.id;
    for (EmbeddingInput& input : request.input) {
      submission.inputs.push_back(std::move(std::get<std::vector<Token>>(input)));
    }
    if (Status status = Queue(std::move(submission)); !status.ok()) return status;
    return 0;
  }
};

TEST(CallsReachTheEmbedder) {
  test::FakeEncoderRecord record;
  test::HeardVectors heard;
  FakeEngine engine(&record, heard.Sink());
  EXPECT_EQ(engine.info().layers, 7U);
  const std::vector<Token> input = {100, 101};
  engine.Hold(true);
  for (const GenerationId id : {1U, 2U}) EXPECT(engine.Embed({.id = id, .input = {input}}).ok());
  engine.Cancel(1);
  EXPECT_EQ(heard.End(1).reason, FinishReason::kCancelled);
  EXPECT_EQ(engine.stats().waiting, 1U);
  EXPECT_EQ(record.batches(), 0U);
  engine.Hold(false);
  EXPECT(heard.End(2).status.ok());
  EXPECT(heard.vectors[2] == test::VectorOf(input));
  EXPECT_EQ(engine.stats().steps, 1U);

  engine.Hold(true);
  EXPECT(engine.Embed({.id = 3, .input = {input}}).ok());
  engine.Close();
  EXPECT_EQ(heard.End(3).reason, FinishReason::kCancelled);
  EXPECT_EQ(engine.Embed({.id = 4, .input = {input}}).status().code(),
            StatusCode::kEngineUnavailable);
  engine.Close();
}

}  // namespace
}  // namespace svc

TEST_MAIN()
