// Status and Result<T>: how the engine reports errors. Nothing in native/engine throws across its
// API; exceptions of libllama are caught at the call and become a Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace svc {

// The codes of src/protocol/errors.ts. StatusCodeName() returns their spelling there.
enum class StatusCode {
  kOk,
  kInvalidRequest,
  kContextOverflow,
  kModelInvalid,
  kOutOfMemory,
  kBusy,
  kCancelled,
  kEngineUnavailable,
  kInternal,
  kConfigInvalid,
};

// "INVALID_REQUEST" and so on. Static storage.
const char* StatusCodeName(StatusCode code);

// Sizes of a prompt that is too long; clients of some APIs use them.
struct Overflow {
  std::size_t prompt_tokens = 0;
  bool is_minimum = false;  // prompt_tokens is a lower bound
  std::uint32_t context_length = 0;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, std::string param = "")
      : code_(code), message_(std::move(message)), param_(std::move(param)) {}
  // kContextOverflow.
  Status(std::string message, const Overflow& overflow)
      : code_(StatusCode::kContextOverflow), message_(std::move(message)), overflow_(overflow) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  // One sentence for a person, without a full stop. Never holds prompt text.
  const std::string& message() const { return message_; }
  // The request field at fault, as src/engine/addon.ts names it; empty: unspecified.
  const std::string& param() const { return param_; }
  const std::optional<Overflow>& overflow() const { return overflow_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::string param_;
  std::optional<Overflow> overflow_;
};

// Status of the exception being handled: kOutOfMemory with `no_memory` for std::bad_alloc,
// otherwise kInternal with its message. REQUIRES: called in a catch block.
Status CaughtStatus(std::string no_memory);

// Either a value or the error. REQUIRES: ok() before value().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace svc

// SVC_RETURN_IF_ERROR(status): returns the status from this function if it is an error.
#define SVC_RETURN_IF_ERROR(...)                                                       \
  do {                                                                                 \
    if (::svc::Status svc_status = (__VA_ARGS__); !svc_status.ok()) return svc_status; \
  } while (false)

// SVC_ASSIGN_OR_RETURN(target, result): returns the error of the result from this function, or sets
// `target` to its value. `target` may be the declaration of a variable.
#define SVC_ASSIGN_OR_RETURN(target, ...) \
  SVC_ASSIGN_FROM(SVC_JOIN(svc_result_, __LINE__), target, __VA_ARGS__)
#define SVC_ASSIGN_FROM(result, target, ...) \
  auto result = (__VA_ARGS__);               \
  if (!result.ok()) return result.status();  \
  target = std::move(result.value())
#define SVC_JOIN(first, second) SVC_JOIN_EXPANDED(first, second)
#define SVC_JOIN_EXPANDED(first, second) first##second
