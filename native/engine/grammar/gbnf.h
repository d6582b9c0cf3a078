// Parser for GBNF, llama.cpp's grammar notation (its grammars/README.md); returns a tree.
//
//   root  ::= "yes" | "no" reason{0,3}     # the answer
//   reason ::= " because " [a-z ]+
//
// Supports everything but token references (`<think>`, `<[42]>`), with llama.cpp's meaning.
// Mistakes that llama.cpp ignores (a rule defined twice, a repetition count too large to represent)
// are errors here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace svc {

// Range of code points, both ends included.
struct CharRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

struct GbnfExpression {
  enum class Kind { kSequence, kAlternatives, kText, kClass, kRule, kRepeat };
  static constexpr std::uint32_t kUnbounded = UINT32_MAX;

  Kind kind = Kind::kSequence;
  std::string text;                   // kText: UTF-8
  std::vector<CharRange> ranges;      // kClass: allowed characters; sorted, disjoint
  std::uint32_t rule = 0;             // kRule: an index into the rules
  std::uint32_t min = 0;              // kRepeat
  std::uint32_t max = kUnbounded;     // kRepeat
  std::vector<GbnfExpression> parts;  // kSequence, kAlternatives: all; kRepeat: one
};

struct Gbnf {
  std::vector<GbnfExpression> rules;
  std::uint32_t root = 0;  // index of the rule named "root"
};

// A client's own grammar is shorter (LIMITS.grammarBytes); that of the calls of 512 tools is not.
inline constexpr std::size_t kMaxGrammarBytes = std::size_t{4} << 20U;
inline constexpr std::uint32_t kMaxGroupDepth = 64;
inline constexpr std::uint32_t kMaxRepetitions = 100'000;

// Parses a grammar. Error: kInvalidRequest, with line and column. Of the text, the message contains
// only rule names.
Result<Gbnf> ParseGbnf(std::string_view text);

// Returns the grammar with `prefix` before the names of its rules, so that it can stand in one text
// with another. REQUIRES: ParseGbnf takes it.
std::string WithPrefix(std::string_view gbnf, std::string_view prefix);

// Returns the UTF-8 of a code point of at most 10FFFF.
std::string Utf8Of(std::uint32_t code_point);

}  // namespace svc
