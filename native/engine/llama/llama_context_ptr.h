// A llama_context with an owner, and what is the same for all of them.
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

// All that the cache has of the sequence, of which libllama can only tell where its id is below
// n_seq_max. Empty: there is none to be had.
std::vector<std::uint8_t> SaveSequence(llama_context* context, llama_seq_id sequence);

// In place of what the cache has of the sequence, any id. REQUIRES: the state is what SaveSequence
// returned, every byte of it. False: it was refused; the sequence may have any part of it.
bool LoadSequence(llama_context* context, llama_seq_id sequence,
                  std::span<const std::uint8_t> state);

}  // namespace svc
