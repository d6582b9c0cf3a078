#include "engine/base/status.h"

#include <array>
#include <exception>
#include <new>

namespace svc {

const char* StatusCodeName(StatusCode code) {
  static constexpr std::array kNames = {
      "OK",   "INVALID_REQUEST", "CONTEXT_OVERFLOW",   "MODEL_INVALID", "OUT_OF_MEMORY",
      "BUSY", "CANCELLED",       "ENGINE_UNAVAILABLE", "INTERNAL",      "CONFIG_INVALID"};
  static_assert(kNames.size() == static_cast<std::size_t>(StatusCode::kConfigInvalid) + 1);
  return kNames[static_cast<std::size_t>(code)];
}

Status CaughtStatus(std::string no_memory) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, std::move(no_memory)};
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, error.what()};
  }
}

}  // namespace svc
