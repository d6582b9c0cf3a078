#include "engine/llama/draft_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/llama/llama_encoder.h"

namespace svc {
namespace {

// As in llama.cpp's common/speculative.cpp: vocabularies of one family may differ in size by unused
// tokens at the end, and in the names of the first few tokens.
constexpr std::int32_t kMostDifference = 128;
constexpr std::int32_t kFirstCompared = 5;

bool SameVocabulary(const llama_vocab* a, const llama_vocab* b) {
  if (llama_vocab_type(a) != llama_vocab_type(b)) return false;
  const bool adds_bos = llama_vocab_get_add_bos(a);
  const bool adds_eos = llama_vocab_get_add_eos(a);
  if (adds_bos != llama_vocab_get_add_bos(b) || adds_eos != llama_vocab_get_add_eos(b)) {
    return false;
  }
  if (adds_bos && llama_vocab_bos(a) != llama_vocab_bos(b)) return false;
  if (adds_eos && llama_vocab_eos(a) != llama_vocab_eos(b)) return false;
  const std::int32_t size = llama_vocab_n_tokens(a);
  const std::int32_t other = llama_vocab_n_tokens(b);
  if (std::max(size, other) - std::min(size, other) > kMostDifference) return false;
  for (Token token = kFirstCompared; token < std::min(size, other); ++token) {
    if (std::strcmp(llama_vocab_get_text(a, token), llama_vocab_get_text(b, token)) != 0) {
      return false;
    }
  }
  return true;
}

DraftModel Refused(std::string why) { return {.refusal = std::move(why)}; }

}  // namespace

std::string DraftRefusal(const LlamaModel& model, const LlamaModel& draft) {
  if (MakesEmbeddings(draft)) return "is an embedding model";
  if (!SameVocabulary(model.vocab(), draft.vocab())) return "has a different vocabulary";
  if (!CanShareCells(draft))
    return "has a cache that cannot be rolled back (recurrent state or sliding window)";
  if (llama_model_size(draft.get()) > llama_model_size(model.get())) {
    return "is larger than the model itself";
  }
  return "";
}

LoadOptions DraftLoadOptions(const LoadOptions& options) {
  LoadOptions draft;
  draft.path = options.draft_path;
  draft.gpu_layers = options.gpu_layers;
  draft.main_gpu = options.main_gpu;
  draft.tensor_split = options.tensor_split;
  // The target model has already reported its progress up to 1.
  if (options.on_progress) {
    draft.on_progress = [tell = options.on_progress](float) { return tell(1.0F); };
  }
  return draft;
}

DecoderOptions DraftDecoderOptions(const LlamaModel& draft, std::uint32_t cells, int threads) {
  const int trained = llama_model_n_ctx_train(draft.get());
  if (trained > 0) cells = std::min(cells, static_cast<std::uint32_t>(trained));
  return {.context_length = cells, .threads = threads, .max_sequences = Drafter::kPlaces};
}

Result<DraftModel> LoadDraftModel(const LoadOptions& options, const LlamaModel& model,
                                  const Decoder& decoder, int threads,
                                  std::shared_ptr<ThreadPools> pools) {
  const LoadOptions draft_options = DraftLoadOptions(options);
  // Metadata first: a model that cannot be used should not take memory.
  Result<std::unique_ptr<LlamaModel>> draft = LlamaModel::LoadMetadata(draft_options);
  if (draft.ok()) {
    if (std::string why = DraftRefusal(model, *draft.value()); !why.empty()) {
      return Refused(std::move(why));
    }
    draft = LlamaModel::Load(draft_options);
  }
  if (!draft.ok()) {
    if (draft.status().code() == StatusCode::kCancelled) return draft.status();
    return Refused("cannot be loaded: " + draft.status().message());
  }
  DecoderOptions decoder_options =
      DraftDecoderOptions(*draft.value(), decoder.max_cells(), threads);
  decoder_options.cells = decoder.cells_total();
  Result<std::unique_ptr<Decoder>> drafts =
      NewLlamaDecoder(*draft.value(), decoder_options, std::move(pools));
  if (!drafts.ok()) return Refused("cannot be used: " + drafts.status().message());
  DraftModel result;
  result.model = std::move(draft.value());
  result.drafter = std::make_unique<Drafter>(std::move(drafts.value()), decoder.vocabulary());
  return result;
}

}  // namespace svc
