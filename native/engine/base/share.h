// The client that a request belongs to: an API key, an address, or the control socket.
//
// Tokens are divided between shares (fair_queue.h), and a prefix that is cached counts as cached
// only for the share whose prompt it was: otherwise `cached_tokens` would tell one client what
// another one asked.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/siphash.h"

namespace svc {

// Keyed hash of the caller's name for a share; 0: no name was given.
using ShareId = std::uint64_t;

ShareId ShareIdOf(const SipKey& key, const std::string& name);

// Scope of a prompt in the prefix cache, in memory and on the disk.
struct PrefixScope {
  ShareId salt = 0;   // prefixes are reused only within one salt; 0: the one that all share
  ShareId owner = 0;  // the share whose prompt it is
};

}  // namespace svc
