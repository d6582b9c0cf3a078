// The allocator's habits, on systems with glibc; elsewhere these functions do nothing.
#pragma once

namespace svc {

// From now on each block of 1 MiB or more (weights, cache, logits) has a mapping of its own, so
// that freeing it gives its memory back. By default glibc puts larger and larger blocks into its
// heaps, up to 32 MiB, once one of that size was freed: what a load leaves behind then keeps a
// tenth or more of a small model's memory. Any thread.
void MapLargeBlocks();

// Gives the free pages of all heaps back, for which it visits every free block. Any thread.
void TrimHeaps();

}  // namespace svc
