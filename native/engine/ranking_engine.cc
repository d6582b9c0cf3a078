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
    SVC_ASSIGN_OR_RETURN(const RankQuery query, prompt_->Read(std::move(request.query)));
    SVC_ASSIGN_OR_RETURN(const std::vector<Token> alone, prompt_->Tokens(query, ""));
    // Before the documents, which must not be tokenized in vain.
    SVC_RETURN_IF_ERROR(CheckInputLength(info(), "query has", alone.size()));

    const RankPrompt::Limits limits{.max_tokens = request.truncate
                                                      ? info().context_length
                                                      : std::numeric_limits<std::uint32_t>::max(),
                                    .max_document_tokens = request.max_document_tokens};
    EmbeddingSubmission submission;
    submission.id = request.id;
    std::uint32_t input_tokens = 0;
    std::uint32_t truncated_tokens = 0;
    for (const std::string& document : request.documents) {
      SVC_ASSIGN_OR_RETURN(RankInput input, prompt_->Cut(query, document, limits));
      const std::size_t count = input.tokens.size();
      const std::string name = "documents[" + std::to_string(submission.inputs.size()) + "]";
      if (count == 0) {  // some vocabularies have no tokens for white space
        return Status(StatusCode::kInvalidRequest, name + " and the query are empty");
      }
      SVC_RETURN_IF_ERROR(CheckInputLength(info(), name + " and the query have", count));
      input_tokens += static_cast<std::uint32_t>(count);
      truncated_tokens += input.truncated_tokens;
      submission.inputs.push_back(std::move(input.tokens));
    }
    if (request.truncate || request.max_document_tokens) {
      submission.truncated_tokens = truncated_tokens;
    }
    SVC_RETURN_IF_ERROR(Queue(std::move(submission)));
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
    SVC_ASSIGN_OR_RETURN(const RankQuery query, prompt.Read("What runs under the bridge?"));
    SVC_ASSIGN_OR_RETURN(std::vector<Token> tokens, prompt.Tokens(query, document));
    inputs.push_back(std::move(tokens));
  }
  const std::atomic<bool> no_abort = false;
  const std::vector<std::span<const Token>> all(inputs.begin(), inputs.end());
  std::vector<float> together;
  SVC_RETURN_IF_ERROR(encoder.Encode(all, no_abort, &together));
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<float> alone;
    SVC_RETURN_IF_ERROR(encoder.Encode({&all[i], 1}, no_abort, &alone));
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
  SVC_ASSIGN_OR_RETURN(EncoderParts parts, NewEncoderParts(std::move(model), options));
  auto prompt = std::make_unique<RankPrompt>(*parts.model);
  SVC_RETURN_IF_ERROR(TryToRank(*parts.encoder, *prompt, options.path));
  return std::unique_ptr<Engine>(
      std::make_unique<LlamaRankingEngine>(std::move(parts), std::move(prompt), std::move(sink)));
}

}  // namespace svc
