// Owning pointer to a llama_context, and saving and loading of sequences.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/state_bytes.h"
#include "llama-cpp.h"

namespace svc {

using ContextPtr = llama_context_ptr;

// Returns the cache's whole state of a sequence. Empty: not possible. REQUIRES: the id is below
// n_seq_max, the only ids whose state libllama can save.
StateBytes SaveSequence(llama_context* context, llama_seq_id sequence);

// Replaces the cache's content of a sequence, any id. False: refused; the sequence may have any
// part of the state. REQUIRES: the state is exactly what SaveSequence returned.
bool LoadSequence(llama_context* context, llama_seq_id sequence,
                  std::span<const std::uint8_t> state);

}  // namespace svc
