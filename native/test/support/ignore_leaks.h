// Leaks of llama.cpp that a test cannot avoid.
#pragma once

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace svc::test {

// While it exists, LeakSanitizer ignores what this thread allocates.
class IgnoreLeaks {
 public:
#ifdef __SANITIZE_ADDRESS__
  IgnoreLeaks() { __lsan_disable(); }
  ~IgnoreLeaks() { __lsan_enable(); }
#else
  IgnoreLeaks() {}
  ~IgnoreLeaks() {}
#endif
  IgnoreLeaks(const IgnoreLeaks&) = delete;
  IgnoreLeaks& operator=(const IgnoreLeaks&) = delete;
};

}  // namespace svc::test
