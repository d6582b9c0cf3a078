// Pictures and sounds in a prompt. A projector (llama/media/projector.h) turns each into rows of
// embeddings, which the model takes in place of tokens. In a prompt's list of tokens each such row
// has an id like a token's, outside the vocabulary, made of a digest of the bytes of the picture or
// sound. So the prefix cache and its disk tier, which compare tokens, work for them unchanged. One
// bit of the id is set for the first row: some models have nothing between two pictures.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/common_length.h"
#include "engine/base/ids.h"
#include "engine/base/siphash.h"

namespace svc {

inline constexpr Token kMostMediaToken = -(Token{1} << 30U);
inline constexpr std::uint32_t kFirstRow = 1U << 29U;  // bit of an id

// True for the id of a row of a picture or sound.
constexpr bool IsMediaToken(Token token) { return token <= kMostMediaToken; }

// True for the id of the first row of a picture or sound.
constexpr bool BeginsMedia(Token token) {
  return IsMediaToken(token) && (static_cast<std::uint32_t>(token) & kFirstRow) != 0;
}

// Ids of the `count` rows of a picture or sound with this digest. The digest must be secret: ids
// have only 29 bits of it, so a client who could compute them could choose another picture with the
// same id.
std::vector<Token> MediaTokens(const SipTag& digest, std::uint32_t count);

// Place of a row of a model with M-RoPE, relative to the position of its picture's first row: time,
// line, column, and one more.
struct MediaPlace {
  std::array<std::int32_t, 4> offsets = {};
  std::array<bool, 4> is_relative = {};  // false: the offset is the position itself

  std::array<std::int32_t, 4> At(std::int32_t first) const {
    std::array<std::int32_t, 4> place = offsets;
    for (std::size_t i = 0; i < place.size(); ++i) place[i] += is_relative[i] ? first : 0;
    return place;
  }
};

// A run of rows in a prompt.
struct MediaRows {
  std::uint32_t begin = 0;  // index of the first row in the prompt
  std::uint32_t count = 0;
  std::uint32_t width = 0;  // floats per row
  // True: each row sees all others, also those behind it. They are computed in one batch.
  bool is_whole = false;
  // Number of positions that the rows take: with M-RoPE the larger side of a picture.
  std::uint32_t positions = 0;
  std::vector<MediaPlace> places;  // with M-RoPE, of each row; else empty
  std::shared_ptr<const std::vector<float>> embeddings;

  bool has_own_positions() const { return !places.empty(); }
  std::uint32_t end() const { return begin + count; }
  // REQUIRES: the row at `index` of the prompt is one of these.
  const float* Row(std::uint32_t index) const {
    return embeddings->data() + std::size_t{index - begin} * width;
  }
};

// The largest number of tokens, at most `length`, that parts no picture or sound: with M-RoPE the
// rows of a picture have one position, so the cache cannot be cut between them.
inline std::uint32_t WholePictures(std::span<const Token> tokens, std::uint32_t length) {
  if (length == tokens.size()) return length;
  const auto is_inside = [&](Token token) { return IsMediaToken(token) && !BeginsMedia(token); };
  while (length > 0 && IsMediaToken(tokens[length - 1]) && is_inside(tokens[length])) --length;
  return length;
}

// Number of leading tokens of both that one sequence can share with the other.
inline std::uint32_t SharedLength(std::span<const Token> a, std::span<const Token> b) {
  return WholePictures(a, CommonLength(a, b));
}

// The run that has the row at `index`, or else the next one; null: there is none.
inline const MediaRows* MediaFrom(const std::vector<MediaRows>& media, std::uint32_t index) {
  const auto found =
      std::ranges::find_if(media, [&](const MediaRows& run) { return run.end() > index; });
  return found == media.end() ? nullptr : &*found;
}

// The run that has the row at `index`; null: none has.
inline const MediaRows* MediaAt(const std::vector<MediaRows>& media, std::uint32_t index) {
  const MediaRows* run = MediaFrom(media, index);
  return run == nullptr || index < run->begin ? nullptr : run;
}

// Number of rows from `index` on that one batch computes, if `rows` are wanted: the rows of one
// picture or sound, or tokens up to the next one.
inline std::uint32_t RowsOfOneKind(const std::vector<MediaRows>& media, std::uint32_t index,
                                   std::uint32_t rows) {
  const MediaRows* run = MediaFrom(media, index);
  if (run == nullptr) return rows;
  if (index < run->begin) return std::min(rows, run->begin - index);
  const std::uint32_t left = run->end() - index;
  return run->is_whole ? left : std::min(rows, left);
}

}  // namespace svc
