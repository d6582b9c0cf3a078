// What freed blocks leave behind.
#include "engine/base/heap.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/private_bytes.h"
#include "test.h"

namespace svc {
namespace {

using Blocks = std::vector<std::unique_ptr<char[]>>;

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kTotal = 120 * kMiB;

// Written blocks of `bytes` each, kTotal together.
Blocks Take(std::size_t bytes) {
  Blocks blocks;
  for (std::size_t taken = 0; taken < kTotal; taken += bytes) {
    blocks.push_back(std::make_unique_for_overwrite<char[]>(bytes));
    std::memset(blocks.back().get(), 1, bytes);
  }
  return blocks;
}

// Sanitizers have their own allocators, other systems do not measure it.
#if defined(__GLIBC__) && !defined(SVC_SANITIZE)

// What the rest of the process may take or free meanwhile.
constexpr std::int64_t kNoise = 16 * kMiB;

std::int64_t Held() { return static_cast<std::int64_t>(PrivateBytes().value_or(0)); }

TEST(LargeBlocksLeaveNothingBehind) {
  MapLargeBlocks();
  constexpr std::size_t kLarge = 30 * kMiB;
  Take(kLarge);  // by default, freed blocks of this size make the next ones a part of the heap
  const std::int64_t before = Held();
  Blocks blocks = Take(kLarge);
  EXPECT(Held() - before > static_cast<std::int64_t>(kTotal) - kNoise);
  const Blocks last = Take(kTotal / 1024);  // lies behind them, so that the heap cannot shrink
  const std::int64_t with_last = Held();
  blocks.clear();
  EXPECT(with_last - Held() > static_cast<std::int64_t>(kTotal) - kNoise);
}

TEST(TrimmedHeapsHoldNoFreePages) {
  constexpr std::size_t kSmall = 64 << 10U;
  const std::int64_t before = Held();
  Blocks blocks = Take(kSmall);
  const auto last = std::make_unique<char[]>(kSmall);  // so that the heap cannot shrink
  blocks.clear();
  EXPECT(Held() - before > static_cast<std::int64_t>(kTotal) - kNoise);
  TrimHeaps();
  EXPECT(Held() - before < kNoise);
}

#else

TEST(OtherAllocatorsAreLeftAlone) {
  MapLargeBlocks();
  const Blocks blocks = Take(kMiB);
  TrimHeaps();
  EXPECT_EQ(blocks.front()[0], 1);
}

#endif

}  // namespace
}  // namespace svc

TEST_MAIN()
