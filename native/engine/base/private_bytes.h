// Memory of this process that its files do not back.
#pragma once

#include <cstdint>
#include <optional>

namespace svc {

// Anonymous and shared memory of this process: not backed by files, so not reclaimable while it
// lives. Absent: this system does not measure it.
std::optional<std::uint64_t> PrivateBytes();

}  // namespace svc
