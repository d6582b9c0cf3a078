// The model that drafts for another one in the same process: which may, how it is loaded.
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

// Why `draft` cannot draft for `model`, after "it"; empty: it can. Any thread.
std::string DraftRefusal(const LlamaModel& model, const LlamaModel& draft);

// How it is loaded beside the one of these options.
LoadOptions DraftLoadOptions(const LoadOptions& options);
// Of its context, beside one with so many cells.
DecoderOptions DraftDecoderOptions(const LlamaModel& draft, std::uint32_t cells, int threads);

struct DraftModel {
  std::unique_ptr<LlamaModel> model;  // outlives the drafter
  std::unique_ptr<Drafter> drafter;   // null: there is none
  std::string refusal;                // why; in words that go on after "the draft model"
};

// That of the options, for a model and its decoder. REQUIRES: there is one; the pools are those of
// the decoder, which computes with so many threads. Error: kCancelled; all else is a refusal.
Result<DraftModel> LoadDraftModel(const LoadOptions& options, const LlamaModel& model,
                                  const Decoder& decoder, int threads,
                                  std::shared_ptr<ThreadPools> pools);

}  // namespace svc
