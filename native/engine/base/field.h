// Tables of a struct's members, by name, for code that converts the struct to another
// representation (native/binding/fields.h). A struct has its table in a static function, so that a
// new member and its name are added in one place:
//
//   static constexpr auto Fields() {
//     using Self = SamplingParams;
//     return std::make_tuple(SVC_FIELD(temperature), SVC_FIELD(logprobs, .max = 20));
//   }
//
// An enum has a function Names(Enum) instead: the names of its values, in their order.
#pragma once

#include <cstdint>

namespace svc {

// What a value must be beyond the type of its member, and how an absent one is written.
struct FieldRule {
  bool required = false;
  bool non_empty = false;    // of a string or a list
  bool omit_absent = false;  // an absent optional is left out; otherwise it is written as null
  bool nullable = false;     // an empty string or a negative number is written as null
  // Bounds of an integer that is read; also those of its type apply. Beyond 53 bits a JavaScript
  // number is not exact.
  std::int64_t min = 0;
  std::int64_t max = std::int64_t{1} << 50U;
};

template <typename Struct, typename Member>
struct Field {
  const char* name;
  Member Struct::*member;
  FieldRule rule;

  constexpr Field(const char* field_name, Member Struct::*pointer, FieldRule field_rule = {})
      : name(field_name), member(pointer), rule(field_rule) {}
};

}  // namespace svc

// A member of `Self` under its own name, and its rule.
#define SVC_FIELD(member, ...) \
  ::svc::Field { #member, &Self::member __VA_OPT__(, {__VA_ARGS__}) }
