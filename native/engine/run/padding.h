// Rows that only fill a step up to a size that its kernels compute cheaper (CostModel::Padded).
#pragma once

#include <cstdint>

#include "engine/model/decoder.h"
#include "engine/run/admission.h"
#include "engine/run/step.h"
#include "engine/run/step_costs.h"

namespace svc {

// Owner and thread: the Loop. All that it is made from must outlive it.
class Padding {
 public:
  Padding(Decoder* decoder, const StepCosts* costs, const Admission* admission);

  // Number of rows with padding, where there is room for it. `all_wanted`: all rows have logits,
  // and padding has them too, since the product with the vocabulary's matrix works on groups as
  // well.
  std::uint32_t Padded(std::uint32_t rows, bool all_wanted) const;
  // Adds padding to the step, unless a prompt in it has to be rounded as in a plain loop.
  void Add(Step* step, bool all_wanted) const;
  // Frees the cells that padding took.
  void Remove(const Step& step) const;

 private:
  Decoder* const decoder_;
  const StepCosts* const costs_;
  const Admission* const admission_;
  const bool has_ids_;
};

}  // namespace svc
