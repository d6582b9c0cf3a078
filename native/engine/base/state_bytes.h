// Bytes of a saved state: a part of the cache, or all that a model has of a sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace svc {

// Leaves the elements uninitialized that a vector adds without a value. A state may have gigabytes,
// and clearing them before they are overwritten takes as long as the copy itself.
template <typename T>
struct UninitializedAllocator : std::allocator<T> {
  template <typename Other>
  struct rebind {
    using other = UninitializedAllocator<Other>;
  };

  template <typename Element>
  void construct(Element* element) noexcept {
    ::new (static_cast<void*>(element)) Element;
  }
  template <typename Element, typename... Values>
  void construct(Element* element, Values&&... values) {
    ::new (static_cast<void*>(element)) Element(std::forward<Values>(values)...);
  }
};

using StateBytes = std::vector<std::uint8_t, UninitializedAllocator<std::uint8_t>>;

}  // namespace svc
