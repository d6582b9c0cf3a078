// What the engines for embeddings and for ranking share. Such a model has no text decoder, no chat
// template and no prefix cache, so they use none of the text engine's parts: inputs of tokens go to
// the embedder, which makes a vector of each. A score is a vector of one number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "engine/llama/llama_model.h"
#include "engine/model/encoder.h"
#include "engine/run/embedder.h"

namespace svc {

struct EncoderParts {
  std::unique_ptr<LlamaModel> model;
  std::unique_ptr<Encoder> encoder;
  ModelInfo info;
};

// REQUIRES: MakesEmbeddings. Errors: kOutOfMemory, kModelInvalid.
Result<EncoderParts> NewEncoderParts(std::unique_ptr<LlamaModel> model, const LoadOptions& options);

// kContextOverflow if an input has more tokens than the model takes. `what`: subject and verb of
// the error message, such as "query has".
Status CheckInputLength(const ModelInfo& info, const std::string& what, std::size_t tokens);

// Kind: EmbeddingEngine or RankingEngine.
template <typename Kind>
class EncoderEngine : public Kind {
 public:
  EncoderEngine(EncoderParts parts, OutputSink sink)
      : Kind(std::move(parts.model), std::move(parts.info)),
        embedder_(std::move(parts.encoder), std::move(sink)) {}

  void Cancel(GenerationId id) override { embedder_.Cancel(id); }
  void Hold(bool on) override { embedder_.Hold(on); }
  void Close() override { embedder_.Close(); }

 protected:
  Status Queue(EmbeddingSubmission submission) { return embedder_.Submit(std::move(submission)); }

 private:
  EngineStats WorkerStats() const override { return embedder_.stats(); }

  Embedder embedder_;  // ends before the model does
};

}  // namespace svc
