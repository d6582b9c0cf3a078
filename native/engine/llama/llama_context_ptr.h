// Owning pointer to a llama_context, and saving and loading of sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "llama.h"

namespace svc {

struct FreeContext {
  void operator()(llama_context* context) const { llama_free(context); }
};
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;

// Returns the cache's whole state of a sequence. Empty: not possible. REQUIRES: the id is below
// n_seq_max, the only ids whose state libllama can save.
std::vector<std::uint8_t> SaveSequence(llama_context* context, llama_seq_id sequence);

// Replaces the cache's content of a sequence, any id. False: refused; the sequence may have any
// part of the state. REQUIRES: the state is exactly what SaveSequence returned.
bool LoadSequence(llama_context* context, llama_seq_id sequence,
                  std::span<const std::uint8_t> state);

}  // namespace svc
