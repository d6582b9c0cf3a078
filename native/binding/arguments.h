// Reads arguments of JavaScript callers. A value of the wrong type or range throws INVALID_REQUEST
// with the argument's name. Only the type and range are checked here; the engine validates the
// meaning. JavaScript thread.
#pragma once

#include <napi.h>

#include <cstdint>
#include <limits>
#include <string>

namespace svc::binding {

std::string ReadString(Napi::Value value, const std::string& name);
bool ReadBoolean(Napi::Value value, const std::string& name);
// A finite float.
float ReadFloat(Napi::Value value, const std::string& name);
// An integer from `min` to `max`.
std::int64_t ReadWholeNumber(Napi::Value value, const std::string& name, std::int64_t min,
                             std::int64_t max);
Napi::Function ReadFunction(Napi::Value value, const std::string& name);
Napi::Object ReadObject(Napi::Value value, const std::string& name);
// A real array; array-like objects are rejected.
Napi::Array ReadArray(Napi::Value value, const std::string& name);

template <typename Integer>
Integer ReadInteger(Napi::Value value, const std::string& name, Integer min = 0,
                    Integer max = std::numeric_limits<Integer>::max()) {
  static_assert(sizeof(Integer) <= 4, "beyond 53 bits a number is not exact");
  return static_cast<Integer>(ReadWholeNumber(value, name, min, max));
}

// Calls `read(value, name)` if the field is not undefined.
template <typename Read>
void ReadField(Napi::Object object, const char* name, Read read) {
  const Napi::Value value = object.Get(name);
  if (!value.IsUndefined()) read(value, std::string(name));
}

// Calls `read(element, name)` for each element of an array.
template <typename Read>
void ReadElements(Napi::Value value, const std::string& name, Read read) {
  const Napi::Array array = ReadArray(value, name);
  for (std::uint32_t i = 0; i < array.Length(); ++i) {
    const Napi::HandleScope scope(array.Env());
    read(array.Get(i), name + "[" + std::to_string(i) + "]");
  }
}

}  // namespace svc::binding
