// A share: the client that a request belongs to (an API key, an address, or the control socket).
//
// Fairness divides tokens among shares (fair_queue.h). A cached prefix counts as cached only for
// the share that sent it; otherwise `cached_tokens` would reveal to one client what another one
// asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/siphash.h"

namespace svc {

// Keyed hash of the share's name; 0: no name was given.
using ShareId = std::uint64_t;

ShareId ShareIdOf(const SipKey& key, const std::string& name);

// Scope of a prompt in the prefix cache, in memory and on the disk.
struct PrefixScope {
  ShareId salt = 0;   // prefixes are reused only within one salt; 0: common to all shares
  ShareId owner = 0;  // the share that sent the prompt
};

// An adapter that a prompt is computed with.
struct ScopedAdapter {
  std::uint64_t fingerprint = 0;  // of its file
  float scale = 0;
};
// The salt of prompts that are computed with these adapters, in any order; without adapters `salt`.
// Their cached prefixes are those of another model.
ShareId SaltWith(const SipKey& key, ShareId salt, std::vector<ScopedAdapter> adapters);

}  // namespace svc
