#include "engine/ranking_engine.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/encoder_engine.h"
#include "engine/llama/prompt/rank_prompt.h"

namespace svc {
namespace {

class LlamaRankingEngine final : public EncoderEngine<RankingEngine> {
 public:
  LlamaRankingEngine(EncoderParts parts, std::unique_ptr<RankPrompt> prompt, OutputSink sink)
      : EncoderEngine(std::move(parts), std::move(sink)), prompt_(std::move(prompt)) {}

  Result<std::uint32_t> Rerank(RerankRequest request) override {
    const Result<RankQuery> query = prompt_->Read(std::move(request.query));
    if (!query.ok()) return query.status();
    const Result<std::vector<Token>> alone = prompt_->Tokens(query.value(), "");
    if (!alone.ok()) return alone.status();
    // Before the documents, which must not be tokenized in vain.
    if (Status status = CheckInputLength(info(), "query has", alone.value().size()); !status.ok())
      return status;

    const RankPrompt::Limits limits{.max_tokens = request.truncate
                                                      ? info().context_length
                                                      : std::numeric_limits<std::uint32_t>::max(),
                                    .max_document_tokens = request.max_document_tokens};
    EmbeddingSubmission submission;
    submission.id = request.id;
    std::uint32_t input_tokens = 0;
    std::uint32_t truncated_tokens = 0;
    for (const std::string& document : request.documents) {
      Result<RankInput> input = prompt_->Cut(query.value(), document, limits);
      if (!input.ok()) return input.status();
      const std::size_t count = input.value().tokens.size();
      const std::string name = "documents[" + std::to_string(submission.inputs.size()) + "]";
      if (count == 0) {  // some vocabularies have no tokens for white space
        return Status(StatusCode::kInvalidRequest, name + " and the query are empty");
      }
      if (Status status = CheckInputLength(info(), name + " and the query have", count);
          !status.ok()) {
        return status;
      }
      input_tokens += static_cast<std::uint32_t>(count);
      truncated_tokens += input.value().truncated_tokens;
      submission.inputs.push_back(std::move(input.value().tokens));
    }
    if (request.truncate || request.max_document_tokens) {
      submission.truncated_tokens = truncated_tokens;
    }
    if (Status status = Queue(std::move(submission)); !status.ok()) return status;
    return input_tokens;
  }

 private:
  const std::unique_ptr<RankPrompt> prompt_;
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

Result<std::unique_ptr<Engine>> NewRankingEngine(std::unique_ptr<LlamaModel> model,
                                                 const LoadOptions& options, OutputSink sink) {
  Result<EncoderParts> made = NewEncoderParts(std::move(model), options);
  if (!made.ok()) return made.status();
  EncoderParts& parts = made.value();
  auto prompt = std::make_unique<RankPrompt>(*parts.model);
  if (Status status = TryToRank(*parts.encoder, *prompt, options.path); !status.ok()) return status;
  return std::unique_ptr<Engine>(
      std::make_unique<LlamaRankingEngine>(std::move(parts), std::move(prompt), std::move(sink)));
}

}  // namespace svc
