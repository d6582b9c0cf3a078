#include "engine/run/growth.h"

#include <algorithm>
#include <utility>

namespace svc {
namespace {

// Cells for the answer to a prompt. A longer answer lets the cache grow again.
constexpr std::uint32_t kAnswerCells = 1024;

// Cells without which a generation cannot continue: for its tokens and the next one.
std::uint32_t LeastCells(const Generation& generation) {
  return static_cast<std::uint32_t>(generation.tokens.size()) + 1;
}

}  // namespace

Growth::Growth(Decoder* decoder, const Generations* generations, Admission* admission)
    : decoder_(decoder),
      generations_(generations),
      admission_(admission),
      granted_(decoder->cells_total()) {}

bool Growth::Fits(const Generation& generation) const {
  return LeastCells(generation) <= decoder_->cells_total();
}

std::vector<Generation*> Growth::Collect() {
  std::vector<Generation*> refused;
  for (const auto& generation : *generations_) {
    if (generation->ended) continue;
    generation->outgrown = !Fits(*generation);
    if (generation->outgrown && generation->confined) refused.push_back(generation.get());
  }
  return refused;
}

std::optional<GenerationOutput> Growth::Ask() const {
  if (asking_) return std::nullopt;
  for (const auto& generation : *generations_) {
    if (generation->ended || generation->paused || !generation->outgrown) continue;
    const std::uint32_t least = LeastCells(*generation);
    if (least <= granted_) continue;
    std::uint32_t answer = kAnswerCells;
    if (generation->max_tokens) {
      answer = std::min(answer, *generation->max_tokens - generation->generated());
    }
    GenerationOutput output;
    output.id = generation->id;
    output.cells = {.least = least, .wanted = std::min(least + answer, decoder_->max_cells())};
    return output;
  }
  return std::nullopt;
}

void Growth::Grant(std::uint32_t cells, std::string refusal) {
  granted_ = std::clamp(cells, decoder_->cells_total(), decoder_->max_cells());
  refusal_ = std::move(refusal);
  const std::optional<GenerationId> asking = std::exchange(asking_, std::nullopt);
  for (const auto& generation : *generations_) {
    // Until Collect checks it again.
    generation->outgrown = false;
    if (generation->id == asking) generation->confined = LeastCells(*generation) > granted_;
  }
}

bool Growth::Due() const {
  return std::any_of(generations_->begin(), generations_->end(), [this](const auto& generation) {
    return !generation->ended && !generation->paused && generation->outgrown &&
           LeastCells(*generation) <= granted_;
  });
}

bool Growth::Replace() {
  Generation* largest = nullptr;
  for (const auto& generation : *generations_) {
    if (generation->ended || !generation->outgrown || LeastCells(*generation) > granted_) continue;
    if (largest == nullptr || LeastCells(*generation) > LeastCells(*largest)) {
      largest = generation.get();
    }
  }
  const bool grown = GrowTo(granted_);
  if (!grown) {
    refusal_ = "a context of " + std::to_string(granted_) + " tokens cannot be allocated";
    largest->confined = true;
  }
  granted_ = decoder_->cells_total();
  return grown;
}

bool Growth::GrowTo(std::uint32_t cells) {
  if (!decoder_->can_share()) return GrowWithStates(cells);
  admission_->SwapOutAll();
  return decoder_->Grow(cells);
}

// Where cells cannot be shared, only generations have any. Their states share the memory of the
// checkpoints; one for which there is no room is computed again.
bool Growth::GrowWithStates(std::uint32_t cells) {
  struct Kept {
    Generation* generation;
    StateBytes state;
    std::uint32_t end;
  };
  std::vector<Kept> all;
  std::uint64_t held = 0;
  for (const auto& generation : *generations_) {
    if (!generation->in_cache()) continue;
    const SequenceId sequence = generation->sequence;
    const auto end = static_cast<std::uint32_t>(decoder_->NextPosition(sequence));
    if (end > 0) {
      StateBytes state;
      const std::uint64_t bytes = decoder_->SizeOfState(sequence, 0, end);
      if (admission_->MakeRoomForStates(held + bytes)) {
        state = decoder_->SaveState(sequence, 0, end);
        held += state.size();
      }
      all.push_back({generation.get(), std::move(state), end});
      decoder_->RemoveSequence(sequence);
    }
  }
  const bool grown = decoder_->Grow(cells);
  for (const auto& [generation, state, end] : all) {
    if (!state.empty()) (void)decoder_->LoadState(generation->sequence, state, 0, end);
    admission_->Recount(*generation);
  }
  return grown;
}

GenerationOutput Growth::EndOf(Generation& generation, Clock::time_point now) const {
  if (generation.generated() == 0) return generation.Fail(now, RefusalOf(generation));
  std::string text;
  generation.answer.Finish(&text);
  return generation.End(now, FinishReason::kLength, std::move(text));
}

Status Growth::RefusalOf(const Generation& generation) const {
  return {StatusCode::kOutOfMemory, "not enough memory for a prompt of " +
                                        std::to_string(generation.prompt_size) +
                                        " tokens: " + refusal_};
}

}  // namespace svc
