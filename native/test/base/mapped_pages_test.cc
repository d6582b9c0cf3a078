// Pages of mapped files: which leave the process's memory, and which stay.
#include "engine/base/mapped_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "folder.h"
#include "test.h"

namespace svc {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 18U;

// A mapping of a whole file of kBytes bytes.
class Mapping {
 public:
  Mapping(const std::filesystem::path& path, int access, int kind) {
    const int file = open(path.c_str(), (access & PROT_WRITE) != 0 ? O_RDWR : O_RDONLY);
    void* const data = mmap(nullptr, kBytes, access, kind, file, 0);
    close(file);
    if (data != MAP_FAILED) data_ = static_cast<unsigned char*>(data);
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, kBytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  unsigned char* data() const { return data_; }
  // Reads all pages.
  unsigned Sum() const {
    const volatile unsigned char* const bytes = data_;
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBytes; ++i) sum += bytes[i];
    return sum;
  }

  // KiB of the mapping that are in the process's memory.
  std::uint64_t Resident() const {
    std::ifstream maps("/proc/self/smaps");
    bool is_this = false;
    for (std::string line; std::getline(maps, line);) {
      std::istringstream fields(line);
      std::uintptr_t begin = 0;
      std::uintptr_t end = 0;
      char dash = 0;
      if (fields >> std::hex >> begin >> dash >> end && dash == '-') {
        const auto at = reinterpret_cast<std::uintptr_t>(data_);
        is_this = begin <= at && at < end;
      } else if (is_this && line.starts_with("Rss:")) {
        return std::stoull(line.substr(4));
      }
    }
    return 0;
  }

 private:
  unsigned char* data_ = nullptr;
};

std::filesystem::path FileOfBytes(const test::Folder& folder, const std::string& name) {
  const std::filesystem::path path = folder.path() / name;
  std::string bytes(kBytes, '\0');
  for (std::size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<char>(i * 7 + i / 4096);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(WithNothingMappedItDoesNothing) { ForgetMappedPages(); }

#ifdef __linux__
TEST(FilesMappedSharedAndReadOnlyLeaveTheMemoryAndComeBack) {
  const test::Folder folder;
  // A name as in /proc/self/maps, where it stands behind the other fields.
  for (const char* name : {"model.gguf", "a name with r--p in it"}) {
    const Mapping mapping(FileOfBytes(folder, name), PROT_READ, MAP_SHARED);
    REQUIRE(mapping.data() != nullptr);
    const unsigned sum = mapping.Sum();
    EXPECT_EQ(mapping.Resident(), kBytes / 1024);
    ForgetMappedPages();
    EXPECT_EQ(mapping.Resident(), 0U);
    EXPECT_EQ(mapping.Sum(), sum);
    EXPECT_EQ(mapping.Resident(), kBytes / 1024);
  }
}

TEST(AllOfSeveralMappingsLeave) {
  const test::Folder folder;
  const auto path = FileOfBytes(folder, "a");
  const Mapping first(path, PROT_READ, MAP_SHARED);
  const Mapping second(path, PROT_READ, MAP_SHARED);
  const Mapping other(FileOfBytes(folder, "b"), PROT_READ, MAP_SHARED);
  for (const Mapping* each : {&first, &second, &other}) {
    REQUIRE(each->data() != nullptr);
    (void)each->Sum();
    EXPECT(each->Resident() > 0);
  }
  ForgetMappedPages();
  for (const Mapping* each : {&first, &second, &other}) EXPECT_EQ(each->Resident(), 0U);
}

// A device's pages need not come back, and no path leads to a memfd: a driver may have made both.
// Each byte is written first: some kernels count no page that was only read.
TEST(MappingsOfDevicesAndNamelessFilesStay) {
  const std::string bytes(kBytes, 'a');
  const Mapping device("/dev/zero", PROT_READ | PROT_WRITE, MAP_SHARED);
  REQUIRE(device.data() != nullptr);
  std::ranges::copy(bytes, device.data());
  REQUIRE(mprotect(device.data(), kBytes, PROT_READ) == 0);
  const int file = memfd_create("a", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(write(file, bytes.data(), kBytes) == static_cast<ssize_t>(kBytes));
  const Mapping nameless("/proc/self/fd/" + std::to_string(file), PROT_READ, MAP_SHARED);
  close(file);
  for (const Mapping* each : {&device, &nameless}) {
    REQUIRE(each->data() != nullptr);
    (void)each->Sum();
    const std::uint64_t before = each->Resident();
    EXPECT(before > 0);
    ForgetMappedPages();
    EXPECT_EQ(each->Resident(), before);
  }
}

// Code, its data, and files that the process writes to.
TEST(OtherMappingsStay) {
  const test::Folder folder;
  const auto path = FileOfBytes(folder, "a");
  const Mapping code(path, PROT_READ, MAP_PRIVATE);
  const Mapping data(path, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  const Mapping written(FileOfBytes(folder, "b"), PROT_READ | PROT_WRITE, MAP_SHARED);
  for (const Mapping* each : {&code, &data, &written}) {
    REQUIRE(each->data() != nullptr);
    (void)each->Sum();
  }
  const auto changed = static_cast<unsigned char>(data.data()[5000] + 1);
  data.data()[5000] = changed;
  written.data()[5000] = changed;
  ForgetMappedPages();
  for (const Mapping* each : {&code, &data, &written}) EXPECT(each->Resident() > 0);
  EXPECT_EQ(data.data()[5000], changed);
  EXPECT_EQ(written.data()[5000], changed);
}
#endif

}  // namespace
}  // namespace svc

TEST_MAIN()
