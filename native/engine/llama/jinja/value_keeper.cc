#include "engine/llama/jinja/value_keeper.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "engine/llama/jinja/template_value.h"

namespace svc {
namespace {

// Bytes kept before those that nothing else holds are searched for.
constexpr double kCollectBytes = 16U << 20U;

thread_local ValueKeeper* current = nullptr;

bool HasParts(const jinja::value& value) {
  return jinja::is_val<jinja::value_array>(value) || jinja::is_val<jinja::value_object>(value) ||
         jinja::is_val<jinja::value_func>(value) || jinja::is_val<jinja::value_kwarg>(value);
}

// The function of a `{% call %}` block. It holds a copy of all variables, which cannot be visited.
bool IsCaller(const jinja::value& value) {
  const auto* function = jinja::cast_val<jinja::value_func>(value);
  return function != nullptr && function->name == "caller";
}

double BytesOf(const jinja::value& value) {
  double bytes = kValueBytes;
  ForEachPart(value, [&](const jinja::value& part) { bytes += kValueBytes + TextBytes(part); });
  return bytes;
}

// Takes the parts of `value` out of it.
std::vector<jinja::value> Cut(jinja::value value) {
  std::vector<jinja::value> parts;
  ForEachPart(value, [&](const jinja::value& part) { parts.push_back(part); });
  if (auto* object = jinja::cast_val<jinja::value_object>(value)) object->unordered.clear();
  if (auto* function = jinja::cast_val<jinja::value_func>(value)) function->arg0 = nullptr;
  if (auto* named = jinja::cast_val<jinja::value_kwarg>(value)) named->val = nullptr;
  value->val_arr.clear();
  value->val_obj.clear();
  value->val_func = nullptr;
  return parts;
}

// Finds out how deep values are nested, each of them visited once.
class Depths {
 public:
  explicit Depths(std::size_t max) : max_(max) {}

  // False if `root` is nested deeper than the maximum, or contains itself.
  bool IsShallow(const jinja::value& root) {
    std::vector<Open> open;
    Enter(root, &open);
    while (!open.empty()) {
      if (open.size() > max_) return false;
      Open& top = open.back();
      if (top.parts.empty()) {
        depths_[top.value] = top.depth;
        const std::size_t depth = top.depth + 1;
        open.pop_back();
        if (depth > max_) return false;
        if (!open.empty()) open.back().depth = std::max(open.back().depth, depth);
        continue;
      }
      const jinja::value part = std::move(top.parts.back());
      top.parts.pop_back();
      if (!HasParts(part)) continue;
      const auto found = depths_.find(part.get());
      if (found == depths_.end()) {
        Enter(part, &open);
      } else if (found->second == kOpen) {
        return false;
      } else {
        top.depth = std::max(top.depth, found->second + 1);
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t kOpen = SIZE_MAX;

  struct Open {
    const jinja::value_t* value;
    std::vector<jinja::value> parts;  // not yet visited
    std::size_t depth = 0;
  };

  void Enter(const jinja::value& value, std::vector<Open>* open) {
    if (!depths_.emplace(value.get(), kOpen).second) return;
    Open& entered = open->emplace_back(Open{value.get(), {}});
    ForEachPart(value, [&](const jinja::value& part) { entered.parts.push_back(part); });
  }

  const std::size_t max_;
  std::unordered_map<const jinja::value_t*, std::size_t> depths_;
};

}  // namespace

ValueKeeper::ValueKeeper(bool collects)
    : is_inner_(current != nullptr),
      collect_at_bytes_(collects ? kCollectBytes : std::numeric_limits<double>::infinity()) {
  if (!is_inner_) current = this;
}

ValueKeeper::~ValueKeeper() {
  if (!is_inner_) current = nullptr;
  // Containers within containers are kept as well, so what is freed has no parts.
  for (auto& [_, kept] : kept_) (void)Cut(kept.value);
}

void ValueKeeper::Keep(const jinja::value& value) {
  if (current != nullptr) (void)current->Add(value);
}

void ValueKeeper::KeepItems(const jinja::value& value) {
  if (current == nullptr || !current->Add(value)) return;
  ForEachPart(value, [](const jinja::value& part) { (void)current->Add(part); });
}

bool ValueKeeper::Add(const jinja::value& value) {
  if (value == nullptr || !HasParts(value)) return false;
  if (kept_bytes_ > collect_at_bytes_) Collect();
  const auto [kept, is_new] = kept_.try_emplace(value.get());
  if (!is_new) return false;
  kept->second = {value, BytesOf(value)};
  kept_bytes_ += kept->second.bytes;
  return true;
}

void ValueKeeper::Collect() {
  std::vector<jinja::value> unused;
  for (const auto& [_, kept] : kept_) {
    if (kept.value.use_count() == 1) unused.push_back(kept.value);
  }
  while (!unused.empty()) {
    const jinja::value value = std::move(unused.back());
    unused.pop_back();
    const auto kept = kept_.find(value.get());
    kept_bytes_ -= kept->second.bytes;
    kept_.erase(kept);
    std::vector<jinja::value> parts = Cut(value);
    while (!parts.empty()) {
      jinja::value part = std::move(parts.back());
      parts.pop_back();
      // Held by kept_ and here.
      if (kept_.contains(part.get()) && part.use_count() == 2) unused.push_back(std::move(part));
    }
  }
  collect_at_bytes_ = std::max(kCollectBytes, 2 * kept_bytes_);
}

bool ValueKeeper::IsShallow(std::size_t max_depth) const {
  Depths depths(max_depth);
  std::size_t callers = 0;
  for (const auto& [_, kept] : kept_) {
    if (IsCaller(kept.value)) ++callers;
    if (!depths.IsShallow(kept.value)) return false;
  }
  return callers <= max_depth;
}

}  // namespace svc
