#include "engine/llama/answer/text_until.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "json-schema-to-grammar.h"

namespace svc {
namespace {

std::vector<std::string> CharactersOf(const std::string& text) {
  std::vector<std::string> characters;
  for (const char byte : text) {
    const bool continues = (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
    if (!continues || characters.empty()) characters.emplace_back();
    characters.back() += byte;
  }
  return characters;
}

// The character within a class.
std::string InClass(const std::string& character) {
  if (character.size() > 1) return character;
  std::array<char, 8> escaped{};
  std::snprintf(escaped.data(), escaped.size(), "\\x%02x",
                static_cast<unsigned>(static_cast<unsigned char>(character.front())));
  return escaped.data();
}

// KMP transition: length of the longest prefix of `end` that is a suffix of end[0, read) + next.
std::size_t Read(const std::vector<std::string>& end, std::size_t read, const std::string& next) {
  std::vector<std::string> text(end.begin(), end.begin() + static_cast<std::ptrdiff_t>(read));
  text.push_back(next);
  for (std::size_t length = std::min(text.size(), end.size()); length > 0; --length) {
    if (std::equal(text.end() - static_cast<std::ptrdiff_t>(length), text.end(), end.begin())) {
      return length;
    }
  }
  return 0;
}

}  // namespace

std::string NoneOf(const std::string& text) {
  return "[^" + InClass(CharactersOf(text).front()) + "]";
}

std::string TextUntil(const std::string& name, const std::string& end,
                      const std::string& not_first) {
  const std::vector<std::string> characters = CharactersOf(end);
  std::vector<std::string> different = characters;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());

  const auto rule_of = [&](std::size_t read) { return name + "-" + std::to_string(read); };
  // Alternatives after `read` matched characters: a continued match, or any other character except
  // `excluded`.
  const auto after = [&](std::size_t read, const std::string& excluded) {
    std::string continued;
    std::string others = excluded.empty() ? "" : InClass(excluded);
    for (const std::string& next : different) {
      const std::size_t now = Read(characters, read, next);
      if (now == 0 || next == excluded) continue;
      others += InClass(next);
      continued += gbnf_format_literal(next);
      if (now < characters.size()) continued += " " + rule_of(now);
      continued += " | ";
    }
    return continued + "[^" + others + "] " + rule_of(0);
  };

  std::string rules = "\n" + name + " ::= ";
  const std::string guarded = not_first.empty() ? "" : CharactersOf(not_first).front();
  rules += guarded.empty() ? rule_of(0) : gbnf_format_literal(end) + " | " + after(0, guarded);
  for (std::size_t read = 0; read < characters.size(); ++read) {
    rules += "\n" + rule_of(read) + " ::= " + after(read, "");
  }
  return rules;
}

}  // namespace svc
