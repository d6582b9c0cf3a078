// One saved prefix in a file: the tokens of a prompt's beginning, and the state of the model's
// memory for the last of them.
//
//   | fixed part, 88 bytes | tokens [0, end), 4 bytes each | state of the tokens [begin, end) |
//     with a tag of itself and the tokens, and one of the state
//
// A file is whole or it is not there: it is written under another name, brought to the disk and
// renamed. Only its owner may read it. The tags are message authentication codes (siphash.h) with
// keys that only this installation has. A file that is damaged, cut short, forged or of another
// fingerprint is refused before any of the state is passed on, because libllama trusts the states
// that it is given. An old file that was made here is accepted wherever it is put back.
//
// Numbers are in the byte order of the machine; on another one the magic number is wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/request.h"
#include "engine/base/share.h"
#include "engine/base/siphash.h"

namespace svc {

using StateBytes = std::vector<std::uint8_t>;

struct PrefixHead {
  std::vector<Token> tokens;  // from the first on; not empty
  std::uint32_t begin = 0;    // the state is of those from here; < tokens.size()
  PrefixScope scope = {};
};

// Of the model and all else that a state depends on.
using Fingerprint = std::uint64_t;

// What a file must match to be read.
struct PrefixSeal {
  Fingerprint fingerprint = 0;
  SipKey key = {};  // the secret of this installation
};

// Replaces the file if there is one. False: it could not be written, or `abandon` was set by
// another thread meanwhile; nothing is left behind then.
bool WritePrefixFile(const std::filesystem::path& path, const PrefixSeal& seal,
                     const PrefixHead& head, std::span<const std::uint8_t> state,
                     const std::atomic<bool>& abandon);
// Without the state, which may still be damaged. Absent: not a file of this kind and seal.
std::optional<PrefixHead> ReadPrefixHead(const std::filesystem::path& path, const PrefixSeal& seal);
// The state, if the whole file is as it was written and is that of `head`.
std::optional<StateBytes> ReadPrefixState(const std::filesystem::path& path, const PrefixSeal& seal,
                                          const PrefixHead& head);

// A file of this kind, made with other settings or another version of the model: somebody may come
// back to them.
bool IsOfOtherFingerprint(const std::filesystem::path& path, Fingerprint fingerprint);

// What a file takes on the disk.
std::uint64_t PrefixFileBytes(const PrefixHead& head, std::uint64_t state_bytes);

// The name under which a file is being written, which its owner may have left behind.
bool IsUnfinishedPrefixFile(const std::filesystem::path& path);

}  // namespace svc
