#include "engine/grammar/grammar_cache.h"

#include <algorithm>

namespace svc {

Result<std::shared_ptr<CompiledGrammar>> GrammarCache::Get(const std::string& gbnf) {
  if (std::shared_ptr<CompiledGrammar> known = Find(gbnf)) return known;
  if (*alive_bytes_ > kMaxAliveBytes) {
    return Status(StatusCode::kBusy, "too many large grammars are in use");
  }
  Result<std::shared_ptr<CompiledGrammar>> compiled = CompileGrammar(gbnf);
  if (!compiled.ok()) return compiled;
  const std::size_t bytes = compiled.value()->automaton->grammar_bytes();
  *alive_bytes_ += bytes;
  compiled.value()->counted =
      std::shared_ptr<void>(nullptr, [alive = alive_bytes_, bytes](void*) { *alive -= bytes; });

  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.text == gbnf; });
  entries_.push_front({gbnf, compiled.value()});
  if (entries_.size() > kEntries) entries_.pop_back();
  return compiled;
}

std::shared_ptr<CompiledGrammar> GrammarCache::Find(const std::string& gbnf) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.text == gbnf && !entry.grammar->full; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->grammar;
}

}  // namespace svc
