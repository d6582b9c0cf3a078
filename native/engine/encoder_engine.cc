#include "engine/encoder_engine.h"

#include "engine/llama/cpu_threads.h"
#include "engine/llama/llama_encoder.h"

namespace svc {

Result<EncoderParts> NewEncoderParts(std::unique_ptr<LlamaModel> model,
                                     const LoadOptions& options) {
  ModelInfo info = model->Describe();
  info.context_length = MaxInputTokens(options, info.trained_context_length);
  const int threads = options.prompt_threads > 0 ? options.prompt_threads : options.threads;
  info.threads = threads > 0 ? threads : DefaultThreads(info.size_bytes);
  SVC_ASSIGN_OR_RETURN(
      std::unique_ptr<Encoder> encoder,
      NewLlamaEncoder(*model, {.max_tokens = info.context_length, .threads = info.threads}));
  info.embedding_length = encoder->length();
  info.makes_embeddings = true;
  info.ranks = Ranks(*model);
  for (const AdapterFile& file : options.adapters) {
    info.adapters.push_back({file.id, "cannot be used: this model generates no text"});
  }
  return EncoderParts{
      .model = std::move(model), .encoder = std::move(encoder), .info = std::move(info)};
}

Status CheckInputLength(const ModelInfo& info, const std::string& what, std::size_t tokens) {
  if (tokens <= info.context_length) return Status::Ok();
  return {StatusCode::kContextOverflow, what + " " + std::to_string(tokens) +
                                            " tokens, and the model takes at most " +
                                            std::to_string(info.context_length)};
}

}  // namespace svc
