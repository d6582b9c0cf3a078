// XXH64 (Yann Collet; xxHash, doc/xxhash_spec.md): a checksum that detects damage at several
// gigabytes per second. Not a defence against forgery; see siphash.h.
#pragma once

#include <cstdint>
#include <span>

namespace svc {

std::uint64_t XxHash64(std::span<const std::uint8_t> bytes, std::uint64_t seed = 0);

}  // namespace svc
