// What generations have produced and nobody has been told yet: one output for each of them. What
// comes meanwhile makes the outputs longer, not more.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/base/request.h"

namespace svc {

// Not thread-safe.
class OutputList {
 public:
  // Joined to the one of the same generation. REQUIRES: that one was not its last.
  void Add(GenerationOutput output);
  std::vector<GenerationOutput> Take();

  bool empty() const { return outputs_.empty(); }
  auto begin() const { return outputs_.begin(); }
  auto end() const { return outputs_.end(); }

 private:
  std::vector<GenerationOutput> outputs_;
};

}  // namespace svc
