#include "engine/grammar/gbnf.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace svc {
namespace {

constexpr std::uint32_t kMaxCodePoint = 0x10FFFF;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string Shortened(std::string_view name) { return std::string(name.substr(0, 64)); }

// Returns the ranges sorted and disjoint; with `inverse`, the ranges of all other code points.
std::vector<CharRange> Normalise(std::vector<CharRange> ranges, bool inverse) {
  std::ranges::sort(ranges, {}, &CharRange::first);
  std::vector<CharRange> joined;
  for (const CharRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  if (!inverse) return joined;
  std::vector<CharRange> others;
  std::uint32_t next = 0;
  for (const CharRange& range : joined) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) others.push_back({next, kMaxCodePoint});
  return others;
}

// Recursive descent. After the first error, every method returns at once.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Gbnf> Parse() {
    if (text_.size() > kMaxGrammarBytes) {
      return Status(StatusCode::kInvalidRequest,
                    "the grammar is longer than " + std::to_string(kMaxGrammarBytes) + " bytes");
    }
    SkipSpace(/*line_breaks=*/true);
    while (!AtEnd() && ok()) ParseRule();
    CheckRules();
    if (!ok()) return Status(StatusCode::kInvalidRequest, *error_);
    gbnf_.root = rules_.at("root").index;
    return std::move(gbnf_);
  }

 private:
  using Kind = GbnfExpression::Kind;

  struct Rule {
    std::uint32_t index = 0;
    std::size_t first_used_at = 0;
    bool defined = false;
  };

  bool ok() const { return !error_.has_value(); }
  bool AtEnd() const { return at_ >= text_.size(); }
  // Returns '\0' at the end. A null character in the text is an error, except in a comment.
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void Fail(const std::string& what) { FailAt(at_, what); }
  void FailAt(std::size_t at, const std::string& what) {
    if (!ok()) return;
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::ranges::count(before, '\n');
    const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
    const auto column =
        1 + std::count_if(before.begin() + static_cast<std::ptrdiff_t>(start), before.end(),
                          [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
    error_ = "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what;
  }

  void SkipSpace(bool line_breaks) {
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '#') {
        while (!AtEnd() && Peek() != '\r' && Peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (line_breaks && (c == '\r' || c == '\n'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view ReadName() {
    const std::size_t start = at_;
    while (IsNameCharacter(Peek())) ++at_;
    if (at_ == start) Fail("expected the name of a rule");
    return text_.substr(start, at_ - start);
  }

  Rule& RuleNamed(std::string_view name, std::size_t at) {
    const auto [found, added] = rules_.try_emplace(std::string(name));
    if (added) {
      found->second = {.index = static_cast<std::uint32_t>(gbnf_.rules.size()),
                       .first_used_at = at};
      gbnf_.rules.emplace_back();
    }
    return found->second;
  }

  void ParseRule() {
    const std::size_t start = at_;
    const std::string_view name = ReadName();
    if (!ok()) return;
    SkipSpace(false);
    if (text_.substr(at_, 3) != "::=") return Fail("expected ::= after the name of a rule");
    at_ += 3;
    SkipSpace(true);

    Rule& rule = RuleNamed(name, start);
    if (rule.defined) return FailAt(start, "duplicate rule " + Shortened(name));
    rule.defined = true;
    const std::uint32_t index = rule.index;
    GbnfExpression body = ParseAlternatives(0);
    gbnf_.rules[index] = std::move(body);
    if (!AtEnd() && Peek() != '\r' && Peek() != '\n') Fail("expected the end of the line");
    SkipSpace(true);
  }

  GbnfExpression ParseAlternatives(std::uint32_t depth) {
    GbnfExpression all{.kind = Kind::kAlternatives};
    all.parts.push_back(ParseSequence(depth));
    while (ok() && Peek() == '|') {
      ++at_;
      SkipSpace(true);
      all.parts.push_back(ParseSequence(depth));
    }
    if (all.parts.size() > 1) return all;
    GbnfExpression only = std::move(all.parts.front());
    return only;
  }

  // depth: number of enclosing groups. Inside a group, line breaks are allowed anywhere.
  GbnfExpression ParseSequence(std::uint32_t depth) {
    GbnfExpression sequence{.kind = Kind::kSequence};
    bool repeated = false;  // the last part is a repetition
    while (ok() && !AtEnd()) {
      const char c = Peek();
      const bool repeats = c == '*' || c == '+' || c == '?' || c == '{';
      if (c == '"') {
        sequence.parts.push_back(ParseText());
      } else if (c == '[') {
        sequence.parts.push_back(ParseClass());
      } else if (c == '.') {
        ++at_;
        sequence.parts.push_back({.kind = Kind::kClass, .ranges = {{0, kMaxCodePoint}}});
      } else if (c == '(') {
        sequence.parts.push_back(ParseGroup(depth + 1));
      } else if (IsNameCharacter(c)) {
        const std::size_t start = at_;
        const std::string_view name = ReadName();
        sequence.parts.push_back({.kind = Kind::kRule, .rule = RuleNamed(name, start).index});
      } else if (repeats) {
        // The tree is walked recursively: only groups, whose depth is limited, may make it deeper.
        // `x*?` is `x*`, which llama.cpp's own grammars for chat templates contain.
        if (repeated && c == '?' && sequence.parts.back().min <= 1) {
          sequence.parts.back().min = 0;
          ++at_;
        } else if (repeated) {
          Fail("a repetition of a repetition needs parentheses");
        } else {
          ParseRepetition(&sequence.parts);
        }
      } else if (c == '<' || c == '!') {
        Fail("token references are not supported");
      } else {
        break;
      }
      repeated = repeats;
      SkipSpace(depth > 0);
    }
    return sequence;
  }

  GbnfExpression ParseGroup(std::uint32_t depth) {
    if (depth > kMaxGroupDepth) {
      Fail("groups are nested deeper than " + std::to_string(kMaxGroupDepth));
      return {};
    }
    ++at_;
    SkipSpace(true);
    GbnfExpression group = ParseAlternatives(depth);
    if (Peek() != ')') Fail("expected )");
    ++at_;
    return group;
  }

  void ParseRepetition(std::vector<GbnfExpression>* parts) {
    const std::size_t start = at_;
    std::uint32_t min = 0;
    std::uint32_t max = GbnfExpression::kUnbounded;
    switch (text_[at_++]) {
      case '+':
        min = 1;
        break;
      case '?':
        max = 1;
        break;
      case '{':
        SkipSpace(true);
        min = ReadCount();
        max = min;
        SkipSpace(true);
        if (Peek() == ',') {
          ++at_;
          SkipSpace(true);
          max = IsDigit(Peek()) ? ReadCount() : GbnfExpression::kUnbounded;
          SkipSpace(true);
        }
        if (Peek() != '}') Fail("expected }");
        ++at_;
        break;
      default:  // '*'
        break;
    }
    if (parts->empty()) return FailAt(start, "there is nothing to repeat before this");
    if (min > max) return FailAt(start, "the lower bound exceeds the upper bound");
    GbnfExpression repeat{.kind = Kind::kRepeat, .min = min, .max = max};
    repeat.parts.push_back(std::move(parts->back()));
    parts->back() = std::move(repeat);
  }

  std::uint32_t ReadCount() {
    if (!IsDigit(Peek())) Fail("expected a number");
    std::uint32_t count = 0;
    while (IsDigit(Peek()) && ok()) {
      count = count * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
      if (count > kMaxRepetitions) {
        Fail("more than " + std::to_string(kMaxRepetitions) + " repetitions");
      }
    }
    return count;
  }

  GbnfExpression ParseText() {
    GbnfExpression expression{.kind = Kind::kText};
    ++at_;
    while (ok() && Peek() != '"') expression.text += Utf8Of(ReadCharacter());
    ++at_;
    return expression;
  }

  GbnfExpression ParseClass() {
    const std::size_t start = at_++;
    const bool inverse = Peek() == '^';
    if (inverse) ++at_;
    std::vector<CharRange> ranges;
    while (ok() && Peek() != ']') {
      CharRange range;
      range.first = range.last = ReadCharacter();
      if (Peek() == '-' && Peek(1) != ']') {
        ++at_;
        range.last = ReadCharacter();
      }
      if (range.first > range.last) FailAt(start, "the character range is reversed");
      ranges.push_back(range);
    }
    ++at_;
    if (ranges.empty()) FailAt(start, "empty character class");
    return {.kind = Kind::kClass, .ranges = Normalise(std::move(ranges), inverse)};
  }

  std::uint32_t ReadCharacter() {
    if (AtEnd()) {
      Fail("the grammar ends inside a string or a character class");
      return 0;
    }
    if (Peek() == '\\') return ReadEscape();
    const auto first = static_cast<unsigned char>(Peek());
    const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    std::uint32_t code_point = length == 1 ? first : first & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
      code_point = code_point << 6U | (static_cast<unsigned char>(Peek(i)) & 0x3FU);
    }
    if (first == 0 || code_point > kMaxCodePoint ||
        Utf8Of(code_point) != text_.substr(at_, length)) {
      Fail("invalid UTF-8 or a null character");
    }
    at_ += length;
    return code_point;
  }

  std::uint32_t ReadEscape() {
    const char kind = Peek(1);
    at_ += 2;
    switch (kind) {
      case 'x':
        return ReadHex(2);
      case 'u':
        return ReadHex(4);
      case 'U':
        return ReadHex(8);
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
        return static_cast<unsigned char>(kind);
      default:
        FailAt(at_ - 2, "invalid escape (valid: \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] \\-)");
        return 0;
    }
  }

  std::uint32_t ReadHex(std::size_t digits) {
    const std::size_t start = at_ - 2;
    const std::string_view hex = text_.substr(at_, digits);
    std::uint32_t value = 0;
    const char* const end = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16).ptr;
    if (static_cast<std::size_t>(end - hex.data()) != digits) {
      FailAt(start, "expected " + std::to_string(digits) + " hexadecimal digits");
      return 0;
    }
    at_ += digits;
    if (value > kMaxCodePoint) FailAt(start, "the code point is above 10FFFF");
    return value;
  }

  void CheckRules() {
    for (const auto& [name, rule] : rules_) {
      if (!rule.defined) FailAt(rule.first_used_at, "there is no rule named " + Shortened(name));
    }
    if (ok() && !rules_.contains("root")) FailAt(0, "there is no rule named root");
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::optional<std::string> error_;
  std::map<std::string, Rule, std::less<>> rules_;
  Gbnf gbnf_;
};

}  // namespace

std::string Utf8Of(std::uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  const std::size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  std::string text(length, '\0');
  for (std::size_t i = length; --i > 0; code_point >>= 6U) {
    text[i] = static_cast<char>(0x80U | (code_point & 0x3FU));
  }
  text[0] = static_cast<char>(0xF00U >> length | code_point);
  return text;
}

std::string WithPrefix(std::string_view gbnf, std::string_view prefix) {
  std::string prefixed;
  char opened = '\0';  // the character with which a text, class, count or comment has begun
  for (std::size_t at = 0; at < gbnf.size(); ++at) {
    const char c = gbnf[at];
    const bool is_name = opened == '\0' && IsNameCharacter(c);
    if (is_name && (at == 0 || !IsNameCharacter(gbnf[at - 1]))) prefixed += prefix;
    prefixed += c;
    if (opened == '\0') {
      if (std::string_view("\"[{#").find(c) != std::string_view::npos) opened = c;
    } else if (opened == '#') {
      if (c == '\r' || c == '\n') opened = '\0';
    } else if (c == '\\' && opened != '{') {
      if (++at < gbnf.size()) prefixed += gbnf[at];
    } else if (c == (opened == '[' ? ']' : opened == '{' ? '}' : '"')) {
      opened = '\0';
    }
  }
  return prefixed;
}

Result<Gbnf> ParseGbnf(std::string_view text) { return Parser(text).Parse(); }

}  // namespace svc
