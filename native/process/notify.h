// The protocol of sd_notify(3): one datagram to the socket that NOTIFY_SOCKET names.
#pragma once

#include <string>

namespace svc::process {

// Sends `message` to the socket at `path`; a leading '@' means an abstract socket. Never blocks.
// Returns 0 or an errno; ENOTSUP on Windows.
int Notify(const std::string& path, const std::string& message);

}  // namespace svc::process
