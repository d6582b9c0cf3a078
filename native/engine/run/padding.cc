#include "engine/run/padding.h"

#include <algorithm>

namespace svc {

Padding::Padding(Decoder* decoder, const StepCosts* costs, const Admission* admission)
    : decoder_(decoder), costs_(costs), admission_(admission), has_ids_(HasSpareIds(*decoder)) {}

std::uint32_t Padding::Padded(std::uint32_t rows, bool all_wanted) const {
  if (!has_ids_) return rows;
  std::uint32_t most = std::min(admission_->AvailableCells(), decoder_->max_rows());
  if (all_wanted) most = std::min(most, decoder_->max_outputs());
  const std::uint32_t padded = costs_->model().Padded(rows);
  return padded > most ? rows : padded;
}

void Padding::Add(Step* step, bool all_wanted) const {
  const std::uint32_t rows = step->size();
  const std::uint32_t padded = Padded(rows, all_wanted);
  const bool plain = std::ranges::any_of(step->parts, [](const StepPart& part) {
    return part.rows > 1 && part.generation->IsPlain();
  });
  if (plain || step->HasMedia()) return;
  const SequenceId first = EndOfCacheIds(*decoder_);
  for (; rows + step->padding < padded; ++step->padding) {
    step->rows.push_back(
        {.sequence = first + static_cast<SequenceId>(step->padding), .wants_logits = all_wanted});
  }
}

void Padding::Remove(const Step& step) const {
  for (std::uint32_t i = 0; i < step.padding; ++i) {
    decoder_->RemoveSequence(step.rows[step.rows.size() - 1 - i].sequence);
  }
}

}  // namespace svc
