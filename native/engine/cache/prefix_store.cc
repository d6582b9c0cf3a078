#include "engine/cache/prefix_store.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <system_error>
#include <utility>

#include "engine/base/common_length.h"
#include "engine/base/private_file.h"
#include "engine/model/media_rows.h"

namespace svc {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExtension = ".prefix";
// Maximum files of one model: the index holds the tokens of each.
constexpr std::size_t kMostFiles = 1024;
// Age at which an unfinished file counts as abandoned.
constexpr auto kUnfinishedAge = std::chrono::minutes(10);
// Last use of a state that is evicted before all others.
constexpr auto kLongAgo = std::chrono::years(1);
// Difference in modification time (= last use) between consecutive pieces of a prompt: the first
// has the latest time, so that it outlives those that continue it and are of no use without it.
constexpr auto kUseStep = std::chrono::milliseconds(1);

struct Found {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used_at;
};

struct Folder {
  std::vector<Found> files;            // least recently used first
  std::uint64_t unfinished_bytes = 0;  // of files that are being written
};

// Finds the prefix files in the folder. Deletes abandoned unfinished files.
Folder FilesIn(const fs::path& path) {
  Folder folder;
  std::error_code error;
  fs::directory_iterator each(path, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error)) {
    std::error_code gone;
    const Found file{each->path(), each->file_size(gone), each->last_write_time(gone)};
    if (gone) continue;
    if (IsUnfinishedPrefixFile(file.path)) {
      if (fs::file_time_type::clock::now() - file.used_at > kUnfinishedAge) {
        fs::remove(file.path, gone);
      } else {
        folder.unfinished_bytes += file.bytes;
      }
    } else if (file.path.extension() == kExtension) {
      folder.files.push_back(file);
    }
  }
  std::ranges::sort(folder.files, {}, &Found::used_at);
  return folder;
}

// Marks the pieces of one prompt, in their order, as used now.
void MarkUsed(const std::vector<fs::path>& pieces) {
  auto used_at = std::chrono::system_clock::now();
  for (const fs::path& path : pieces) {
    SetModificationTime(path, used_at);
    used_at -= kUseStep;
  }
}

}  // namespace

std::unique_ptr<PrefixStore> PrefixStore::Open(PrefixStoreOptions options) {
  if (!MakePrivateFolder(options.folder)) return nullptr;
  std::unique_ptr<PrefixStore> store(new PrefixStore(std::move(options)));
  try {
    store->reader_ = std::thread([raw = store.get()] { raw->RunReads(); });
    store->writer_ = std::thread([raw = store.get()] { raw->RunWrites(); });
  } catch (const std::system_error&) {
    return nullptr;
  }
  return store;
}

PrefixStore::PrefixStore(PrefixStoreOptions options) : options_(std::move(options)) {
  ReadFolder();
  MakeRoom(0);
}

PrefixStore::~PrefixStore() { Close(); }

void PrefixStore::Close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    abandon_ = true;
  }
  changed_.notify_all();
  if (reader_.joinable()) reader_.join();
  if (writer_.joinable()) writer_.join();
}

void PrefixStore::OnChange(std::function<void()> listener) { on_change_ = std::move(listener); }

void PrefixStore::ReadFolder() {
  std::vector<Found> files = FilesIn(options_.folder).files;
  std::reverse(files.begin(), files.end());
  for (const Found& file : files) {
    if (!file.path.filename().string().starts_with(options_.model + "-")) continue;
    std::optional<PrefixHead> head = ReadPrefixHead(file.path, options_.seal);
    if (head && entries_.size() < kMostFiles) {
      const std::uint64_t state_bytes = file.bytes - PrefixFileBytes(*head, 0);
      entries_.push_back(
          std::make_shared<const Entry>(Entry{std::move(*head), file.path, state_bytes}));
    } else if (head || !IsOfOtherFingerprint(file.path, options_.seal.fingerprint)) {
      std::error_code gone;
      fs::remove(file.path, gone);
    }
  }
}

fs::path PrefixStore::PathOf(const PrefixHead& head) const {
  std::vector<std::uint64_t> named = {head.scope.salt, options_.seal.fingerprint, head.begin};
  named.insert(named.end(), head.tokens.begin(), head.tokens.end());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(named.data());
  const std::uint64_t hash = SipHash128(DeriveKey(options_.seal.key, "prefix name"),
                                        {bytes, named.size() * sizeof(named[0])})[0];
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return options_.folder / (options_.model + "-" + digits.data() + kExtension);
}

// ---- finding ------------------------------------------------------------------------------------

// Returns the end of the part of `tokens` that the piece can restore, in tokens; 0: it can restore
// none.
std::uint32_t PrefixStore::Reach(const PrefixHead& head, ShareId salt,
                                 std::span<const Token> tokens) const {
  if (head.scope.salt != salt) return 0;
  const std::uint32_t common = SharedLength(head.tokens, tokens);
  if (!options_.divisible && common != head.tokens.size()) return 0;
  return common > head.begin ? common : 0;
}

// Greedy chain of pieces: from `covered` on, always the piece that reaches furthest.
std::vector<PrefixStore::Step> PrefixStore::Chain(const std::vector<EntryPtr>& entries,
                                                  ShareId salt, std::span<const Token> tokens,
                                                  std::uint32_t covered) const {
  std::vector<Step> reaching;
  for (const EntryPtr& entry : entries) {
    const std::uint32_t reach = Reach(entry->head, salt, tokens);
    if (reach > covered) reaching.push_back({entry, reach});
  }
  std::vector<Step> chain;
  for (std::uint32_t end = covered;;) {
    const Step* best = nullptr;
    for (const Step& each : reaching) {
      const std::uint32_t begin = each.entry->head.begin;
      if (begin > end || each.end <= end) continue;
      // The smaller one of two that reach equally far.
      const bool is_better = best == nullptr || each.end > best->end ||
                             (each.end == best->end && begin > best->entry->head.begin);
      if (is_better) best = &each;
    }
    if (best == nullptr) return chain;
    end = best->end;
    chain.push_back(*best);
  }
}

std::uint32_t PrefixStore::Match(ShareId salt, std::span<const Token> tokens,
                                 std::uint32_t covered) const {
  const std::lock_guard lock(mutex_);
  const std::vector<Step> chain = Chain(entries_, salt, tokens, covered);
  return chain.empty() ? covered : chain.back().end;
}

std::uint64_t PrefixStore::Fetch(GenerationId wanted_by, ShareId salt,
                                 std::span<const Token> tokens, std::uint32_t covered,
                                 std::uint64_t max_bytes) {
  std::uint64_t largest = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::vector<Step> chain = Chain(entries_, salt, tokens, covered);
    if (chain.empty() || chain.back().end < covered + kLeastTokens) return 0;
    for (const Step& step : chain) largest = std::max(largest, step.entry->state_bytes);
    if (largest > max_bytes) return 0;
    const auto same = std::ranges::find_if(wishes_, [&](const Wish& wish) {
      return std::ranges::equal(wish.steps, chain, {}, &Step::entry, &Step::entry);
    });
    if (same == wishes_.end()) {
      wishes_.push_back(
          {.wanted_by = {wanted_by}, .steps = chain, .made_at = std::chrono::system_clock::now()});
    } else {
      same->wanted_by.push_back(wanted_by);
      same->steps.back().end = std::max(same->steps.back().end, chain.back().end);
    }
  }
  changed_.notify_all();
  return largest;
}

void PrefixStore::Cancel(GenerationId wanted_by) {
  const std::lock_guard lock(mutex_);
  for (auto wish = wishes_.begin(); wish != wishes_.end();) {
    const bool was_wanted = std::erase(wish->wanted_by, wanted_by) > 0;
    const bool is_read = reading_ && wish == wishes_.begin();
    wish =
        was_wanted && wish->wanted_by.empty() && !is_read ? wishes_.erase(wish) : std::next(wish);
  }
}

std::optional<FetchedPiece> PrefixStore::TakeFetched() {
  std::optional<FetchedPiece> piece;
  {
    const std::lock_guard lock(mutex_);
    piece = std::exchange(fetched_, std::nullopt);
  }
  if (piece) changed_.notify_all();
  return piece;
}

bool PrefixStore::writing() const {
  const std::lock_guard lock(mutex_);
  return writing_.has_value();
}

void PrefixStore::Write(PrefixHead head, std::shared_ptr<const StateBytes> state) {
  {
    const std::lock_guard lock(mutex_);
    writing_ = {.head = std::move(head), .state = std::move(state)};
  }
  changed_.notify_all();
}

void PrefixStore::Discard(ShareId salt, std::span<const Token> tokens) {
  std::vector<fs::path> discarded;
  {
    const std::lock_guard lock(mutex_);
    for (const EntryPtr& entry : entries_) {
      if (Reach(entry->head, salt, tokens) > 0) discarded.push_back(entry->path);
    }
    if (writing_ && Reach(writing_->head, salt, tokens) > 0) writing_->discarded = true;
  }
  for (const fs::path& path : discarded) Forget(path);
}

bool PrefixStore::WaitForWrite(std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return !writing_; });
}

// ---- the store's threads ------------------------------------------------------------------------

void PrefixStore::RunReads() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || (!wishes_.empty() && !fetched_); });
    if (closing_) return;
    const auto wish = wishes_.begin();  // only this thread removes it
    const EntryPtr entry = wish->steps[wish->next].entry;
    const auto used_at = wish->made_at - wish->next * kUseStep;
    FetchedPiece piece;
    reading_ = true;
    lock.unlock();
    try {
      piece.head = entry->head;
      piece.state = Read(*entry, used_at).value_or(StateBytes());
    } catch (const std::exception&) {
      // Out of memory: a miss, but the file is good.
    }
    lock.lock();
    reading_ = false;
    piece.end = wish->steps[wish->next].end;
    ++wish->next;
    piece.last = piece.state.empty() || wish->next == wish->steps.size() || wish->wanted_by.empty();
    if (piece.last) {
      piece.wanted_by = std::move(wish->wanted_by);
      wishes_.pop_front();
    }
    fetched_ = std::move(piece);
    TellChange(lock);
  }
}

void PrefixStore::RunWrites() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || writing_; });
    if (closing_) return;
    lock.unlock();
    try {
      WriteFile(*writing_);  // only this thread resets writing_
    } catch (const std::exception&) {
      // Out of memory: the piece is not saved and may have to be computed again.
    }
    lock.lock();
    std::optional<Writing> written = std::exchange(writing_, std::nullopt);
    lock.unlock();
    written.reset();  // outside the lock, because freeing a large state takes long
    lock.lock();
    TellChange(lock);
  }
}

void PrefixStore::TellChange(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  changed_.notify_all();
  if (on_change_) on_change_();
  lock.lock();
}

// Reads the state of a piece. Deletes a damaged file.
std::optional<StateBytes> PrefixStore::Read(const Entry& entry,
                                            std::chrono::system_clock::time_point used_at) {
  std::optional<StateBytes> state =
      ReadPrefixState(entry.path, options_.seal, entry.head, abandon_);
  if (state) {
    SetModificationTime(entry.path, used_at);
  } else if (!abandon_) {
    Forget(entry.path);
  }
  return state;
}

std::vector<PrefixStore::EntryPtr> PrefixStore::CopyEntries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

void PrefixStore::WriteFile(const Writing& writing) {
  const PrefixHead& head = writing.head;
  Entry entry{head, PathOf(head), writing.state->size()};
  if (MaxBytes() == 0 || !MakePrivateFolder(options_.folder)) return;
  if (!options_.divisible) AgeOutgrown(head);
  if (!MakeRoom(PrefixFileBytes(head, entry.state_bytes))) return;
  if (!WritePrefixFile(entry.path, options_.seal, head, *writing.state, abandon_)) return;

  // The disk tier was turned off meanwhile: the caller has emptied the folder, perhaps before this
  // file appeared.
  if (MaxBytes() == 0) return Forget(entry.path);

  const std::span<const Token> tokens(head.tokens);
  const std::vector<EntryPtr> entries = CopyEntries();
  std::vector<fs::path> used;
  for (const Step& step : Chain(entries, head.scope.salt, tokens.first(head.begin), 0)) {
    used.push_back(step.entry->path);
  }
  used.push_back(entry.path);
  MarkUsed(used);
  // Existing pieces that the new one contains.
  for (const EntryPtr& old : entries) {
    const PrefixHead& other = old->head;
    if (old->path != entry.path && other.scope.salt == head.scope.salt &&
        other.begin >= head.begin && other.tokens.size() <= tokens.size() &&
        std::equal(other.tokens.begin(), other.tokens.end(), tokens.begin()) &&
        (options_.divisible || other.tokens.size() == tokens.size())) {
      Forget(old->path);
    }
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const EntryPtr& each) { return each->path == entry.path; });
  if (writing.discarded) {
    std::error_code gone;
    fs::remove(entry.path, gone);
    return;
  }
  entries_.push_back(std::make_shared<const Entry>(std::move(entry)));
}

// Makes earlier whole states of the conversation of `head` the first to be evicted. Exceptions: the
// longest one, which serves a turn that does not repeat the last answer, and those that another
// conversation begins with.
void PrefixStore::AgeOutgrown(const PrefixHead& head) {
  const std::lock_guard lock(mutex_);
  const auto continues = [](const PrefixHead& later, const PrefixHead& earlier) {
    return later.scope.salt == earlier.scope.salt && later.tokens.size() > earlier.tokens.size() &&
           CommonLength(earlier.tokens, later.tokens) == earlier.tokens.size();
  };
  std::size_t longest = 0;
  for (const EntryPtr& entry : entries_) {
    if (continues(head, entry->head)) longest = std::max(longest, entry->head.tokens.size());
  }
  for (const EntryPtr& entry : entries_) {
    const PrefixHead& own = entry->head;
    if (!continues(head, own) || own.tokens.size() == longest) continue;
    const bool shared = std::ranges::any_of(entries_, [&](const EntryPtr& other) {
      return continues(other->head, own) && other->head.tokens != head.tokens &&
             !continues(head, other->head);
    });
    if (!shared) {
      SetModificationTime(entry->path, std::chrono::system_clock::now() - kLongAgo);
    }
  }
}

// Evicts files until `bytes` more fit. False: `bytes` alone exceeds the limit.
bool PrefixStore::MakeRoom(std::uint64_t bytes) {
  const std::uint64_t max_bytes = MaxBytes();
  if (bytes > max_bytes) return false;
  const auto [files, unfinished_bytes] = FilesIn(options_.folder);
  std::uint64_t total = bytes + unfinished_bytes;
  std::size_t own = 0;
  const auto is_own = [this](const Found& file) {
    return file.path.filename().string().starts_with(options_.model + "-");
  };
  for (const Found& file : files) {
    total += file.bytes;
    own += is_own(file) ? 1 : 0;
  }
  for (const Found& file : files) {
    const bool one_too_many = own >= kMostFiles && is_own(file);
    if (total <= max_bytes && !one_too_many) continue;
    Forget(file.path);
    total -= file.bytes;
    own -= is_own(file) ? 1 : 0;
  }
  return true;
}

void PrefixStore::Forget(const fs::path& path) {
  std::error_code gone;
  fs::remove(path, gone);
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const EntryPtr& entry) { return entry->path == path; });
}

}  // namespace svc
