// Names of tokens and requests.
#pragma once

#include <cstdint>

namespace svc {

using Token = std::int32_t;
using GenerationId = std::uint32_t;

}  // namespace svc
