#include "engine/base/status.h"

#include <exception>
#include <new>

namespace svc {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidRequest:
      return "INVALID_REQUEST";
    case StatusCode::kContextOverflow:
      return "CONTEXT_OVERFLOW";
    case StatusCode::kModelInvalid:
      return "MODEL_INVALID";
    case StatusCode::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case StatusCode::kBusy:
      return "BUSY";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kEngineUnavailable:
      return "ENGINE_UNAVAILABLE";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "INTERNAL";
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
