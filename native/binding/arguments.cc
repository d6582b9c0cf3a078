#include "binding/arguments.h"

#include <cmath>

#include "binding/errors.h"

namespace svc::binding {
namespace {

[[noreturn]] void Refuse(Napi::Value value, const std::string& name, const std::string& wanted) {
  throw InvalidRequest(value.Env(), name + " must be " + wanted);
}

}  // namespace

std::string ReadString(Napi::Value value, const std::string& name) {
  if (!value.IsString()) Refuse(value, name, "a string");
  return value.As<Napi::String>().Utf8Value();
}

bool ReadBoolean(Napi::Value value, const std::string& name) {
  if (!value.IsBoolean()) Refuse(value, name, "true or false");
  return value.As<Napi::Boolean>().Value();
}

float ReadFloat(Napi::Value value, const std::string& name) {
  const float number = value.IsNumber() ? value.As<Napi::Number>().FloatValue()
                                        : std::numeric_limits<float>::quiet_NaN();
  if (!std::isfinite(number)) Refuse(value, name, "a finite number");
  return number;
}

std::int64_t ReadWholeNumber(Napi::Value value, const std::string& name, std::int64_t min,
                             std::int64_t max) {
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue()
                                         : std::numeric_limits<double>::quiet_NaN();
  // Written so that NaN fails it.
  if (!(number >= static_cast<double>(min) && number <= static_cast<double>(max)) ||
      std::trunc(number) != number) {
    Refuse(value, name, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return static_cast<std::int64_t>(number);
}

Napi::Function ReadFunction(Napi::Value value, const std::string& name) {
  if (!value.IsFunction()) Refuse(value, name, "a function");
  return value.As<Napi::Function>();
}

Napi::Object ReadObject(Napi::Value value, const std::string& name) {
  if (!value.IsObject()) Refuse(value, name, "an object");
  return value.As<Napi::Object>();
}

Napi::Array ReadArray(Napi::Value value, const std::string& name) {
  if (!value.IsArray()) Refuse(value, name, "an array");
  return value.As<Napi::Array>();
}

}  // namespace svc::binding
