// Files and folders of this user alone, on POSIX systems and on Windows. Thread: any; an object
// belongs to one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace svc {

// Owns an open file. A symbolic link at the end of its path is not followed, except on Windows.
class PrivateFile {
 public:
  static PrivateFile OpenToRead(const std::filesystem::path& path);
  // Creates a file that nobody else may read. Not open if there is one of that name.
  static PrivateFile Create(const std::filesystem::path& path);
  ~PrivateFile();
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  // In bytes; absent if it is not a regular file.
  std::optional<std::uint64_t> Size() const;
  // These continue from the current position. False: fewer bytes were read or written.
  bool Read(void* data, std::size_t size) const;
  bool Write(const void* data, std::size_t size) const;
  bool GoTo(std::uint64_t position) const;
  // Returns when the disk has what was written.
  bool Flush() const;

 private:
  explicit PrivateFile(int descriptor) : descriptor_(descriptor) {}

  const int descriptor_;
};

// Sets the modification time of a file of this user, on POSIX systems of the open file: the sandbox
// of an engine process refuses to do that by path. False: it was not set.
bool SetModificationTime(const std::filesystem::path& path,
                         std::chrono::system_clock::time_point time);

// Creates the folder and its parents, accessible to the owner only. False if it cannot be created,
// or the path is not a folder itself (a symbolic link is refused).
bool MakePrivateFolder(const std::filesystem::path& folder);

}  // namespace svc
