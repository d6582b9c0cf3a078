// Reads arguments, which may be anything. Whatever does not fit throws INVALID_REQUEST naming the
// argument. Here a value is checked to be representable; what it may mean, the engine judges.
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
// An array, not merely something with a length.
Napi::Array ReadArray(Napi::Value value, const std::string& name);

template <typename Integer>
Integer ReadInteger(Napi::Value value, const std::string& name, Integer min = 0,
                    Integer max = std::numeric_limits<Integer>::max()) {
  static_assert(sizeof(Integer) <= 4, "beyond 53 bits a number is not exact");
  return static_cast<Integer>(ReadWholeNumber(value, name, min, max));
}

// Calls `read(value, name)` if the field is there.
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
