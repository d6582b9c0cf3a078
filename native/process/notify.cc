#include "process/notify.h"

#include <cerrno>

#ifndef _WIN32
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#endif

namespace svc::process {

#ifdef _WIN32

int Notify(const std::string& /*path*/, const std::string& /*message*/) { return ENOTSUP; }

#else

int Notify(const std::string& path, const std::string& message) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return EINVAL;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());

  const int sender = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (sender < 0) return errno;
  const ssize_t sent = sendto(sender, message.data(), message.size(), MSG_DONTWAIT,
                              reinterpret_cast<const sockaddr*>(&address), length);
  const int error = sent < 0 ? errno : 0;
  close(sender);
  return error;
}

#endif

}  // namespace svc::process
