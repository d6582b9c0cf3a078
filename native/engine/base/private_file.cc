#include "engine/base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#ifdef _WIN32
#include <direct.h>
#include <io.h>
#endif

namespace svc {
namespace {

namespace fs = std::filesystem;

// Maximum bytes of one call; Windows takes no more than 31 bits.
constexpr std::size_t kMostBytes = std::size_t{1} << 30U;

#ifdef _WIN32

// Other users cannot enter the folder of this user's files: there are no modes.
int Open(const fs::path& path, int flags) {
  return _wopen(path.c_str(), flags | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
}
int MakeFolder(const fs::path& path) { return _wmkdir(path.c_str()); }
int Sync(int descriptor) { return _commit(descriptor); }

#else

int Open(const fs::path& path, int flags) {
  return open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
}
int MakeFolder(const fs::path& path) { return mkdir(path.c_str(), S_IRWXU); }
int Sync(int descriptor) { return fsync(descriptor); }

#endif

// Calls `some` (read or write) until it has taken `size` bytes.
template <typename Byte, typename Call>
bool All(Byte* at, std::size_t size, const Call& some) {
  while (size > 0) {
    const auto count = some(at, static_cast<unsigned>(std::min(size, kMostBytes)));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

PrivateFile PrivateFile::OpenToRead(const fs::path& path) {
  return PrivateFile(Open(path, O_RDONLY));
}

PrivateFile PrivateFile::Create(const fs::path& path) {
  return PrivateFile(Open(path, O_WRONLY | O_CREAT | O_EXCL));
}

PrivateFile::~PrivateFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::optional<std::uint64_t> PrivateFile::Size() const {
  struct stat found {};
  if (fstat(descriptor_, &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return static_cast<std::uint64_t>(found.st_size);
}

bool PrivateFile::Read(void* data, std::size_t size) const {
  return All(static_cast<std::uint8_t*>(data), size,
             [this](void* at, unsigned count) { return read(descriptor_, at, count); });
}

bool PrivateFile::Write(const void* data, std::size_t size) const {
  return All(static_cast<const std::uint8_t*>(data), size,
             [this](const void* at, unsigned count) { return write(descriptor_, at, count); });
}

bool PrivateFile::GoTo(std::uint64_t position) const {
  return lseek(descriptor_, static_cast<off_t>(position), SEEK_SET) >= 0;
}

bool PrivateFile::Flush() const { return Sync(descriptor_) == 0; }

#ifdef _WIN32

bool SetModificationTime(const fs::path& path, std::chrono::system_clock::time_point time) {
  std::error_code error;
  fs::last_write_time(path, std::chrono::file_clock::from_sys(time), error);
  return !error;
}

#else

bool SetModificationTime(const fs::path& path, std::chrono::system_clock::time_point time) {
  const int descriptor = Open(path, O_RDONLY);
  if (descriptor < 0) return false;
  const auto since_epoch = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const std::chrono::nanoseconds rest = since_epoch - seconds;
  timespec modified{};
  modified.tv_sec = static_cast<time_t>(seconds.count());
  modified.tv_nsec = static_cast<long>(rest.count());
  const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, modified};
  const bool is_set = futimens(descriptor, times) == 0;
  close(descriptor);
  return is_set;
}

#endif

bool MakePrivateFolder(const fs::path& folder) {
  std::error_code error;
  if (const fs::path parent = folder.parent_path();
      parent != folder && !fs::exists(parent, error)) {
    MakePrivateFolder(parent);
  }
  if (MakeFolder(folder) == 0) return true;
  return fs::symlink_status(folder, error).type() == fs::file_type::directory;
}

}  // namespace svc
