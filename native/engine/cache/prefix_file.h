// File format of one saved prefix: the tokens of a prompt's beginning, and the model's state for
// the last of them.
//
//   | fixed part, 88 bytes | tokens [0, end), 4 bytes each | state of the tokens [begin, end) |
//     contains one tag of itself and the tokens, and one of the state
//
// A file is complete or does not exist: it is written under a temporary name, synced and renamed.
// Only its owner may read it. The tags are message authentication codes (siphash.h) with keys
// derived from this installation's secret. A file that is damaged, truncated, forged or of another
// fingerprint is refused before any of its state is used, because libllama trusts the states that
// it loads. An old file of this installation is accepted wherever it is restored to.
//
// A whole state may have gigabytes. It is read and written in small pieces, and synced every few of
// them, so that another thread can end a read or a write soon.
//
// Numbers are in native byte order. (Files of the other byte order fail the version check.)
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/share.h"
#include "engine/base/siphash.h"
#include "engine/base/state_bytes.h"

namespace svc {

struct PrefixHead {
  std::vector<Token> tokens;  // from position 0 on; not empty
  std::uint32_t begin = 0;    // the state covers [begin, tokens.size()); < tokens.size()
  PrefixScope scope = {};
};

// Hash of the model and everything else that a state depends on (model_fingerprint.h).
using Fingerprint = std::uint64_t;

// What a file must match to be accepted.
struct PrefixSeal {
  Fingerprint fingerprint = 0;
  SipKey key = {};  // the secret of this installation
};

// Writes the file, replacing an existing one. False: it could not be written, or another thread set
// `abandon`; no file is left behind then.
bool WritePrefixFile(const std::filesystem::path& path, const PrefixSeal& seal,
                     const PrefixHead& head, std::span<const std::uint8_t> state,
                     const std::atomic<bool>& abandon);
// Reads the head and checks its tag; the state may still be damaged. Absent: not a file of this
// format and seal.
std::optional<PrefixHead> ReadPrefixHead(const std::filesystem::path& path, const PrefixSeal& seal);
// Reads the state. Absent unless the whole file is intact and has this head, or if another thread
// sets `abandon`. Throws std::bad_alloc.
std::optional<StateBytes> ReadPrefixState(const std::filesystem::path& path, const PrefixSeal& seal,
                                          const PrefixHead& head, const std::atomic<bool>& abandon);

// True for a file of this format with another fingerprint (other settings, or another version of
// the model): it may become usable again.
bool IsOfOtherFingerprint(const std::filesystem::path& path, Fingerprint fingerprint);

// Size of the file, in bytes.
std::uint64_t PrefixFileBytes(const PrefixHead& head, std::uint64_t state_bytes);

// True for the temporary name of a file that is being written, or that a process left behind.
bool IsUnfinishedPrefixFile(const std::filesystem::path& path);

}  // namespace svc
