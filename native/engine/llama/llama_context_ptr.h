// Owning pointer to a llama_context, and saving and loading of sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/state_bytes.h"
#include "llama-cpp.h"

namespace svc {

using ContextPtr = llama_context_ptr;

// Returns the cache's whole state of a sequence, and behind it `more` bytes for the caller to fill.
// Empty: not possible. REQUIRES: the id is below n_seq_max, the only ids whose state libllama can
// save.
StateBytes SaveSequence(llama_context* context, llama_seq_id sequence, std::size_t more = 0);

// Replaces the cache's content of a sequence, any id. Returns how many bytes the state takes; 0:
// refused, and the sequence may have any part of the state. REQUIRES: `state` begins with what
// SaveSequence returned.
std::size_t LoadSequence(llama_context* context, llama_seq_id sequence,
                         std::span<const std::uint8_t> state);

}  // namespace svc
