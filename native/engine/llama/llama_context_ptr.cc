#include "engine/llama/llama_context_ptr.h"

#include <exception>

namespace svc {

StateBytes SaveSequence(llama_context* context, llama_seq_id sequence) {
  try {
    StateBytes state(llama_state_seq_get_size(context, sequence));
    if (llama_state_seq_get_data(context, state.data(), state.size(), sequence) == state.size()) {
      return state;
    }
  } catch (const std::exception&) {
    // Treated as a refusal.
  }
  return {};
}

bool LoadSequence(llama_context* context, llama_seq_id sequence,
                  std::span<const std::uint8_t> state) {
  try {
    return llama_state_seq_set_data(context, state.data(), state.size(), sequence) == state.size();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace svc
