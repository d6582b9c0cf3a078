// Makes the functions and filters of llama.cpp's template interpreter observe the WorkLimit of the
// rendering thread.
//
// Some of them multiply sizes (range, replace, join, indent, tojson), compare or move quadratically
// (split, sort, in), or follow values that contain themselves. Each is wrapped in a check of its
// arguments, which estimates the cost of the call before it runs. The containers among its
// arguments and in its result are given to the thread's ValueKeeper. The estimate of `tojson` and
// of `string` does not count escape sequences, which can make their result six times as long.
#pragma once

#include "jinja/value.h"

namespace svc {

// Wraps all functions and filters, for the whole process; repeated calls do nothing. Afterwards
// they throw std::runtime_error when the limit is exceeded. Threads without a limit are not
// affected. REQUIRES: no template has been rendered on another thread.
void LimitBuiltins();

// Throw std::runtime_error unless WorkLimit::MayAllocate or MayMove allows it.
void RequireMemory(double bytes);
void RequireMoves(double bytes);

// Throws std::runtime_error if `value` is too large, too deep, or contains itself. Returns its
// weight.
struct Weight;
Weight RequireBounded(const jinja::value& value);

// Throws std::runtime_error if `needle in haystack` could take too long.
void CheckMembership(const jinja::value& needle, const jinja::value& haystack);

// While it exists, strftime_now returns the same time on this thread, so that a template cannot
// behave differently the second time.
class FixedTime {
 public:
  FixedTime();
  ~FixedTime();
  FixedTime(const FixedTime&) = delete;
  FixedTime& operator=(const FixedTime&) = delete;
};

}  // namespace svc
