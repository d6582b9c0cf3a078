#include "engine/run/admission.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace svc {
namespace {

// A generation joins others in the cache only if each of them can still grow by this number of
// tokens. Otherwise one that has just been computed would be preempted a few steps later.
constexpr std::uint32_t kGrowthCells = 16;

// Fewer tokens are not taken from the prefix cache: they save little, and round a text in another
// way than the first time.
constexpr std::uint32_t kLeastReuse = 8;
// A generation does not wait for fewer tokens of a leader's prompt.
constexpr std::uint32_t kLeastFollowed = 32;

// Tokens that may come from the cache. The last one is always computed, for its logits.
std::span<const Token> Reusable(const Generation& generation) {
  if (!generation.reuse_prefix && generation.generated() == 0) return {};
  return std::span(generation.tokens).first(generation.tokens.size() - 1);
}

// What has been computed and may be shared: a picture whose rows have one position, as a whole.
std::span<const Token> SharedTokens(const Generation& generation) {
  std::uint32_t end = generation.computed;
  const MediaRows* run = MediaAt(generation.media, end);
  if (run != nullptr && run->has_own_positions()) end = run->begin;
  return std::span(generation.tokens).first(end);
}

double Seniority(const Generation& generation) {
  return SeniorityOf(Milliseconds(generation.submitted_at.time_since_epoch()), generation.priority);
}

}  // namespace

bool HasSpareIds(const Decoder& decoder) {
  return decoder.can_share() && decoder.sequence_ids() > decoder.max_sequences() + kPaddingIds;
}

SequenceId EndOfCacheIds(const Decoder& decoder) {
  return static_cast<SequenceId>(HasSpareIds(decoder) ? decoder.sequence_ids() - kPaddingIds
                                                      : decoder.max_sequences());
}

Admission::Admission(Context context, std::unique_ptr<PrefixStore> store)
    : context_(std::move(context)),
      has_spare_ids_(HasSpareIds(*context_.decoder)),
      cache_(context_.decoder, static_cast<SequenceId>(context_.decoder->max_sequences()),
             EndOfCacheIds(*context_.decoder), context_.decoder->max_copied(0)),
      tiers_(context_.decoder, &cache_, std::move(store)) {
  for (std::uint32_t i = 0; i < context_.decoder->max_sequences(); ++i) {
    free_sequences_.insert(static_cast<SequenceId>(i));
  }
}

void Admission::Arrived(Generation& generation) {
  may_admit_ = true;
  generation.arrived = true;
  generation.fetching = tiers_.Fetch(generation.id, generation.scope, Reusable(generation));
}

void Admission::Grown() {
  may_admit_ = true;
  tiers_.Grown();
  // Their saved prefixes did not fit the smaller cache; fetch them now.
  for (const auto& generation : *context_.generations) {
    if (generation->ended || generation->arrived || generation->outgrown) continue;
    Arrived(*generation);
  }
}

// ---- in which order -----------------------------------------------------------------------------

double Admission::Deadline(const Generation& generation) const {
  const std::uint32_t cached = generation.in_cache() ? generation.computed : Cached(generation);
  const auto rows = static_cast<std::uint32_t>(generation.tokens.size()) - cached;
  return std::min(generation.wanted.by_ms,
                  DeadlineOf(Seniority(generation), context_.costs->OfPrompt(rows)));
}

Admission::Urgency Admission::UrgencyOf(const Generation& generation) const {
  const double deadline = Deadline(generation);
  if (!context_.shares->several()) return {0, deadline};
  const double counter = context_.shares->CounterOf(generation.scope.owner);
  return {std::min(generation.wanted.by_counter, counter), deadline};
}

// Number of the tokens of a waiting generation that are in memory.
std::uint32_t Admission::Cached(const Generation& generation) const {
  const std::uint32_t cached = tiers_.Match(generation.scope, Reusable(generation));
  return cached < kLeastReuse ? 0 : cached;
}

std::vector<Generation*> Admission::InOrder(bool in_cache) const {
  std::vector<std::pair<Urgency, Generation*>> order;
  for (const auto& generation : *context_.generations) {
    if (!generation->may_go_on() || generation->in_cache() != in_cache) continue;
    order.emplace_back(UrgencyOf(*generation), generation.get());
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Generation*> generations;
  generations.reserve(order.size());
  for (const auto& [urgency, generation] : order) generations.push_back(generation);
  return generations;
}

// ---- entering -----------------------------------------------------------------------------------

void Admission::Admit() {
  // The order may have changed since no more could be admitted.
  if (context_.shares->MayReorder()) may_admit_ = true;
  if (!std::exchange(may_admit_, false)) return;
  for (Generation* candidate : InOrder(/*in_cache=*/false)) {
    if (FollowsAnother(*candidate, Cached(*candidate))) continue;
    while (!Enter(*candidate)) {
      if (MakeWayOfPaused() || MakeWayOfPrompt(*candidate)) continue;
      if (!MakeWayOfShare(*candidate)) return;
    }
  }
}

// True if another generation is about to compute more of the candidate's prompt than is cached.
bool Admission::FollowsAnother(const Generation& candidate, std::uint32_t cached) {
  if (!has_spare_ids_) return false;
  const std::span<const Token> wanted = Reusable(candidate);
  const Prefiller& prefiller = *context_.prefiller;
  for (const auto& leader : *context_.generations) {
    if (!leader->in_cache() || leader->paused || !leader->reuse_prefix) continue;
    if (leader->pending() == 1 || leader->scope.salt != candidate.scope.salt) continue;
    const std::uint32_t common = SharedLength(wanted, leader->tokens);
    // A batch in the lane appears in the cache when all of it is done: on average, after half of
    // it.
    const std::uint32_t wait = leader.get() == prefiller.generation() ? prefiller.rows() / 2 : 0;
    if (leader->computed >= common || common < cached + std::max(kLeastFollowed, wait)) continue;
    leader->wanted.by_ms = std::min(leader->wanted.by_ms, Deadline(candidate));
    leader->wanted.by_counter =
        std::min(leader->wanted.by_counter, context_.shares->CounterOf(candidate.scope.owner));
    return true;
  }
  return false;
}

// False: there is no room.
bool Admission::Enter(Generation& candidate) {
  if (free_sequences_.empty()) return false;
  Decoder& decoder = *context_.decoder;
  // Cells that generations in the cache still need for their prompts, and some for them to grow.
  std::uint64_t promised = 0;
  for (const auto& generation : *context_.generations) {
    if (generation->in_cache()) promised += generation->pending() + kGrowthCells;
  }
  // Attention adds up in the order of the cells, wherever they happen to be.
  if (promised == 0 && candidate.IsPlain()) EvictAll();
  const SequenceId sequence = *free_sequences_.begin();
  const auto cached = std::span(candidate.tokens).first(Cached(candidate));
  const std::uint32_t known = tiers_.Known(candidate.scope, Reusable(candidate));
  PrefixCache::Pin pin = cache_.Take(candidate.scope, cached, sequence);
  if (candidate.tokens.size() - pin.length + promised > AvailableCells()) {
    decoder.RemoveSequence(sequence);
    cache_.Release(pin);
    return false;
  }
  // Before SwapIn, so that the cells that it takes are near the first one: attention walks over all
  // cells up to the last used one.
  if (cache_.evictable() > decoder.idle_cells()) {
    cache_.Evict(cache_.evictable() - decoder.idle_cells());
  }
  cache_.SwapIn(cached, sequence, FreeCells(), pin);
  free_sequences_.erase(sequence);
  candidate.sequence = sequence;
  candidate.pin = pin;
  candidate.computed =
      std::max(pin.length, tiers_.Restore(candidate.scope, Reusable(candidate), sequence));
  Entered(candidate, known);
  return true;
}

// `known`: number of its tokens that its share has sent before.
void Admission::Entered(Generation& candidate, std::uint32_t known) {
  own_cells_ += candidate.own_cells();
  context_.shares->Entered(candidate);
  if (candidate.timings.started_ms >= 0) return;
  candidate.timings.started_ms = candidate.SinceSubmit(context_.now());
  candidate.cached_tokens = std::min(candidate.computed, known);
  context_.counts->cached_tokens += candidate.computed;
}

// ---- making way ---------------------------------------------------------------------------------

bool Admission::MakeWayOfPaused() {
  const Generations& generations = *context_.generations;
  const auto paused = std::find_if(generations.rbegin(), generations.rend(),
                                   [](const auto& g) { return g->paused && g->in_cache(); });
  if (paused == generations.rend()) return false;
  Leave(**paused, /*keep_prefix=*/true);
  return true;
}

// A less urgent prompt that is not yet computed goes back to wait, if that costs it little.
bool Admission::MakeWayOfPrompt(const Generation& candidate) {
  double latest = Deadline(candidate);
  Generation* last = nullptr;
  for (const auto& generation : *context_.generations) {
    if (!generation->in_cache() || generation->generated() > 0) continue;
    const bool found_again = has_spare_ids_ && generation->reuse_prefix;
    if (generation->own_cells() > 0 && !found_again) continue;
    // Between shares deadlines do not decide (MakeWayOfShare).
    if (generation->scope.owner != candidate.scope.owner) continue;
    const double deadline = Deadline(*generation);
    if (deadline <= latest) continue;
    latest = deadline;
    last = generation.get();
  }
  if (last == nullptr) return false;
  if (last->computed > 0) ++context_.counts->preemptions;
  Leave(*last, /*keep_prefix=*/true);
  return true;
}

// A share with more than its part of sequences or cells gives back its most junior generation.
bool Admission::MakeWayOfShare(const Generation& candidate) {
  const auto share = context_.shares->MakesWayFor(candidate, free_sequences_.empty());
  Generation* junior = share ? JuniorOf(share) : nullptr;
  if (junior == nullptr) return false;
  Preempt(*junior);
  return true;
}

// The most junior generation in the cache, of that share or of all; paused ones count as the most
// junior. Null: there is none.
Generation* Admission::JuniorOf(std::optional<ShareId> share) const {
  Generation* junior = nullptr;
  for (const auto& generation : *context_.generations) {
    if (!generation->in_cache() || (share && generation->scope.owner != *share)) continue;
    if (junior == nullptr || generation->paused > junior->paused ||
        (generation->paused == junior->paused && Seniority(*generation) >= Seniority(*junior))) {
      junior = generation.get();
    }
  }
  return junior;
}

void Admission::Preempt(Generation& generation) {
  Leave(generation, /*keep_prefix=*/true);
  ++context_.counts->preemptions;
}

bool Admission::PreemptOne() {
  const Generations& generations = *context_.generations;
  const auto in_cache = std::count_if(generations.begin(), generations.end(),
                                      [](const auto& g) { return g->in_cache(); });
  if (in_cache < 2) return false;
  Generation* junior = JuniorOf(context_.shares->Largest());
  Preempt(junior != nullptr ? *junior : *JuniorOf(std::nullopt));
  return true;
}

void Admission::MakeRoom() {
  const auto needed = [this] {
    const Generations& generations = *context_.generations;
    const auto decoding = std::count_if(generations.begin(), generations.end(), [](const auto& g) {
      return g->in_cache() && !g->paused && !g->outgrown && g->pending() == 1;
    });
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(decoding));
  };
  while (AvailableCells() < needed() && PreemptOne()) {
  }
}

void Admission::Leave(Generation& generation, bool keep_prefix) {
  if (std::exchange(generation.fetching, false)) tiers_.CancelFetch(generation.id);
  if (!generation.in_cache()) return;
  context_.on_leave(generation);
  context_.shares->Leaving(generation);
  if (keep_prefix) {
    Publish(generation);
    // The state of a sequence that cannot be cut is all of it.
    const std::span<const Token> kept =
        context_.decoder->can_share() ? SharedTokens(generation)
                                      : std::span(generation.tokens).first(generation.computed);
    tiers_.Keep(generation.scope, kept, generation.sequence,
                /*on_disk=*/generation.reuse_prefix && generation.store);
  }
  own_cells_ -= generation.own_cells();
  context_.decoder->RemoveSequence(generation.sequence);
  cache_.Release(generation.pin);
  free_sequences_.insert(std::exchange(generation.sequence, -1));
  generation.computed = 0;
  generation.wanted = {};
  generation.drafting.doubt.reset();
  may_admit_ = true;
}

void Admission::SwapOutAll() {
  std::uint32_t computed = 0;
  for (const auto& generation : *context_.generations) {
    // One that waits for the disk has nothing in the cache, and goes on waiting.
    if (!generation->in_cache()) continue;
    computed += generation->computed;
    Leave(*generation, /*keep_prefix=*/true);
  }
  cache_.SetMaxCopied(std::max(context_.decoder->max_copied(0), computed));
  EvictAll();
}

// ---- cells --------------------------------------------------------------------------------------

bool Admission::FreeCellsFor(std::uint32_t rows) {
  if (const std::uint32_t free = FreeCells(); free < rows) cache_.Evict(rows - free);
  return FreeCells() >= rows;
}

bool Admission::EvictAll() {
  if (cache_.evictable() == 0) return false;
  cache_.Evict(cache_.evictable());
  return true;
}

// ---- what a step has computed -------------------------------------------------------------------

// Hands what has been computed to the prefix cache, where other generations find it.
void Admission::Publish(Generation& generation) {
  own_cells_ -= generation.own_cells();
  cache_.Publish(generation.scope, SharedTokens(generation), generation.sequence, generation.pin);
  own_cells_ += generation.own_cells();
  may_admit_ = true;
}

void Admission::Computed(Generation& generation, std::uint32_t rows) {
  const bool prompt = generation.computed < generation.prompt_size;
  if (prompt) context_.shares->Charge(generation.scope.owner, rows);
  generation.computed += rows;
  own_cells_ += rows;
  if (rows > 1) may_admit_ = true;  // a waiting generation may follow
  if (!prompt || !generation.reuse_prefix) return;
  Publish(generation);
  tiers_.PromptComputed(generation.scope,
                        std::span(generation.tokens).first(generation.prompt_size),
                        generation.computed, generation.sequence, generation.store);
}

void Admission::Accept(Generation& generation) {
  ++generation.computed;
  ++own_cells_;
}

void Admission::Reject(Generation& generation) {
  --generation.computed;
  --own_cells_;
}

void Admission::Recount(Generation& generation) {
  own_cells_ -= generation.own_cells();
  generation.computed =
      static_cast<std::uint32_t>(context_.decoder->NextPosition(generation.sequence));
  own_cells_ += generation.own_cells();
}

std::uint32_t Admission::RowsToCheckpoint(const Generation& generation, std::uint32_t rows) const {
  if (generation.IsPlain() || generation.computed >= generation.prompt_size) return rows;
  return tiers_.CutRows(generation.scope,
                        std::span(generation.tokens).first(generation.prompt_size),
                        generation.computed, rows);
}

// ---- the disk tier, statistics ------------------------------------------------------------------

void Admission::OnStoreChange(std::function<void()> listener) {
  if (PrefixStore* store = tiers_.store()) store->OnChange(std::move(listener));
}

void Admission::SaveUntil(Clock::time_point deadline) {
  PrefixStore* store = tiers_.store();
  if (store == nullptr) return;
  while (store->WaitForWrite(deadline) && WantsToSave() && Clock::now() < deadline) SaveOne();
}

std::vector<GenerationId> Admission::TakeFetched() {
  std::vector<GenerationId> fetched = tiers_.TakeFetched(FreeSequence(), own_cells_);
  if (!fetched.empty()) may_admit_ = true;
  return fetched;
}

void Admission::AddTo(EngineStats* stats) const {
  stats->kv_cells_cached = cache_.evictable();
  stats->kv_cells_used = own_cells_ + cache_.cells() - cache_.evictable();
  stats->kv_cells_total = context_.decoder->cells_total();
  stats->kv_tokens_swapped = cache_.swapped();
  stats->evicted_cells = cache_.evicted();
}

}  // namespace svc
