// Which memory of the process counts as its own.
#include "engine/base/private_bytes.h"

#ifdef __linux__
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>

#include "folder.h"
#endif
#include "test.h"

namespace svc {
namespace {

#ifdef __linux__

constexpr std::uint64_t kBytes = std::uint64_t{64} << 20U;
// What the rest of the process may take or free meanwhile. The kernel counts some pages late, and
// a sanitizer has notes on each mapping.
constexpr std::uint64_t kNoise = std::uint64_t{16} << 20U;

// Growth of PrivateBytes() by a mapping once all its bytes are touched, and by what stays when it
// is gone.
struct Growth {
  std::int64_t mapped = 0;
  std::int64_t left = 0;
};

template <typename Touch>
Growth GrowthBy(int access, int kind, int file, Touch touch) {
  const auto measure = [] { return static_cast<std::int64_t>(PrivateBytes().value_or(0)); };
  const std::int64_t before = measure();
  void* const data = mmap(nullptr, kBytes, access, kind, file, 0);
  if (data == MAP_FAILED) {
    test::Fail(__FILE__, __LINE__, "no mapping");
    return {};
  }
  touch(static_cast<unsigned char*>(data));
  Growth growth;
  growth.mapped = measure() - before;
  munmap(data, kBytes);
  growth.left = measure() - before;
  return growth;
}

// ThreadSanitizer has shadow memory for each access, and that is private memory, too.
#define UNSEEN_BY_THREAD_SANITIZER __attribute__((no_sanitize("thread"), noinline))

constexpr std::size_t kPage = 4096;

UNSEEN_BY_THREAD_SANITIZER void Write(volatile unsigned char* data) {
  for (std::size_t i = 0; i < kBytes; i += kPage) data[i] = 1;
}

UNSEEN_BY_THREAD_SANITIZER void Read(const volatile unsigned char* data) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < kBytes; i += kPage) sum += data[i];
  EXPECT_EQ(sum, 0U);
}

bool IsNear(std::int64_t bytes, std::uint64_t expected) {
  const auto difference = bytes - static_cast<std::int64_t>(expected);
  const auto noise = static_cast<std::int64_t>(kNoise);
  return -noise < difference && difference < noise;
}

TEST(MemoryThatIsWrittenCountsUntilItIsFreed) {
  REQUIRE(PrivateBytes().has_value());
  EXPECT(*PrivateBytes() > 0);
  for (const int kind : {MAP_PRIVATE, MAP_SHARED}) {
    const Growth growth = GrowthBy(PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, Write);
    EXPECT(IsNear(growth.mapped, kBytes));
    EXPECT(IsNear(growth.left, 0));
  }
}

TEST(MemoryThatIsOnlyReservedDoesNotCount) {
  const Growth growth = GrowthBy(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                                 [](const unsigned char*) {});
  EXPECT(IsNear(growth.mapped, 0));
}

TEST(AFileCountsOnlyWhereACopyOfItIsWritten) {
  const test::Folder folder;
  const std::filesystem::path path = folder.path() / "file";
  std::ofstream(path, std::ios::binary) << "";
  std::filesystem::resize_file(path, kBytes);
  const int file = open(path.c_str(), O_RDONLY);
  REQUIRE(file >= 0);
  const Growth copied = GrowthBy(PROT_READ | PROT_WRITE, MAP_PRIVATE, file, Write);
  EXPECT(IsNear(copied.mapped, kBytes));
  EXPECT(IsNear(copied.left, 0));
  // A file in a tmpfs is shared memory.
  struct statfs system {};
  REQUIRE(fstatfs(file, &system) == 0);
  const bool is_memory = system.f_type == TMPFS_MAGIC;
  EXPECT(is_memory || IsNear(GrowthBy(PROT_READ, MAP_SHARED, file, Read).mapped, 0));
  close(file);
}

#else

TEST(OtherSystemsDoNotMeasureIt) { EXPECT(!PrivateBytes().has_value()); }

#endif

}  // namespace
}  // namespace svc

TEST_MAIN()
