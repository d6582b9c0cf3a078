// Converts structs with a table of fields (engine/base/field.h) from and to JavaScript objects
// whose properties have the same names. A new field needs no code here; a new type of member does.
// JavaScript thread.
#pragma once

#include <napi.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "binding/arguments.h"
#include "binding/errors.h"
#include "engine/base/field.h"

namespace svc::binding {

template <typename T>
concept Record = requires {
  T::Fields();
};

template <typename T, template <typename...> typename Template>
inline constexpr bool kIs = false;
template <typename... Parts, template <typename...> typename Template>
inline constexpr bool kIs<Template<Parts...>, Template> = true;

template <typename Enum>
Enum ReadEnum(Napi::Value value, const std::string& name) {
  const std::string given = ReadString(value, name);
  std::string known;
  int index = 0;
  for (const char* each : Names(Enum{})) {
    if (given == each) return static_cast<Enum>(index);
    known += (index++ == 0 ? "" : " or ") + std::string(each);
  }
  throw InvalidRequest(value.Env(), name + " must be " + known);
}

template <Record Struct>
void ReadRecord(Napi::Object object, const std::string& prefix, Struct& target);

// Sets `target` from `value`. Throws INVALID_REQUEST with `name`; `target` may then be changed.
template <typename T>
void ReadValue(Napi::Value value, const std::string& name, const FieldRule& rule, T& target) {
  if constexpr (Record<T>) {
    ReadRecord(ReadObject(value, name), name + ".", target);
  } else if constexpr (std::is_same_v<T, std::string>) {
    target = ReadString(value, name);
  } else if constexpr (std::is_same_v<T, bool>) {
    target = ReadBoolean(value, name);
  } else if constexpr (std::is_same_v<T, float>) {
    target = ReadFloat(value, name);
  } else if constexpr (std::is_integral_v<T>) {
    const auto most = std::min<std::uint64_t>(std::numeric_limits<T>::max(), rule.max);
    target = static_cast<T>(ReadWholeNumber(value, name, rule.min, static_cast<int64_t>(most)));
  } else if constexpr (std::is_enum_v<T>) {
    target = ReadEnum<T>(value, name);
  } else if constexpr (kIs<T, std::optional>) {
    ReadValue(value, name, rule, target.emplace());
  } else if constexpr (kIs<T, std::pair>) {
    const Napi::Array pair = ReadArray(value, name);
    if (pair.Length() != 2) throw InvalidRequest(value.Env(), name + " must be a pair");
    ReadValue(pair.Get(0U), name + "[0]", {}, target.first);
    ReadValue(pair.Get(1U), name + "[1]", {}, target.second);
  } else {
    static_assert(kIs<T, std::vector>);
    ReadElements(value, name, [&](Napi::Value element, const std::string& element_name) {
      ReadValue(element, element_name, {}, target.emplace_back());
    });
  }
  if constexpr (requires { target.empty(); }) {
    if (rule.non_empty && target.empty())
      throw InvalidRequest(value.Env(), name + " must not be empty");
  }
}

// Reads the fields that `object` has; the others keep their values. `prefix` precedes the names in
// errors.
template <Record Struct>
void ReadRecord(Napi::Object object, const std::string& prefix, Struct& target) {
  const auto read = [&](const auto& field) {
    const Napi::Value value = object.Get(field.name);
    if (value.IsUndefined() && !field.rule.required) return;
    ReadValue(value, prefix + field.name, field.rule, target.*field.member);
  };
  std::apply([&](const auto&... fields) { (read(fields), ...); }, Struct::Fields());
}

template <typename Struct, typename Fields>
Napi::Object ToObject(Napi::Env env, const Struct& record, const Fields& table);

template <typename T>
Napi::Value ToValue(Napi::Env env, const T& value, const FieldRule& rule = {}) {
  if constexpr (Record<T>) {
    return ToObject(env, value, T::Fields());
  } else if constexpr (std::is_same_v<T, std::string>) {
    return rule.nullable && value.empty() ? env.Null() : Napi::String::New(env, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return Napi::Boolean::New(env, value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    const auto number = static_cast<double>(value);
    return rule.nullable && number < 0 ? env.Null() : Napi::Number::New(env, number);
  } else if constexpr (kIs<T, std::optional>) {
    return value ? ToValue(env, *value, rule) : env.Null();
  } else {
    static_assert(kIs<T, std::vector>);
    Napi::Array array = Napi::Array::New(env, value.size());
    for (std::uint32_t i = 0; i < value.size(); ++i) array.Set(i, ToValue(env, value[i]));
    return array;
  }
}

template <typename Struct, typename Fields>
Napi::Object ToObject(Napi::Env env, const Struct& record, const Fields& table) {
  Napi::Object object = Napi::Object::New(env);
  const auto set = [&](const auto& field) {
    const auto& member = record.*field.member;
    if constexpr (kIs<std::decay_t<decltype(member)>, std::optional>) {
      if (field.rule.omit_absent && !member) return;
    }
    object.Set(field.name, ToValue(env, member, field.rule));
  };
  std::apply([&](const auto&... fields) { (set(fields), ...); }, table);
  return object;
}

template <Record Struct>
Napi::Object ToObject(Napi::Env env, const Struct& record) {
  return ToObject(env, record, Struct::Fields());
}

}  // namespace svc::binding
