// Cache of compiled grammars and of the automaton states computed so far: many requests use the
// same schema.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "engine/grammar/grammar_constraint.h"

namespace svc {

// Owner: the engine. Any thread.
class GrammarCache {
 public:
  static constexpr std::size_t kEntries = 16;
  // Limit for all grammars alive, cached or in use.
  static constexpr std::size_t kMaxAliveBytes = 256U << 20U;

  // Returns the compiled grammar, from the cache if possible; evicts the least recently used one.
  // Errors: kInvalidRequest, kBusy (kMaxAliveBytes is exceeded).
  Result<std::shared_ptr<CompiledGrammar>> Get(const std::string& gbnf);

 private:
  struct Entry {
    std::string text;
    std::shared_ptr<CompiledGrammar> grammar;
  };
  std::shared_ptr<CompiledGrammar> Find(const std::string& gbnf);

  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  const std::shared_ptr<std::atomic<std::size_t>> alive_bytes_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace svc
