// Disk tier of the prefix cache: computed prefixes that survive the engine's process.
//
// A folder holds one file for each saved piece of a prompt (prefix_file.h). The daemon gives each
// model a folder of its own, which no other engine can access, and limits all folders together
// (src/models/store/prefix-room.ts). Its files:
//
//   <model>-<keyed hash of salt, fingerprint, begin and tokens>.prefix
//
// A piece is the state of the tokens [begin, end), together with all tokens from position 0 on. So
// a growing conversation adds one piece per turn, and a shared beginning is stored once. A prompt
// is restored piece by piece, from what is in memory already, each time with the piece that reaches
// furthest. If a model's memory cannot be cut, a piece is a whole state and begins at 0.
//
// The index of this model's pieces is in memory: their tokens, read from the file heads when the
// store is opened. Engines may share a folder. Each sees the files that existed when it opened the
// store and those it wrote itself; a file that the daemon or another engine has deleted is a miss.
//
// The folder's size is limited; a new file evicts the least recently used ones, of any model. When
// a prompt is restored, earlier pieces are marked as used a little later than the pieces that
// follow them. Where a piece is a whole state, a growing conversation first evicts its own earlier
// states: otherwise a few turns of one would evict all others. Damaged files are deleted when they
// are noticed. Files of other settings, or of another version of the model or of libllama, are
// skipped: they become usable again with those settings, or are evicted.
//
// Only the store's own threads wait for the disk. At most one piece is read ahead and one write is
// pending, so the memory in use is bounded by the largest pieces.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/cache/prefix_file.h"

namespace svc {

struct PrefixStoreOptions {
  std::filesystem::path folder;  // created with access for its owner only, if missing
  std::string model;             // prefix of its file names; letters and digits
  PrefixSeal seal;
  std::uint64_t max_bytes = 0;  // limit for all files in the folder
  // Replaces max_bytes, and may change at any time. Null: max_bytes applies.
  std::shared_ptr<const std::atomic<std::uint64_t>> live_max_bytes;
  // True if part of a piece can be loaded (Decoder::can_share).
  bool divisible = true;
};

// A piece that was read from the disk.
struct FetchedPiece {
  // Generations that no longer need to wait. Only with the last piece of a fetch.
  std::vector<GenerationId> wanted_by;
  PrefixHead head;
  std::uint32_t end = 0;  // the first `end` of head.tokens match the request
  StateBytes state;       // empty: the file could not be read
  bool last = true;       // of its fetch
};

// Thread: the runner's; Close and the destructor: any.
class PrefixStore {
 public:
  // Minimum tokens: a fetch must gain kLeastTokens, and the first piece of a prompt must have that
  // many to be written. A piece that continues another needs only kLeastMore: the end of a turn is
  // short, but computing it again would cost as much as the rest of the next turn.
  static constexpr std::uint32_t kLeastTokens = 64;
  static constexpr std::uint32_t kLeastMore = 16;

  // Opens the folder and reads the heads of the model's files. Null: the folder cannot be used, or
  // its threads cannot be started.
  static std::unique_ptr<PrefixStore> Open(PrefixStoreOptions options);
  ~PrefixStore();
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  // Sets the listener, which the store's threads call when a piece can be taken or a write has
  // ended. REQUIRES: called before any Fetch or Write.
  void OnChange(std::function<void()> listener);

  // Number of leading tokens that would be in memory after a Fetch, if the first `covered` are
  // there already; at least `covered`.
  std::uint32_t Match(ShareId salt, std::span<const Token> tokens, std::uint32_t covered) const;

  // Queues reading the pieces that Match found; pieces that are queued already are read once.
  // Returns the size of their largest state in bytes; 0: the gain is below kLeastTokens or a state
  // is larger than `max_bytes`, nothing is queued.
  std::uint64_t Fetch(GenerationId wanted_by, ShareId salt, std::span<const Token> tokens,
                      std::uint32_t covered,
                      std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max());
  // Cancels the reads that only this generation waits for.
  void Cancel(GenerationId wanted_by);
  // Returns the piece that has been read, if any, and lets the next one be read.
  std::optional<FetchedPiece> TakeFetched();

  // True while a write is pending.
  bool writing() const;
  // Queues a write. REQUIRES: !writing()
  void Write(PrefixHead head, std::shared_ptr<const StateBytes> state);
  // Deletes all pieces that can restore part of `tokens`, a pending write included. Blocks on the
  // disk: for rare use.
  void Discard(ShareId salt, std::span<const Token> tokens);
  // False: the write is still pending at the deadline.
  bool WaitForWrite(std::chrono::steady_clock::time_point deadline) const;

  // Abandons the pending write and joins the threads. Idempotent.
  void Close();

 private:
  struct Entry {
    PrefixHead head;
    std::filesystem::path path;
    std::uint64_t state_bytes = 0;
  };
  using EntryPtr = std::shared_ptr<const Entry>;
  struct Step {
    EntryPtr entry;
    std::uint32_t end = 0;
  };
  struct Wish {
    std::vector<GenerationId> wanted_by;
    std::vector<Step> steps;
    std::size_t next = 0;  // of `steps`: the first that has not been read
    std::chrono::system_clock::time_point made_at;
  };
  struct Writing {
    PrefixHead head;
    std::shared_ptr<const StateBytes> state;
    bool discarded = false;
  };

  explicit PrefixStore(PrefixStoreOptions options);
  void ReadFolder();
  std::uint32_t Reach(const PrefixHead& head, ShareId salt, std::span<const Token> tokens) const;
  std::vector<Step> Chain(const std::vector<EntryPtr>& entries, ShareId salt,
                          std::span<const Token> tokens, std::uint32_t covered) const;
  void RunReads();
  void RunWrites();
  void TellChange(std::unique_lock<std::mutex>& lock);
  std::optional<StateBytes> Read(const Entry& entry, std::chrono::system_clock::time_point used_at);
  // For work on them that takes long, without the lock.
  std::vector<EntryPtr> CopyEntries() const;
  void WriteFile(const Writing& writing);
  void AgeOutgrown(const PrefixHead& head);
  bool MakeRoom(std::uint64_t bytes);
  std::uint64_t MaxBytes() const {
    return options_.live_max_bytes ? options_.live_max_bytes->load() : options_.max_bytes;
  }
  void Forget(const std::filesystem::path& path);
  std::filesystem::path PathOf(const PrefixHead& head) const;

  const PrefixStoreOptions options_;
  std::function<void()> on_change_;
  std::atomic<bool> abandon_ = false;

  // ---- under mutex_ ----
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<EntryPtr> entries_;
  std::list<Wish> wishes_;
  bool reading_ = false;  // the first of them
  std::optional<FetchedPiece> fetched_;
  std::optional<Writing> writing_;
  bool closing_ = false;

  // Two threads, so that no prompt waits for a write.
  std::thread reader_;
  std::thread writer_;
};

}  // namespace svc
