// Memory at an address as weights and scratch memory have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace svc::test {

class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size)
      : bytes_(static_cast<std::uint8_t*>(::operator new (size, std::align_val_t{kAlignment}))) {}
  ~AlignedBytes() { ::operator delete (bytes_, std::align_val_t{kAlignment}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;

  std::uint8_t* data() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 64;

  std::uint8_t* const bytes_;
};

}  // namespace svc::test
