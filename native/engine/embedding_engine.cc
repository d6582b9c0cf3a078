#include "engine/embedding_engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/llama/chat/truncation.h"
#include "engine/llama/cpu_threads.h"
#include "engine/llama/llama_encoder.h"
#include "engine/run/embedder.h"

namespace svc {
namespace {

class LlamaEmbeddingEngine final : public EmbeddingEngine {
 public:
  LlamaEmbeddingEngine(std::unique_ptr<LlamaModel> model, std::unique_ptr<Encoder> encoder,
                       ModelInfo info, OutputSink sink)
      : EmbeddingEngine(std::move(model), std::move(info)),
        embedder_(std::move(encoder), std::move(sink)) {}

  Result<std::uint32_t> Embed(EmbeddingRequest request) override {
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
      if (tokens.value().size() > info().context_length) {
        return Status(StatusCode::kContextOverflow, name + " has " +
                                                        std::to_string(tokens.value().size()) +
                                                        " tokens, and the model takes at most " +
                                                        std::to_string(info().context_length));
      }
      input_tokens += static_cast<std::uint32_t>(tokens.value().size());
      submission.inputs.push_back(std::move(tokens.value()));
    }
    if (request.truncate) submission.truncated_tokens = truncated_tokens;
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

  Embedder embedder_;  // ends before the model does
};

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
  return std::unique_ptr<Engine>(std::make_unique<LlamaEmbeddingEngine>(
      std::move(model), std::move(encoder.value()), std::move(info), std::move(sink)));
}

}  // namespace svc
