#include "engine/embedding_engine.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/encoder_engine.h"
#include "engine/llama/chat/truncation.h"

namespace svc {
namespace {

class LlamaEmbeddingEngine final : public EncoderEngine<EmbeddingEngine> {
 public:
  using EncoderEngine::EncoderEngine;

  Result<std::uint32_t> Embed(EmbeddingRequest request) override {
    EmbeddingSubmission submission;
    submission.id = request.id;
    if (request.input.empty()) {
      return Status(StatusCode::kInvalidRequest, "there is no input");
    }
    std::uint32_t input_tokens = 0;
    std::uint32_t truncated_tokens = 0;
    for (EmbeddingInput& input : request.input) {
      SVC_ASSIGN_OR_RETURN(std::vector<Token> tokens, ReadInput(input));
      const std::string name = "input[" + std::to_string(submission.inputs.size()) + "]";
      if (tokens.empty()) {
        return Status(StatusCode::kInvalidRequest, name + " is empty");
      }
      if (request.truncate) {
        truncated_tokens += CutInput(model(), info().context_length, &tokens);
      }
      SVC_RETURN_IF_ERROR(CheckInputLength(info(), name + " has", tokens.size()));
      input_tokens += static_cast<std::uint32_t>(tokens.size());
      submission.inputs.push_back(std::move(tokens));
    }
    if (request.truncate) submission.truncated_tokens = truncated_tokens;
    SVC_RETURN_IF_ERROR(Queue(std::move(submission)));
    return input_tokens;
  }

 private:
  Result<std::vector<Token>> ReadInput(EmbeddingInput& input) const {
    if (const auto* text = std::get_if<std::string>(&input)) {
      return model().Tokenize(*text, /*add_special=*/true, /*parse_special=*/false);
    }
    return std::move(std::get<std::vector<Token>>(input));
  }
};

}  // namespace

Result<std::unique_ptr<Engine>> NewEmbeddingEngine(std::unique_ptr<LlamaModel> model,
                                                   const LoadOptions& options, OutputSink sink) {
  SVC_ASSIGN_OR_RETURN(EncoderParts parts, NewEncoderParts(std::move(model), options));
  return std::unique_ptr<Engine>(
      std::make_unique<LlamaEmbeddingEngine>(std::move(parts), std::move(sink)));
}

}  // namespace svc
