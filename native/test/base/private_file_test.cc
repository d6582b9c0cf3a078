// Files of this user alone.
#include "engine/base/private_file.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "folder.h"
#include "test.h"

namespace svc {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const PrivateFile& file) {
  std::string text(file.Size().value_or(0), '\0');
  EXPECT(file.Read(text.data(), text.size()));
  return text;
}

TEST(WhatWasWrittenIsReadByteByByte) {
  const test::Folder folder;
  const fs::path path = folder.path() / "file";
  // Windows would end a text at the first, and write two bytes for the second.
  const std::string text("a\x1a\n\r\n\0b", 7);
  {
    const PrivateFile file = PrivateFile::Create(path);
    EXPECT(file.is_open());
    EXPECT(file.Write("??", 2));
    EXPECT(file.GoTo(0));
    EXPECT(file.Write(text.data(), text.size()));
    EXPECT(file.Flush());
  }
  const PrivateFile file = PrivateFile::OpenToRead(path);
  EXPECT_EQ(file.Size(), std::optional<std::uint64_t>(7));
  EXPECT_EQ(ReadAll(file), text);
  char more = 0;
  EXPECT(!file.Read(&more, 1));
}

TEST(PositionsBeyond4GiB) {
  const test::Folder folder;
  const fs::path path = folder.path() / "file";
  constexpr std::uint64_t kPosition = (std::uint64_t{5} << 30U) + 1;
  {
    const PrivateFile file = PrivateFile::Create(path);
    EXPECT(file.GoTo(kPosition));
    EXPECT(file.Write("x", 1));
  }
  const PrivateFile file = PrivateFile::OpenToRead(path);
  EXPECT_EQ(file.Size(), std::optional<std::uint64_t>(kPosition + 1));
}

TEST(TheModificationTimeIsSetExactlyAlsoBefore1970) {
  const test::Folder folder;
  const fs::path path = folder.path() / "file";
  const std::chrono::system_clock::time_point time =
      std::chrono::sys_days(std::chrono::days(-1)) + std::chrono::milliseconds(1);
  EXPECT(!SetModificationTime(path, time));
  std::ofstream(path) << "x";
  EXPECT(SetModificationTime(path, time));
  const fs::file_time_type found = fs::last_write_time(path);
  EXPECT(SetModificationTime(path, time + std::chrono::milliseconds(2)));
  EXPECT(fs::last_write_time(path) - found == std::chrono::milliseconds(2));
}

TEST(AnExistingFileIsNotReplaced) {
  const test::Folder folder;
  const fs::path path = folder.path() / "file";
  EXPECT(!PrivateFile::OpenToRead(path).is_open());
  std::ofstream(path) << "theirs";
  EXPECT(!PrivateFile::Create(path).is_open());
  EXPECT_EQ(ReadAll(PrivateFile::OpenToRead(path)), "theirs");
}

TEST(FoldersAreMadeWithTheirParents) {
  const test::Folder folder;
  const fs::path inner = folder.path() / "a" / "b";
  EXPECT(MakePrivateFolder(inner));
  EXPECT(fs::is_directory(inner));
  EXPECT(MakePrivateFolder(inner));
  std::ofstream(folder.path() / "file") << "no folder";
  EXPECT(!MakePrivateFolder(folder.path() / "file"));
}

#ifndef _WIN32

TEST(OnlyTheOwnerHasAccessAndLinksAreRefused) {
  const test::Folder folder;
  const fs::path path = folder.path() / "file";
  EXPECT(PrivateFile::Create(path).is_open());
  EXPECT(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  EXPECT(MakePrivateFolder(folder.path() / "inner"));
  EXPECT(fs::status(folder.path() / "inner").permissions() == fs::perms::owner_all);

  fs::create_symlink(path, folder.path() / "link");
  EXPECT(!PrivateFile::OpenToRead(folder.path() / "link").is_open());
  fs::create_directory_symlink(folder.path() / "inner", folder.path() / "link to a folder");
  EXPECT(!MakePrivateFolder(folder.path() / "link to a folder"));
  // A folder can be opened, but has no size.
  EXPECT(!PrivateFile::OpenToRead(folder.path()).Size());
}

#endif

}  // namespace
}  // namespace svc

TEST_MAIN()
