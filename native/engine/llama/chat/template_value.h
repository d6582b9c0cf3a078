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

// Bytes of a string's text and of its parts.
double TextBytes(const jinja::value& value);

// Number of direct items of an array or object; 0 for other values.
double ItemsOf(const jinja::value& value);

// Returns the weight of the text of `value` with all that it contains, counted once per occurrence:
// the work and the length of writing it out. Values may be shared, and may contain themselves, so
// the walk ends, with `is_bounded` false, at WorkLimit::kMaxAllocationBytes or a depth of 200.
Weight Weigh(const jinja::value& value);

}  // namespace svc
