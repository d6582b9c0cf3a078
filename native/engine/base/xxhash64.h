// XXH64, Yann Collet's checksum (xxHash, doc/xxhash_spec.md): tells damage, several gigabytes a
// second. It is no defence against somebody who forges.
#pragma once

#include <cstdint>
#include <span>

namespace svc {

std::uint64_t XxHash64(std::span<const std::uint8_t> bytes, std::uint64_t seed = 0);

}  // namespace svc
