// Tables of a struct's members, by name, for code that converts the struct to another
// representation (native/binding/fields.h). A struct has its table in a static function Fields(),
// so that a new member and its name are added in one place:
//
//   SVC_FIELDS(GenerationRequest, (prompt), (logprobs, .max = 20))
//
// An enum has a function Names(Enum) instead: the names of its values, in their order.
#pragma once

#include <cstdint>
#include <tuple>

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

// Defines Fields() of `Struct`. Each further argument is `(member)` or `(member, rule)`.
#define SVC_FIELDS(Struct, ...)                                    \
  static constexpr auto Fields() {                                 \
    using Self = Struct;                                           \
    return std::make_tuple(SVC_SCAN(SVC_EACH_FIELD(__VA_ARGS__))); \
  }
// Expands to the first field and, when it is scanned again, to the next one. A macro cannot contain
// itself; therefore SVC_SCAN scans 64 times, which is the most that a struct may have.
#define SVC_EACH_FIELD(first, ...) \
  SVC_FIELD first __VA_OPT__(, SVC_NEXT_FIELD SVC_NO_ARGUMENTS(__VA_ARGS__))
#define SVC_NEXT_FIELD() SVC_EACH_FIELD
#define SVC_NO_ARGUMENTS ()
#define SVC_SCAN(...) SVC_SCAN_16(SVC_SCAN_16(SVC_SCAN_16(SVC_SCAN_16(__VA_ARGS__))))
#define SVC_SCAN_16(...) SVC_SCAN_4(SVC_SCAN_4(SVC_SCAN_4(SVC_SCAN_4(__VA_ARGS__))))
#define SVC_SCAN_4(...) SVC_SCAN_1(SVC_SCAN_1(SVC_SCAN_1(SVC_SCAN_1(__VA_ARGS__))))
#define SVC_SCAN_1(...) __VA_ARGS__
