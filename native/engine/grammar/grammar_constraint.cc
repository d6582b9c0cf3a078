#include "engine/grammar/grammar_constraint.h"

#include <string>
#include <string_view>
#include <utility>

#include "engine/base/thread_clock.h"

namespace svc {
namespace {

constexpr std::size_t kMaxAllowedBytes = 4U << 20U;
// Bound: a grammar may force an endless text of one letter.
constexpr std::size_t kMaxForcedBytes = 1024;
// Limit of the CPU time that a text may spend in its grammar: kMaxSeconds + kMaxSecondsPerToken per
// token. A JSON schema takes 1 ms per token at first and a few microseconds later.
constexpr double kMaxSeconds = 5;
constexpr double kMaxSecondsPerToken = 0.005;

// Adds the CPU time of this thread between its construction and its destruction to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double* sum) : sum_(sum), from_(ThreadCpuSeconds()) {}
  ~Stopwatch() { *sum_ += ThreadCpuSeconds() - from_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double* const sum_;
  const double from_;
};

}  // namespace

Result<std::shared_ptr<CompiledGrammar>> CompileGrammar(const std::string& gbnf) {
  Result<std::shared_ptr<const Grammar>> grammar = Grammar::Compile(gbnf);
  if (!grammar.ok()) return Status(grammar.status().code(), grammar.status().message(), "grammar");
  auto compiled = std::make_shared<CompiledGrammar>();
  compiled->automaton = std::make_shared<GrammarAutomaton>(std::move(grammar.value()));
  if (compiled->automaton->start() <= GrammarAutomaton::kLost) {
    return Status(StatusCode::kInvalidRequest,
                  "the grammar is too ambiguous at its beginning, or matches nothing", "grammar");
  }
  return compiled;
}

bool GrammarConstraint::Allows(Token token) const {
  return vocabulary_->After(automaton(), state_, token) != GrammarAutomaton::kDead;
}

const TokenSet& GrammarConstraint::Allowed() {
  const auto known = grammar_->allowed.find(state_);
  if (known != grammar_->allowed.end()) return known->second;
  const Stopwatch stopwatch(&spent_seconds_);
  TokenSet allowed = vocabulary_->Allowed(automaton(), state_);
  if ((grammar_->allowed.size() + 1) * allowed.bytes() > kMaxAllowedBytes) {
    grammar_->allowed.clear();
  }
  return grammar_->allowed.emplace(state_, std::move(allowed)).first->second;
}

void GrammarConstraint::Accept(Token token) {
  const Stopwatch stopwatch(&spent_seconds_);
  ++accepted_;
  state_ = vocabulary_->After(automaton(), state_, token);
}

bool GrammarConstraint::AcceptText(std::string_view text) {
  const Stopwatch stopwatch(&spent_seconds_);
  const GrammarAutomaton::State state = After(text);
  if (state == GrammarAutomaton::kDead) return false;
  state_ = state;
  return true;
}

GrammarAutomaton::State GrammarConstraint::After(std::string_view text) const {
  GrammarAutomaton::State state = state_;
  for (const char byte : text) {
    if (state == GrammarAutomaton::kDead) break;
    state = automaton().Next(state, static_cast<std::uint8_t>(byte));
  }
  return state;
}

bool GrammarConstraint::is_too_slow() const {
  return state_ == GrammarAutomaton::kLost ||
         spent_seconds_ > kMaxSeconds + static_cast<double>(accepted_) * kMaxSecondsPerToken;
}

std::vector<Token> GrammarConstraint::Force() {
  std::string text;
  GrammarAutomaton::State state = state_;
  {
    const Stopwatch stopwatch(&spent_seconds_);
    for (int byte = 0; text.size() < kMaxForcedBytes; text.push_back(static_cast<char>(byte))) {
      byte = automaton().ForcedByte(state);
      if (byte < 0) break;
      const auto next = automaton().Next(state, static_cast<std::uint8_t>(byte));
      if (next == GrammarAutomaton::kLost) break;
      state = next;
    }
  }
  if (text.empty()) return {};

  std::vector<Token> tokens = tokenize_(text);
  if (!tokens.empty() && !automaton().IsEnded(state)) tokens.pop_back();
  // Some vocabularies put a space before every text: keep only the tokens that spell the forced
  // text.
  std::string_view rest = text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view piece = vocabulary_->piece(tokens[i]);
    if (piece.empty() || !rest.starts_with(piece)) {
      tokens.resize(i);
      break;
    }
    rest.remove_prefix(piece.size());
  }
  for (const Token token : tokens) Accept(token);
  return tokens;
}

void GrammarConstraint::KeepSmall() {
  if (!automaton().full()) return;
  grammar_->full = true;
  auto fresh = std::make_shared<CompiledGrammar>();
  fresh->automaton = automaton().Fresh(&state_);
  grammar_ = std::move(fresh);
}

}  // namespace svc
