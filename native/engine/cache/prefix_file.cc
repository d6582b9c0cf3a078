#include "engine/cache/prefix_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <system_error>

#include "engine/base/private_file.h"

namespace svc {
namespace {

constexpr std::array<char, 8> kMagic = {'s', 'v', 'c', 'p', 'r', 'f', 'x', '\n'};
constexpr std::uint32_t kVersion = 2;
constexpr const char* kUnfinished = ".unfinished";
// Sanity limit: more tokens than any context has.
constexpr std::uint32_t kMostTokens = 1U << 24U;
// Bytes between two checks of the abandon flag. A multiple of 8, see SipHasher.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;
// Maximum bytes that one sync waits for.
constexpr std::size_t kSyncBytes = std::size_t{64} << 20U;

struct Fixed {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t begin = 0;
  std::uint32_t tokens = 0;
  std::uint32_t unused = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t salt = 0;
  std::uint64_t owner = 0;
  std::uint64_t state_bytes = 0;
  SipTag state_tag = {};
  SipTag head_tag = {};  // of all fields before it, and of the tokens
};
static_assert(sizeof(Fixed) == 88);

std::span<const std::uint8_t> BytesOf(const std::vector<Token>& tokens) {
  return {reinterpret_cast<const std::uint8_t*>(tokens.data()), tokens.size() * sizeof(Token)};
}

SipTag HeadTag(const PrefixSeal& seal, const Fixed& fixed, const std::vector<Token>& tokens) {
  SipHasher hasher(DeriveKey(seal.key, "prefix head"));
  hasher.Add({reinterpret_cast<const std::uint8_t*>(&fixed), offsetof(Fixed, head_tag)});
  hasher.Add(BytesOf(tokens));
  return hasher.Finish();
}

SipHasher StateHasher(const PrefixSeal& seal) {
  return SipHasher(DeriveKey(seal.key, "prefix state"));
}

// Reads the head of an open file; the file offset is then at the state.
std::optional<PrefixHead> ReadHead(const PrivateFile& file, const PrefixSeal& seal, Fixed* fixed) {
  if (!file.is_open()) return std::nullopt;
  const std::optional<std::uint64_t> size = file.Size();
  if (!size || !file.Read(fixed, sizeof *fixed)) return std::nullopt;
  if (fixed->magic != kMagic || fixed->version != kVersion ||
      fixed->fingerprint != seal.fingerprint || fixed->tokens > kMostTokens ||
      fixed->begin >= fixed->tokens) {
    return std::nullopt;
  }
  const std::uint64_t before = sizeof *fixed + std::uint64_t{fixed->tokens} * sizeof(Token);
  if (*size < before || *size - before != fixed->state_bytes) return std::nullopt;
  PrefixHead head{.tokens = std::vector<Token>(fixed->tokens),
                  .begin = fixed->begin,
                  .scope = {.salt = fixed->salt, .owner = fixed->owner}};
  if (!file.Read(head.tokens.data(), BytesOf(head.tokens).size())) return std::nullopt;
  if (HeadTag(seal, *fixed, head.tokens) != fixed->head_tag) return std::nullopt;
  return head;
}

// Reads the state into `state`. Absent: it ends too early, or was abandoned; else its tag.
std::optional<SipTag> ReadState(const PrivateFile& file, const PrefixSeal& seal,
                                std::span<std::uint8_t> state, const std::atomic<bool>& abandon) {
  SipHasher hasher = StateHasher(seal);
  while (!state.empty()) {
    const auto piece = state.first(std::min(state.size(), kPieceBytes));
    if (abandon || !file.Read(piece.data(), piece.size())) return std::nullopt;
    hasher.Add(piece);
    state = state.subspan(piece.size());
  }
  return hasher.Finish();
}

// Writes the state and syncs most of it. Absent: it failed, or was abandoned; else its tag.
std::optional<SipTag> WriteState(const PrivateFile& file, const PrefixSeal& seal,
                                 std::span<const std::uint8_t> state,
                                 const std::atomic<bool>& abandon) {
  SipHasher hasher = StateHasher(seal);
  std::size_t unsynced = 0;
  while (!state.empty()) {
    const auto piece = state.first(std::min(state.size(), kPieceBytes));
    if (abandon || !file.Write(piece.data(), piece.size())) return std::nullopt;
    hasher.Add(piece);
    state = state.subspan(piece.size());
    unsynced += piece.size();
    if (unsynced < kSyncBytes) continue;
    if (!file.Flush()) return std::nullopt;
    unsynced = 0;
  }
  return hasher.Finish();
}

// Writes all of the file. `fixed`: without the tags.
bool WriteAll(const PrivateFile& file, const PrefixSeal& seal, Fixed fixed,
              const std::vector<Token>& tokens, std::span<const std::uint8_t> state,
              const std::atomic<bool>& abandon) {
  // The fixed part last, because it has the tag of the state.
  if (!file.GoTo(sizeof fixed)) return false;
  if (abandon || !file.Write(tokens.data(), BytesOf(tokens).size())) return false;
  const std::optional<SipTag> tag = WriteState(file, seal, state, abandon);
  if (!tag) return false;
  fixed.state_tag = *tag;
  fixed.head_tag = HeadTag(seal, fixed, tokens);
  return file.GoTo(0) && file.Write(&fixed, sizeof fixed) && file.Flush();
}

}  // namespace

bool WritePrefixFile(const std::filesystem::path& path, const PrefixSeal& seal,
                     const PrefixHead& head, std::span<const std::uint8_t> state,
                     const std::atomic<bool>& abandon) {
  Fixed fixed;
  fixed.begin = head.begin;
  fixed.tokens = static_cast<std::uint32_t>(head.tokens.size());
  fixed.fingerprint = seal.fingerprint;
  fixed.salt = head.scope.salt;
  fixed.owner = head.scope.owner;
  fixed.state_bytes = state.size();

  static std::atomic<unsigned> count = 0;
  std::filesystem::path unfinished = path;
  unfinished += "." + std::to_string(getpid()) + "-" + std::to_string(++count) + kUnfinished;
  bool written = false;
  {
    const PrivateFile file = PrivateFile::Create(unfinished);
    if (!file.is_open()) return false;
    written = WriteAll(file, seal, fixed, head.tokens, state, abandon);
  }
  std::error_code error;
  if (written) std::filesystem::rename(unfinished, path, error);
  if (written && !error) return true;
  std::filesystem::remove(unfinished, error);
  return false;
}

std::optional<PrefixHead> ReadPrefixHead(const std::filesystem::path& path,
                                         const PrefixSeal& seal) {
  Fixed fixed;
  return ReadHead(PrivateFile::OpenToRead(path), seal, &fixed);
}

std::optional<StateBytes> ReadPrefixState(const std::filesystem::path& path, const PrefixSeal& seal,
                                          const PrefixHead& head,
                                          const std::atomic<bool>& abandon) {
  const PrivateFile file = PrivateFile::OpenToRead(path);
  Fixed fixed;
  const std::optional<PrefixHead> found = ReadHead(file, seal, &fixed);
  if (!found || found->begin != head.begin || found->tokens != head.tokens) return std::nullopt;
  StateBytes state(fixed.state_bytes);
  if (ReadState(file, seal, state, abandon) != fixed.state_tag) return std::nullopt;
  return state;
}

bool IsOfOtherFingerprint(const std::filesystem::path& path, Fingerprint fingerprint) {
  const PrivateFile file = PrivateFile::OpenToRead(path);
  Fixed fixed;
  return file.is_open() && file.Size() && file.Read(&fixed, sizeof fixed) &&
         fixed.magic == kMagic && fixed.version == kVersion && fixed.fingerprint != fingerprint;
}

std::uint64_t PrefixFileBytes(const PrefixHead& head, std::uint64_t state_bytes) {
  return sizeof(Fixed) + head.tokens.size() * sizeof(Token) + state_bytes;
}

bool IsUnfinishedPrefixFile(const std::filesystem::path& path) {
  return path.extension() == kUnfinished;
}

}  // namespace svc
