// Settings of glibc's allocator; elsewhere these functions do nothing.
#pragma once

namespace svc {

// Turns off glibc's dynamic mmap threshold: from now on each block of 1 MiB or more (weights,
// cache, logits) is mapped by itself and returned to the system when freed. By default the
// threshold rises to the largest block freed so far (up to 32 MiB), and smaller blocks stay in the
// heaps: an engine with a small model used up to a fifth more. Any thread.
void MapLargeBlocks();

// Returns free pages of all heaps to the system. Slow: visits every free block. Any thread.
void TrimHeaps();

}  // namespace svc
