#include "engine/base/heap.h"

#ifdef __linux__
#include <malloc.h>
#endif

namespace svc {

void MapLargeBlocks() {
#ifdef __GLIBC__
  constexpr int kLargeBytes = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargeBytes);
#endif
}

void TrimHeaps() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace svc
