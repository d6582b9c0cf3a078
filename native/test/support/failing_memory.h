// Allocations that fail on demand. Include it in one file of a program: it replaces operator new.
// It replaces every form of `new` that `delete` may free: AddressSanitizer has each form of its own
// and takes memory that one of them allocated and ours frees for an error.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace svc::test {

// Allocations until one fails; negative: none fails.
inline std::atomic<int> allocations_left = -1;
inline thread_local bool has_sure_memory = false;

// While alive, this thread's allocations do not fail and are not counted.
class SureMemory {
 public:
  SureMemory() { has_sure_memory = true; }
  ~SureMemory() { has_sure_memory = before_; }
  SureMemory(const SureMemory&) = delete;
  SureMemory& operator=(const SureMemory&) = delete;

 private:
  const bool before_ = has_sure_memory;
};

// While alive, one allocation of another thread fails, after `count` others. One at a time.
class FailingMemory {
 public:
  explicit FailingMemory(int count) { allocations_left = count; }
  ~FailingMemory() { allocations_left = -1; }
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  bool has_failed() const { return allocations_left < 0; }

 private:
  const SureMemory sure_;
};

}  // namespace svc::test

// Not inlined: the compiler would warn that what `new` returns is freed by another function.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  using svc::test::allocations_left;
  if (!svc::test::has_sure_memory && allocations_left >= 0 && allocations_left-- == 0) {
    return nullptr;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept {
  std::free(memory);
}
