// Outputs that have not been delivered to the sink yet: one for each generation. New output is
// appended to the entry of its generation.
#pragma once

#include <vector>

#include "engine/types/output.h"

namespace svc {

// Not thread-safe.
class OutputList {
 public:
  // Merges the output into the entry of the same generation, if there is one. REQUIRES: that entry
  // is not `done`.
  void Add(GenerationOutput output);
  // Returns all entries and empties the list.
  std::vector<GenerationOutput> Take();

  bool empty() const { return outputs_.empty(); }
  auto begin() const { return outputs_.begin(); }
  auto end() const { return outputs_.end(); }

 private:
  std::vector<GenerationOutput> outputs_;
};

}  // namespace svc
