#include "engine/base/status.h"

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

}  // namespace svc
