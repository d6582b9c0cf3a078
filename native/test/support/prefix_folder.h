// Loops whose prefix cache has a disk tier in a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "engine/run/loop.h"
#include "folder.h"
#include "test.h"

namespace svc::test {

inline constexpr std::uint64_t kAmpleBytes = 1U << 30U;

inline std::unique_ptr<PrefixStore> Open(const Folder& folder, bool divisible = true,
                                         std::uint64_t max_bytes = kAmpleBytes) {
  return PrefixStore::Open({.folder = folder.path(),
                            .model = "fake",
                            .seal = {.fingerprint = 1, .key = {5, 6}},
                            .max_bytes = max_bytes,
                            .divisible = divisible});
}

inline LoopOptions On(const Folder& folder, bool divisible = true) {
  LoopOptions options;
  options.store = Open(folder, divisible);
  return options;
}

// Waits until it holds, for example until the store has written. False: it did not hold in time.
inline bool Eventually(const std::function<bool()>& holds) {
  const auto end = Clock::now() + test::kPatience;
  while (!holds() && Clock::now() < end) std::this_thread::yield();
  return holds();
}

}  // namespace svc::test
