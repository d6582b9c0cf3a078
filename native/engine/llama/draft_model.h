// Loads the draft model for speculative decoding, in the same process as its target model, and
// decides whether it can be used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/draft/drafter.h"
#include "engine/llama/llama_decoder.h"
#include "engine/llama/llama_model.h"
#include "engine/llama/thread_pools.h"
#include "engine/model/decoder.h"

namespace svc {

// Reason why `draft` cannot draft for `model`, worded to follow "the draft model"; empty: it can.
// Any thread.
std::string DraftRefusal(const LlamaModel& model, const LlamaModel& draft);

// Options for loading the draft model of `options`.
LoadOptions DraftLoadOptions(const LoadOptions& options);
// Options for the draft model's context, beside a target context of `cells` cells.
DecoderOptions DraftDecoderOptions(const LlamaModel& draft, std::uint32_t cells, int threads);

struct DraftModel {
  std::unique_ptr<LlamaModel> model;  // outlives the drafter
  std::unique_ptr<Drafter> drafter;   // null: no drafting
  std::string refusal;  // reason if there is no drafter, worded to follow "the draft model"
};

// Loads the draft model of `options` for a model and its decoder. `threads`: those of the decoder;
// `pools`: the decoder's. Error: kCancelled; anything else is a refusal in the result. REQUIRES:
// options.draft_path is not empty.
Result<DraftModel> LoadDraftModel(const LoadOptions& options, const LlamaModel& model,
                                  const Decoder& decoder, int threads,
                                  std::shared_ptr<ThreadPools> pools);

}  // namespace svc
