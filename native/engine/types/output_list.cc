#include "engine/types/output_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace svc {
namespace {

// Prepends `earlier` to `later`.
template <typename Sequence>
void Prepend(Sequence& earlier, Sequence& later) {
  earlier.insert(earlier.end(), std::make_move_iterator(later.begin()),
                 std::make_move_iterator(later.end()));
  later = std::move(earlier);
}

// `later` follows `earlier` in the same generation.
void Join(GenerationOutput& earlier, GenerationOutput&& later) {
  Prepend(earlier.text, later.text);
  Prepend(earlier.reasoning, later.reasoning);
  Prepend(earlier.tool_calls, later.tool_calls);
  Prepend(earlier.embeddings, later.embeddings);
  Prepend(earlier.logprobs, later.logprobs);
  Prepend(earlier.tokens, later.tokens);
  if (!later.cells) later.cells = earlier.cells;
  earlier = std::move(later);
}

}  // namespace

void OutputList::Add(GenerationOutput output) {
  const auto same =
      std::ranges::find_if(outputs_, [&](const auto& held) { return held.id == output.id; });
  if (same == outputs_.end()) {
    outputs_.push_back(std::move(output));
  } else {
    Join(*same, std::move(output));
  }
}

std::vector<GenerationOutput> OutputList::Take() { return std::exchange(outputs_, {}); }

}  // namespace svc
