// Grammars that have been compiled, and what walking them has shown, for requests to come: the same
// schema comes again and again.
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
  // Of all that are alive, cached or in use.
  static constexpr std::size_t kMaxAliveBytes = 256U << 20U;

  // Compiles what is not there; the least recently used one makes room. Errors: kInvalidRequest,
  // kBusy (too much is alive).
  Result<std::shared_ptr<CompiledGrammar>> Get(const std::string& gbnf);

 private:
  struct Entry {
    std::string text;
    std::shared_ptr<CompiledGrammar> grammar;
  };
  std::shared_ptr<CompiledGrammar> Find(const std::string& gbnf);

  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last in front
  const std::shared_ptr<std::atomic<std::size_t>> alive_bytes_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace svc
