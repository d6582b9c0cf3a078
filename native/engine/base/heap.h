// The allocator's habits, on systems with glibc; elsewhere these functions do nothing.
#pragma once

namespace svc {

// From now on each block of 1 MiB or more (weights, cache, logits) has a mapping of its own, and
// its memory goes back to the system when it is freed. By default, glibc does so only for blocks
// larger than any that was freed before (up to 32 MiB). Others lie in its heaps, where freed memory
// stays: an engine with a small model held up to a fifth more. Any thread.
void MapLargeBlocks();

// Gives the free pages of all heaps back, for which it visits every free block. Any thread.
void TrimHeaps();

}  // namespace svc
