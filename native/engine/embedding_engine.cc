#include "engine/embedding_engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/llama/chat/rank_prompt.h"
#include "engine/llama/chat/truncation.h"
#include "engine/llama/cpu_threads.h"
#include "engine/llama/llama_encoder.h"
#include "engine/run/embedder.h"

namespace svc {
namespace {

class LlamaEmbeddingEngine final : public EmbeddingEngine {
 public:
  LlamaEmbeddingEngine(std::unique_ptr<LlamaModel> model, std::unique_ptr<Encoder> encoder,
                       std::unique_ptr<RankPrompt> rank_prompt, ModelInfo info, OutputSink sink)
      : EmbeddingEngine(std::move(model), std::move(info)),
        rank_prompt_(std::move(rank_prompt)),
        embedder_(std::move(encoder), std::move(sink)) {}

  Result<std::uint32_t> Embed(EmbeddingRequest request) override {
    if (rank_prompt_ != nullptr) {
      return Status(StatusCode::kInvalidRequest,
                    "this model ranks documents and makes no embeddings");
    }
    EmbeddingSubmission submission;
    submission.id = request.id;
    if (request.input.empty()) {
      return Status(StatusCode::kInvalidRequest, "there is no input");
    }
    std::uint32_t input_tokens = 0;
    std::uint32_t truncated_tokens = 0;
    for (EmbeddingInput& input : request.input) {
      Result<std::vector<Token>> tokens = ReadInput(input);
      if (!tokens.ok()) return tokens.status();
      const std::string name = "input[" + std::to_string(submission.inputs.size()) + "]";
      if (tokens.value().empty()) {
        return Status(StatusCode::kInvalidRequest, name + " is empty");
      }
      if (request.truncate) {
        truncated_tokens += CutInput(model(), info().context_length, &tokens.value());
      }
      if (Status status = CheckLength(name + " has", tokens.value().size()); !status.ok()) {
        return status;
      }
      input_tokens += static_cast<std::uint32_t>(tokens.value().size());
      submission.inputs.push_back(std::move(tokens.value()));
    }
    if (request.truncate) submission.truncated_tokens = truncated_tokens;
    if (Status status = embedder_.Submit(std::move(submission)); !status.ok()) return status;
    return input_tokens;
  }

  Result<std::uint32_t> Rerank(RerankRequest request) override {
    if (rank_prompt_ == nullptr) {
      return Status(StatusCode::kInvalidRequest,
                    "this model makes embeddings and ranks no documents");
    }
    const Result<RankQuery> query = rank_prompt_->Read(std::move(request.query));
    if (!query.ok()) return query.status();
    const Result<std::vector<Token>> alone = rank_prompt_->Tokens(query.value(), "");
    if (!alone.ok()) return alone.status();
    // Before the documents, which must not be tokenized in vain.
    if (Status status = CheckLength("query has", alone.value().size()); !status.ok()) return status;

    const RankPrompt::Limits limits{.max_tokens = request.truncate
                                                      ? info().context_length
                                                      : std::numeric_limits<std::uint32_t>::max(),
                                    .max_document_tokens = request.max_document_tokens};
    EmbeddingSubmission submission;
    submission.id = request.id;
    std::uint32_t input_tokens = 0;
    std::uint32_t truncated_tokens = 0;
    for (const std::string& document : request.documents) {
      Result<RankInput> input = rank_prompt_->Cut(query.value(), document, limits);
      if (!input.ok()) return input.status();
      const std::size_t count = input.value().tokens.size();
      const std::string name = "documents[" + std::to_string(submission.inputs.size()) + "]";
      if (count == 0) {  // some vocabularies have no tokens for white space
        return Status(StatusCode::kInvalidRequest, name + " and the query are empty");
      }
      if (Status status = CheckLength(name + " and the query have", count); !status.ok()) {
        return status;
      }
      input_tokens += static_cast<std::uint32_t>(count);
      truncated_tokens += input.value().truncated_tokens;
      submission.inputs.push_back(std::move(input.value().tokens));
    }
    if (request.truncate || request.max_document_tokens) {
      submission.truncated_tokens = truncated_tokens;
    }
    if (Status status = embedder_.Submit(std::move(submission)); !status.ok()) return status;
    return input_tokens;
  }

  void Cancel(GenerationId id) override { embedder_.Cancel(id); }
  void Hold(bool on) override { embedder_.Hold(on); }
  EngineStats stats() const override { return embedder_.stats(); }
  void Close() override { embedder_.Close(); }

 private:
  Result<std::vector<Token>> ReadInput(EmbeddingInput& input) const {
    if (const auto* text = std::get_if<std::string>(&input)) {
      return model().Tokenize(*text, /*add_special=*/true, /*parse_special=*/false);
    }
    return std::move(std::get<std::vector<Token>>(input));
  }

  // `what`: subject and verb of the error message, such as "query has".
  Status CheckLength(const std::string& what, std::size_t tokens) const {
    if (tokens <= info().context_length) return Status::Ok();
    return {StatusCode::kContextOverflow, what + " " + std::to_string(tokens) +
                                              " tokens, and the model takes at most " +
                                              std::to_string(info().context_length)};
  }

  const std::unique_ptr<RankPrompt> rank_prompt_;  // null: the model makes embeddings
  Embedder embedder_;                              // ends before the model does
};

// Largest difference between two computations of one score, relative to it: rounding depends on the
// batch.
constexpr float kSameScore = 0.05F;

// Scores pairs together and one by one. A file without a classifier head has no score: libllama
// then returns numbers of another input's hidden state. Errors: kModelInvalid; as Encoder::Encode.
Status TryToRank(Encoder& encoder, const RankPrompt& prompt, const std::string& path) {
  std::vector<std::vector<Token>> inputs;
  for (const char* document : {"A river runs under the bridge.", "Seven", "No."}) {
    const Result<RankQuery> query = prompt.Read("What runs under the bridge?");
    if (!query.ok()) return query.status();
    Result<std::vector<Token>> tokens = prompt.Tokens(query.value(), document);
    if (!tokens.ok()) return tokens.status();
    inputs.push_back(std::move(tokens.value()));
  }
  const std::atomic<bool> no_abort = false;
  const std::vector<std::span<const Token>> all(inputs.begin(), inputs.end());
  std::vector<float> together;
  if (Status status = encoder.Encode(all, no_abort, &together); !status.ok()) return status;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<float> alone;
    if (Status status = encoder.Encode({&all[i], 1}, no_abort, &alone); !status.ok()) return status;
    if (std::fabs(alone[0] - together[i]) > kSameScore * (1 + std::fabs(alone[0]))) {
      return {StatusCode::kModelInvalid,
              path + " has the pooling type of a model that ranks, but no classifier head"};
    }
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Engine>> NewEmbeddingEngine(std::unique_ptr<LlamaModel> model,
                                                   const LoadOptions& options, OutputSink sink) {
  ModelInfo info = model->Describe();
  info.context_length = MaxInputTokens(options, info.trained_context_length);
  const int threads = options.prompt_threads > 0 ? options.prompt_threads : options.threads;
  info.threads = threads > 0 ? threads : DefaultThreads(info.size_bytes);
  Result<std::unique_ptr<Encoder>> encoder =
      NewLlamaEncoder(*model, {.max_tokens = info.context_length, .threads = info.threads});
  if (!encoder.ok()) return encoder.status();
  info.embedding_length = encoder.value()->length();
  info.makes_embeddings = true;
  info.ranks = Ranks(*model);
  for (const AdapterFile& file : options.adapters) {
    info.adapters.push_back({file.id, "cannot be used: this model generates no text"});
  }
  std::unique_ptr<RankPrompt> rank_prompt;
  if (info.ranks) {
    rank_prompt = std::make_unique<RankPrompt>(*model);
    if (Status status = TryToRank(*encoder.value(), *rank_prompt, options.path); !status.ok()) {
      return status;
    }
  }
  return std::unique_ptr<Engine>(std::make_unique<LlamaEmbeddingEngine>(
      std::move(model), std::move(encoder.value()), std::move(rank_prompt), std::move(info),
      std::move(sink)));
}

}  // namespace svc
