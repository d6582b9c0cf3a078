// GBNF, llama.cpp's notation of grammars (its grammars/README.md), read into a tree.
//
//   root  ::= "yes" | "no" reason{0,3}     # the answer
//   reason ::= " because " [a-z ]+
//
// Everything but token references (`<think>`, `<[42]>`) is taken, with llama.cpp's meaning. Where
// that is to overlook something (a rule defined twice, a bound too high to be held), it is an error
// here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace svc {

// Code points, both ends included.
struct CharRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

struct GbnfExpression {
  enum class Kind { kSequence, kAlternatives, kText, kClass, kRule, kRepeat };
  static constexpr std::uint32_t kUnbounded = UINT32_MAX;

  Kind kind = Kind::kSequence;
  std::string text;                   // kText: UTF-8
  std::vector<CharRange> ranges;      // kClass: sorted, disjoint, what is allowed
  std::uint32_t rule = 0;             // kRule: an index into the rules
  std::uint32_t min = 0;              // kRepeat
  std::uint32_t max = kUnbounded;     // kRepeat
  std::vector<GbnfExpression> parts;  // kSequence, kAlternatives; the one of kRepeat
};

struct Gbnf {
  std::vector<GbnfExpression> rules;
  std::uint32_t root = 0;  // the rule of that name
};

inline constexpr std::size_t kMaxGrammarBytes = std::size_t{256} * 1024;
inline constexpr std::uint32_t kMaxGroupDepth = 64;
inline constexpr std::uint32_t kMaxRepetitions = 100'000;

// kInvalidRequest tells line and column. Nothing of the text is in the message but rule names.
Result<Gbnf> ParseGbnf(std::string_view text);

}  // namespace svc
