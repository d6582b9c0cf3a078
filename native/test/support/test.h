// A one-page test framework: TEST(Name) { ... EXPECT(x); EXPECT_EQ(a, b); }. One program per file,
// which ends with TEST_MAIN(). A test name as argument runs only that test.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace svc::test {

// True if built with a sanitizer: everything is slower, and the prebuilt libllama is not checked.
#ifdef SVC_SANITIZE
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// For waits that end early unless something is broken: a busy machine needs minutes for seconds of
// work.
inline constexpr std::chrono::minutes kPatience{5};

struct Case {
  const char* name;
  void (*run)();
};

inline std::vector<Case>& Cases() {
  static std::vector<Case> cases;
  return cases;
}

inline std::atomic<int>& Failures() {
  static std::atomic<int> failures = 0;
  return failures;
}

inline void Fail(const char* file, int line, const std::string& what) {
  ++Failures();
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

template <typename T>
std::string Show(const T& value) {
  if constexpr (requires(std::ostringstream & out) { out << value; }) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else if constexpr (requires { static_cast<int>(value); }) {
    return std::to_string(static_cast<int>(value));
  } else {
    return "?";
  }
}

template <typename Actual, typename Expected>
void ExpectEqual(const char* file, int line, const char* what, const Actual& actual,
                 const Expected& expected) {
  if (actual == expected) return;
  Fail(file, line, std::string(what) + " is " + Show(actual) + ", expected " + Show(expected));
}

inline int Main(int argc, char** argv) {
  int ran = 0;
  for (const Case& test : Cases()) {
    if (argc > 1 && std::strcmp(argv[1], test.name) != 0) continue;
    const int before = Failures();
    test.run();
    ++ran;
    std::printf("%s %s\n", Failures() == before ? "ok  " : "FAIL", test.name);
    std::fflush(stdout);
  }
  std::printf("%d tests, %d failed expectations\n", ran, Failures().load());
  return Failures() == 0 && ran > 0 ? 0 : 1;
}

}  // namespace svc::test

#define TEST(name)                                                                                 \
  static void Test##name();                                                                        \
  static const bool registered_##name = (svc::test::Cases().push_back({#name, Test##name}), true); \
  static void Test##name()

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) svc::test::Fail(__FILE__, __LINE__, "expected " #condition); \
  } while (false)

#define EXPECT_EQ(actual, expected) \
  svc::test::ExpectEqual(__FILE__, __LINE__, #actual, (actual), (expected))

// Fails and ends the test if `condition` is false, because the rest needs it.
#define REQUIRE(condition)                                         \
  do {                                                             \
    if (!(condition)) {                                            \
      svc::test::Fail(__FILE__, __LINE__, "required " #condition); \
      return;                                                      \
    }                                                              \
  } while (false)

#define TEST_MAIN() \
  int main(int argc, char** argv) { return svc::test::Main(argc, argv); }
