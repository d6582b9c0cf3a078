// Frees what a template makes without recursion.
//
// Values refer to each other by counted references. One that is nested hundreds of thousands deep
// would overflow the stack when it is freed; one that contains itself would never be freed. So
// while a ValueKeeper exists on a thread, it holds every container that the template makes or
// changes, and cuts their links one by one: now and then of those that nothing else holds, at the
// end of all. A template's inputs are shallow, so they are not held unless the template changes
// them.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "jinja/value.h"

namespace svc {

// One for each rendering, on its thread. An inner one has no effect. Must outlive all contexts.
class ValueKeeper {
 public:
  // collects: frees what is no longer used during the rendering, too.
  explicit ValueKeeper(bool collects);
  ~ValueKeeper();
  ValueKeeper(const ValueKeeper&) = delete;
  ValueKeeper& operator=(const ValueKeeper&) = delete;

  // Holds `value` if it is a list, dictionary, function or keyword argument. Does nothing on a
  // thread without a keeper.
  static void Keep(const jinja::value& value);
  // Holds `value` and its direct parts.
  static void KeepItems(const jinja::value& value);

  // False if a kept value is nested deeper than `max_depth`, or contains itself. Without collecting
  // this holds for every value that was ever made.
  bool IsShallow(std::size_t max_depth) const;

 private:
  struct Kept {
    jinja::value value;
    double bytes = 0;
  };

  bool Add(const jinja::value& value);
  void Collect();

  const bool is_inner_;
  std::unordered_map<const jinja::value_t*, Kept> kept_;
  double kept_bytes_ = 0;
  double collect_at_bytes_;
};

}  // namespace svc
