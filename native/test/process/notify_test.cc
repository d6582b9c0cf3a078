// Notifications to a socket in a file system, to an abstract one, and to sockets that take none.
#include "process/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "child_process.h"
#include "folder.h"
#include "test.h"

namespace svc::process {
namespace {

// A service manager that listens on a socket; a path that begins with '@' is abstract.
class Listener {
 public:
  explicit Listener(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path.front() == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~Listener() { close(socket_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Returns the next datagram; empty: there is none.
  std::string Next() const {
    std::array<char, 256> bytes{};
    const ssize_t size = recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    return size < 0 ? "" : std::string(bytes.data(), static_cast<std::size_t>(size));
  }

 private:
  const int socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

// Path of a socket that is as long as a path may be.
std::string LongestPath(const test::Folder& folder) {
  std::string path = folder.path().string() + "/";
  path.resize(sizeof(sockaddr_un::sun_path) - 1, 's');
  return path;
}

TEST(AMessageIsOneDatagram) {
  const test::Folder folder;
  const std::string name = "@svc-notify-test-" + std::to_string(getpid());
  for (const std::string& path : {(folder.path() / "socket").string(), LongestPath(folder), name}) {
    const Listener listener(path);
    EXPECT_EQ(Notify(path, "READY=1\nSTATUS=ready"), 0);
    EXPECT_EQ(Notify(path, "WATCHDOG=1"), 0);
    EXPECT_EQ(listener.Next(), "READY=1\nSTATUS=ready");
    EXPECT_EQ(listener.Next(), "WATCHDOG=1");
    EXPECT_EQ(listener.Next(), "");
  }
}

TEST(ASocketThatCannotBeReachedIsAnError) {
  const test::Folder folder;
  EXPECT_EQ(Notify("", "READY=1"), EINVAL);
  EXPECT_EQ(Notify(LongestPath(folder) + "s", "READY=1"), EINVAL);
  const std::string path = (folder.path() / "socket").string();
  EXPECT_EQ(Notify(path, "READY=1"), ENOENT);
  { const Listener closed(path); }
  EXPECT_EQ(Notify(path, "READY=1"), ECONNREFUSED);
}

TEST(AListenerThatDoesNotReadBlocksNothing) {
  const test::Folder folder;
  const std::string path = (folder.path() / "socket").string();
  const Listener listener(path);
  const std::string end = test::EndOfChild([&] {
    alarm(60);
    int error = 0;
    while (error == 0) error = Notify(path, "WATCHDOG=1");
    EXPECT_EQ(error, EAGAIN);
  });
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace svc::process

TEST_MAIN()
