// The prefix cache's disk tier: what engines have computed, kept across their ends.
//
// A folder holds a file for each saved piece of a prompt (prefix_file.h), of all models together:
//
//   <model>-<keyed hash of salt, tokens and where the piece begins>.prefix
//
// A piece is the state of the tokens [begin, end) and says all tokens from the first one on, so a
// conversation that grows adds a piece a turn, and what many share is stored once. A prompt is
// restored piece by piece: from what is in memory already to where a piece leads furthest, and on
// from there. Where a model's memory cannot be cut, a piece is a whole state and begins at 0.
//
// An index of this model's pieces is in memory: the tokens, read from the files' heads when the
// store is opened. Engines may share a folder: each finds the files that were there when it began
// and those that it has written, and a file that another one has deleted is a miss.
//
// The folder holds at most so many bytes; for a new file the ones go that were used longest ago,
// of whatever model. A beginning is always used a little later than what follows it. What is
// damaged is deleted when it is seen. What was made with other settings, or by another version of
// the model or of libllama, is passed over: it is used again when those come back, and otherwise
// goes as what was used longest ago.
//
// Nothing waits for the disk but the store's own threads. One piece is read ahead of who takes it,
// and one write waits at most, so the memory in use is bounded by the largest pieces.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
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
  std::filesystem::path folder;  // made, for its owner alone, if it is not there
  std::string model;             // begins the names of its files; letters and digits
  PrefixSeal seal;
  std::uint64_t max_bytes = 0;  // of the folder's files
  // Replaces max_bytes and may change at any time. Null: max_bytes holds.
  std::shared_ptr<const std::atomic<std::uint64_t>> live_max_bytes;
  // Parts of a piece are of use.
  bool divisible = true;
};

// A piece on its way from the disk.
struct FetchedPiece {
  GenerationId wanted_by = 0;
  PrefixHead head;
  std::uint32_t end = 0;  // so many of the tokens are those that were asked for
  StateBytes state;       // empty: it could not be read
  bool last = true;       // nothing more comes for that one
};

// Threads: the runner's; Close and the destructor any.
class PrefixStore {
 public:
  // A shorter gain is not worth reading a file, nor a shorter beginning writing one. What goes on
  // with a piece is: the end of a turn is short, and computed again it costs as much as the rest of
  // the next turn.
  static constexpr std::uint32_t kLeastTokens = 64;
  static constexpr std::uint32_t kLeastMore = 16;

  // Reads the heads of the model's files. Null: the folder cannot be used.
  static std::unique_ptr<PrefixStore> Open(PrefixStoreOptions options);
  ~PrefixStore();
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  // Called on the store's threads when a piece can be taken or a write has ended. Set it first.
  void OnChange(std::function<void()> listener);

  // How many of the tokens could be had if the first `covered` are in memory; at least `covered`.
  std::uint32_t Match(ShareId salt, std::span<const Token> tokens, std::uint32_t covered) const;

  // Reads what Match has found, piece by piece. False: there is not enough to be worth it.
  bool Fetch(GenerationId wanted_by, ShareId salt, std::span<const Token> tokens,
             std::uint32_t covered);
  std::optional<FetchedPiece> TakeFetched();

  // A write has not ended yet.
  bool writing() const;
  // REQUIRES: !writing()
  void Write(PrefixHead head, std::shared_ptr<const StateBytes> state);
  // False: the write goes on at the deadline.
  bool WaitForWrite(std::chrono::steady_clock::time_point deadline) const;

  // Gives up what is being written and joins the threads. Idempotent.
  void Close();

 private:
  struct Entry {
    PrefixHead head;
    std::filesystem::path path;
  };
  using EntryPtr = std::shared_ptr<const Entry>;
  struct Step {
    EntryPtr entry;
    std::uint32_t end = 0;
  };
  struct Wish {
    GenerationId wanted_by = 0;
    std::deque<Step> steps;  // left to be read
    std::vector<EntryPtr> read;
  };
  struct Writing {
    PrefixHead head;
    std::shared_ptr<const StateBytes> state;
  };

  explicit PrefixStore(PrefixStoreOptions options);
  void ReadFolder();
  std::vector<Step> Chain(ShareId salt, std::span<const Token> tokens, std::uint32_t covered) const;
  void RunReads();
  void RunWrites();
  void TellChange(std::unique_lock<std::mutex>& lock);
  FetchedPiece ReadNext(Wish& wish);
  void WriteFile(const Writing& writing);
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
  std::deque<Wish> wishes_;
  std::optional<FetchedPiece> fetched_;
  std::optional<Writing> writing_;
  bool closing_ = false;

  // Two, because a write waits for the disk, and a prompt for what is read.
  std::thread reader_;
  std::thread writer_;
};

}  // namespace svc
