// What a fingerprint depends on: the file's size, time and bytes, and the version.
#include "engine/cache/model_fingerprint.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "folder.h"
#include "test.h"

namespace svc {
namespace {

namespace fs = std::filesystem;

// Files of this size and smaller are read whole.
constexpr std::size_t kReadWhole = std::size_t{1} << 20U;

// A file whose time stays the same whatever is written to it.
class FixedFile {
 public:
  explicit FixedFile(const std::string& bytes) { Put(bytes); }

  void Put(const std::string& bytes) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
    fs::last_write_time(path(), at_);
  }
  void Change(std::size_t at) {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('x');
    file.close();
    fs::last_write_time(path(), at_);
  }
  void SetTime(std::chrono::seconds later) { fs::last_write_time(path(), at_ + later); }
  Fingerprint Read(const std::string& version = "1") const {
    return FingerprintOf(path(), version);
  }
  std::string path() const { return folder_.path() / "model"; }

 private:
  const test::Folder folder_;
  const fs::file_time_type at_ = fs::file_time_type::clock::now();
};

TEST(ItStaysTheSameWhileTheFileAndTheVersionDo) {
  FixedFile file(std::string(3'000'000, 'm'));
  const Fingerprint first = file.Read();
  EXPECT_EQ(file.Read(), first);
  file.Put(std::string(3'000'000, 'm'));
  EXPECT_EQ(file.Read(), first);
  // The name is not part of it.
  const FixedFile empty("");
  const std::string moved = empty.path() + "-moved";
  fs::copy_file(file.path(), moved);
  fs::last_write_time(moved, fs::last_write_time(file.path()));
  EXPECT_EQ(FingerprintOf(moved, "1"), first);
}

TEST(SizeTimeAndVersionChangeIt) {
  FixedFile file(std::string(3'000'000, 'm'));
  std::set<Fingerprint> seen = {file.Read(), file.Read(""), file.Read("2"), file.Read("1\n")};
  EXPECT_EQ(seen.size(), 4U);
  file.SetTime(std::chrono::seconds(-1));
  EXPECT(seen.insert(file.Read()).second);
  file.SetTime(std::chrono::seconds(1));
  EXPECT(seen.insert(file.Read()).second);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4095},
                                 std::size_t{4096}, std::size_t{4097}, std::size_t{3'000'001}}) {
    file.Put(std::string(size, 'm'));
    EXPECT(seen.insert(file.Read()).second);
  }
}

TEST(EveryByteOfASmallFileChangesIt) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{4096},
                                 std::size_t{5000}, kReadWhole - 1, kReadWhole}) {
    const std::string bytes(size, 'm');
    FixedFile file(bytes);
    const Fingerprint first = file.Read();
    // No divisor of a sample's size, so that all places in samples are tried.
    for (std::size_t at = 0; at < size; at += std::max<std::size_t>(1, size / 331)) {
      file.Change(at);
      EXPECT(file.Read() != first);
      file.Put(bytes);
    }
    file.Change(size - 1);
    EXPECT(file.Read() != first);
  }
}

TEST(SamplesOfALargeFileReachFromItsFirstByteToItsLast) {
  const std::size_t size = 16 * kReadWhole + 12'345;
  FixedFile file(std::string(size, 'm'));
  std::set<Fingerprint> seen = {file.Read()};
  for (const std::size_t at : {std::size_t{0}, std::size_t{4095}, size - 4096, size - 1}) {
    file.Change(at);
    EXPECT(seen.insert(file.Read()).second);
  }
  // No long part of it is left out.
  for (std::size_t begin = 100'000; begin + 65'536 < size; begin += 1'600'000) {
    for (std::size_t at = begin; at < begin + 65'536; at += 4096) file.Change(at);
    EXPECT(seen.insert(file.Read()).second);
  }
}

TEST(WithoutAFileTheVersionIsLeft) {
  const test::Folder folder;
  const std::string none = folder.path() / "none";
  EXPECT_EQ(FingerprintOf(none, "1"), FingerprintOf(none, "1"));
  EXPECT(FingerprintOf(none, "1") != FingerprintOf(none, "2"));
  EXPECT_EQ(FingerprintOf("", "1"), FingerprintOf(none, "1"));
  const FixedFile empty("");
  EXPECT(empty.Read() != FingerprintOf(none, "1"));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
