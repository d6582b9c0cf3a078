#include "engine/base/text_stream.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace svc {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Character {
  std::size_t length = 0;  // in bytes
  bool valid = false;
  bool cut = false;  // the text ends inside it; more bytes could complete it
};

// The first character of `text`, or the maximal invalid sequence there.
Character FirstCharacter(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {.length = 1, .valid = true};

  std::size_t length = 0;
  // Bounds of the second byte: they exclude overlong forms, surrogates and code points above
  // U+10FFFF.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {.length = 1};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {.length = i, .cut = true};
    if (byte(i) < low || byte(i) > high) return {.length = i};
    low = 0x80;
    high = 0xBF;
  }
  return {.length = length, .valid = true};
}

// Offset of the longest suffix of `text` that is a proper prefix of `stop`; text.size() if there is
// none.
std::size_t PartialStop(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == stop.substr(0, n)) return text.size() - n;
  }
  return text.size();
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stop, std::vector<std::string> own_stop)
    : stop_(std::move(stop)) {
  const auto empty = [](const std::string& s) { return s.empty(); };
  std::erase_if(stop_, empty);
  told_ = stop_.size();
  std::erase_if(own_stop, empty);
  std::ranges::move(own_stop, std::back_inserter(stop_));
}

// Moves whole characters from bytes_ to characters_. all: an incomplete one at the end becomes
// U+FFFD.
void TextStream::TakeCharacters(bool all) {
  std::string_view rest = bytes_;
  while (!rest.empty()) {
    const Character character = FirstCharacter(rest);
    if (character.cut && !all) break;
    characters_ += character.valid ? rest.substr(0, character.length) : kReplacement;
    rest.remove_prefix(character.length);
  }
  bytes_.erase(0, bytes_.size() - rest.size());
}

bool TextStream::Push(std::string_view bytes, std::string* text) {
  bytes_ += bytes;
  TakeCharacters(false);
  return Search(0, text);
}

bool TextStream::PassStop(std::string* text) {
  stopped_by_ = std::string::npos;
  return Search(FirstCharacter(characters_).length, text);
}

// `from`: where stop strings of the client may begin. Those of the template may begin anywhere.
bool TextStream::Search(std::size_t from, std::string* text) {
  std::size_t end = std::string::npos;
  for (std::size_t i = 0; i < stop_.size(); ++i) {
    const std::size_t found = characters_.find(stop_[i], i < told_ ? from : 0);
    if (found >= end) continue;
    end = found;
    stopped_by_ = i;
  }
  if (end != std::string::npos) {
    text->append(characters_, 0, end);
    characters_.erase(0, end);
    return true;
  }
  std::size_t shown = characters_.size();
  for (const std::string& stop : stop_) shown = std::min(shown, PartialStop(characters_, stop));
  text->append(characters_, 0, shown);
  characters_.erase(0, shown);
  return false;
}

void TextStream::Finish(std::string* text) {
  TakeCharacters(true);
  *text += characters_;
  characters_.clear();
}

}  // namespace svc
