#include "engine/llama/answer/bounded_nesting.h"

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/json_depth.h"
#include "engine/llama/answer/call_parts.h"
#include "json.h"

namespace svc {
namespace {

// Levels below the first. In some notations another level encloses the copied ones.
constexpr std::size_t kCopies = kMaxJsonDepth - 2;

// For each part, those that it refers to, or that refer to it.
using References = std::vector<std::vector<CallPart>>;
using Reference = std::pair<CallPart, CallPart>;

std::vector<CallPart> Below(const common_json& part) {
  if (part.contains("children")) return part["children"].get<std::vector<CallPart>>();
  if (part.contains("child")) return {part["child"].get<CallPart>()};
  return {};
}

References Reversed(const References& below) {
  References above(below.size());
  for (CallPart part = 0; part < below.size(); ++part) {
    for (const CallPart each : below[part]) above[each].push_back(part);
  }
  return above;
}

std::set<CallPart> ReachableFrom(CallPart part, const References& references) {
  std::set<CallPart> reached = {part};
  std::vector<CallPart> open = {part};
  while (!open.empty()) {
    const CallPart each = open.back();
    open.pop_back();
    for (const CallPart next : references[each]) {
      if (reached.insert(next).second) open.push_back(next);
    }
  }
  return reached;
}

// The references to a part that is being walked through: every way around leads through one.
std::set<Reference> ReferencesBack(const References& below, CallPart root) {
  std::set<Reference> back;
  std::set<CallPart> seen = {root};
  std::set<CallPart> on_path = {root};
  std::vector<std::pair<CallPart, std::size_t>> path = {{root, 0}};  // part, next reference
  while (!path.empty()) {
    const CallPart part = path.back().first;
    if (path.back().second == below.at(part).size()) {
      on_path.erase(part);
      path.pop_back();
      continue;
    }
    const CallPart next = below[part][path.back().second++];
    if (on_path.contains(next)) {
      back.emplace(part, next);
    } else if (seen.insert(next).second) {
      on_path.insert(next);
      path.emplace_back(next, 0);
    }
  }
  return back;
}

// The parts that lead back to themselves, each with its place among them.
std::map<CallPart, std::size_t> PartsAround(const References& below,
                                            const std::set<Reference>& back) {
  const References above = Reversed(below);
  std::map<CallPart, std::size_t> around;
  for (const auto& [from, to] : back) {
    const std::set<CallPart> leading = ReachableFrom(from, above);
    for (const CallPart part : ReachableFrom(to, below)) {
      if (leading.contains(part)) around.emplace(part, 0);
    }
  }
  std::size_t place = 0;
  for (auto& [part, its_place] : around) its_place = place++;
  return around;
}

void SetBelow(std::vector<CallPart> below, common_json* part) {
  if (part->contains("children")) {
    (*part)["children"] = std::move(below);
  } else {
    (*part)["child"] = below.front();
  }
}

}  // namespace

common_peg_arena LoadBounded(const std::string& saved) {
  common_json parser = common_json::parse(saved);
  common_json& parts = parser["parsers"];
  References below;
  for (const common_json& part : parts) below.push_back(Below(part));
  const std::set<Reference> back = ReferencesBack(below, parser["root"].get<CallPart>());
  if (back.empty()) return common_peg_arena::from_json(parser);
  const std::map<CallPart, std::size_t> around = PartsAround(below, back);
  const CallPart first_copy = below.size();
  const CallPart refuses = first_copy + kCopies * around.size();
  // The originals are level 0. A reference back leads to the next level.
  const auto at_level = [&](std::size_t level, CallPart from, CallPart to) -> CallPart {
    const auto found = around.find(to);
    if (found == around.end()) return to;
    level += back.contains({from, to}) ? 1 : 0;
    if (level > kCopies) return refuses;
    return level == 0 ? to : first_copy + (level - 1) * around.size() + found->second;
  };
  const auto copy_of = [&](std::size_t level, CallPart part) {
    std::vector<CallPart> copied;
    for (const CallPart each : below[part]) copied.push_back(at_level(level, part, each));
    common_json copy = parts[part];
    SetBelow(std::move(copied), &copy);
    return copy;
  };
  for (std::size_t level = 1; level <= kCopies; ++level) {
    for (const auto& [part, place] : around) parts.push_back(copy_of(level, part));
  }
  for (const auto& [part, place] : around) parts[part] = copy_of(0, part);
  // A choice of nothing.
  parts.push_back({{"type", "choice"}, {"children", std::vector<CallPart>()}});
  return common_peg_arena::from_json(parser);
}

}  // namespace svc
