// Sizes of the values that a chat template computes.
#pragma once

#include "jinja/value.h"

namespace svc {

// Memory of one value besides its text, its items and their links.
constexpr double kValueBytes = 320;

struct Weight {
  double bytes = 0;
  double items = 0;  // values in it, itself included
  int depth = 0;
  bool is_bounded = true;
};

// Calls `visit` with each value that `value` holds: the items of a list, the keys and items of a
// dictionary, the object of a method, and the value of a keyword argument.
template <typename Visit>
void ForEachPart(const jinja::value& value, Visit visit) {
  for (const jinja::value& item : value->val_arr) visit(item);
  for (const auto& [key, item] : value->val_obj) {
    visit(key);
    visit(item);
  }
  const auto* method = jinja::cast_val<jinja::value_func>(value);
  if (method != nullptr && method->arg0 != nullptr) visit(method->arg0);
  const auto* named = jinja::cast_val<jinja::value_kwarg>(value);
  if (named != nullptr && named->val != nullptr) visit(named->val);
}

// Bytes of a string's text and of its parts.
double TextBytes(const jinja::value& value);

// Number of direct items of an array or object; 0 for other values.
double ItemsOf(const jinja::value& value);

// Returns the weight of the text of `value` with all that it contains, counted once per occurrence:
// the work and the length of writing it out. Values may be shared, and may contain themselves, so
// the walk ends, with `is_bounded` false, at WorkLimit::kMaxAllocationBytes or a depth of 200.
Weight Weigh(const jinja::value& value);

}  // namespace svc
