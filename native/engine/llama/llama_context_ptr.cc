#include "engine/llama/llama_context_ptr.h"

#include <exception>

namespace svc {

StateBytes SaveSequence(llama_context* context, llama_seq_id sequence, std::size_t more) {
  try {
    const std::size_t size = llama_state_seq_get_size(context, sequence);
    StateBytes state(size + more);
    if (llama_state_seq_get_data(context, state.data(), size, sequence) == size) return state;
  } catch (const std::exception&) {
    // Treated as a refusal.
  }
  return {};
}

std::size_t LoadSequence(llama_context* context, llama_seq_id sequence,
                         std::span<const std::uint8_t> state) {
  try {
    return llama_state_seq_set_data(context, state.data(), state.size(), sequence);
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace svc
