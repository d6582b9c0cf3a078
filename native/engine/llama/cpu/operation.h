// An operation as ggml calls it.
#pragma once

#include <cstddef>
#include <memory>

#include "ggml-backend-impl.h"
#include "ggml-cpu/traits.h"

namespace svc {

using Operation = std::unique_ptr<ggml::cpu::tensor_traits>;

// Alignment of weights and of each thread's scratch memory, in bytes.
inline constexpr std::size_t kAlignment = 64;

}  // namespace svc
