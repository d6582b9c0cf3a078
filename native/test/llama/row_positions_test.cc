// Positions of rows behind pictures, compared with walking over the text row by row: computing,
// sharing, cutting, saving and loading.
#include "engine/llama/row_positions.h"

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "test.h"

namespace svc {
namespace {

MediaRows Picture(std::uint32_t begin, std::uint32_t count, std::uint32_t positions) {
  MediaRows rows = {.begin = begin, .count = count, .positions = positions};
  rows.places.resize(count);
  return rows;
}

// A text, with the position of each of its rows and of the one behind them.
struct Text {
  std::vector<MediaRows> pictures;
  std::vector<llama_pos> positions;

  std::uint32_t size() const { return static_cast<std::uint32_t>(positions.size()) - 1; }
  // The largest position of the rows before `index`; -1: there are none.
  llama_pos Last(std::uint32_t index) const { return index == 0 ? -1 : positions[index - 1]; }
  // True if a picture has rows before `index` and at it.
  bool Parts(std::uint32_t index) const { return Last(index) == positions[index]; }
};

Text RandomText(std::mt19937& random) {
  Text text;
  llama_pos next = 0;
  const auto add_tokens = [&] {
    for (std::size_t left = random() % 4; left > 0; --left) text.positions.push_back(next++);
  };
  add_tokens();
  for (std::size_t left = random() % 4; left > 0; --left) {
    const auto begin = static_cast<std::uint32_t>(text.positions.size());
    const auto count = static_cast<std::uint32_t>(1 + random() % 9);
    text.pictures.push_back(Picture(begin, count, 1 + random() % count));
    text.positions.insert(text.positions.end(), count, next);
    next += static_cast<llama_pos>(text.pictures.back().positions);
    add_tokens();
  }
  text.positions.push_back(next);
  return text;
}

// Adds the rows from `begin` on, and checks the next index after each.
void Compute(RowPositions& rows, SequenceId id, const Text& text, std::uint32_t begin) {
  for (std::uint32_t index = begin; index < text.size(); ++index) {
    const MediaRows* picture = MediaAt(text.pictures, index);
    if (picture != nullptr) rows.Computed(id, *picture, index + 1);
    EXPECT_EQ(rows.Next(id, text.Last(index + 1)), index + 1);
  }
}

void ExpectRows(const RowPositions& rows, SequenceId id, const Text& text, std::uint32_t end) {
  for (std::uint32_t index = 0; index <= end; ++index) {
    EXPECT_EQ(rows.Of(id, index), text.positions[index]);
    if (!text.Parts(index)) EXPECT_EQ(rows.Next(id, text.Last(index)), index);
  }
}

TEST(EachSequenceHasItsOwnPictures) {
  RowPositions rows;
  EXPECT(rows.Next(1, -1) == 0 && rows.Next(1, 7) == 8);
  MediaRows without_places = Picture(2, 6, 3);
  without_places.places.clear();  // of a model without M-RoPE
  rows.Computed(1, without_places, 8);
  rows.Computed(2, Picture(2, 6, 3), 8);
  rows.Computed(3, Picture(10, 4, 4), 14);
  EXPECT(rows.Of(1, 9) == 9 && rows.Of(2, 9) == 6 && rows.Of(3, 11) == 10);
  EXPECT(rows.SizeOf(1, 9) == 0 && rows.SizeOf(2, 9) > 0 && rows.SizeOf(2, 2) == 0);
  rows.Share(2, 3, 8);  // before the picture that it has already
  EXPECT_EQ(rows.Of(3, 11), 7);
  rows.Clear();
  EXPECT_EQ(rows.Of(2, 9), 9);
}

TEST(RowsAreWhereAWalkOverTheTextFindsThem) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const Text text = RandomText(random);
    const auto place = [&] {
      auto index = static_cast<std::uint32_t>(random() % (text.size() + 1));
      while (text.Parts(index)) --index;
      return index;
    };
    RowPositions rows;
    Compute(rows, 0, text, 0);
    ExpectRows(rows, 0, text, text.size());
    // In two steps, as from two nodes of the prefix cache; the first may reach further.
    const std::uint32_t first = place();
    const std::uint32_t end = place();
    rows.Share(0, 1, first);
    EXPECT_EQ(rows.SizeOf(1, text.size()), rows.SizeOf(0, first));
    rows.Share(0, 1, end);
    rows.Cut(1, text.Last(end));
    ExpectRows(rows, 1, text, end);
    Compute(rows, 1, text, end);
    ExpectRows(rows, 1, text, text.size());
    std::vector<std::uint8_t> saved(rows.SizeOf(1, end));
    rows.Save(1, end, saved);
    const std::uint32_t loaded = std::min(end, place());
    EXPECT(rows.Load(2, saved, loaded));
    ExpectRows(rows, 2, text, loaded);
    EXPECT_EQ(rows.SizeOf(2, text.size()), rows.SizeOf(1, loaded));
    EXPECT(rows.Load(2, saved, end));  // adds only what is missing
    ExpectRows(rows, 2, text, end);
    rows.Cut(2, -1);
    EXPECT_EQ(rows.SizeOf(2, text.size()), 0U);
  }
}

TEST(DamagedPicturesAreRefused) {
  RowPositions rows;
  rows.Computed(0, Picture(2, 6, 3), 8);
  rows.Computed(0, Picture(10, 4, 4), 14);
  std::vector<std::uint8_t> saved(rows.SizeOf(0, 20));
  rows.Save(0, 20, saved);
  const auto expect_refused = [&](std::span<const std::uint8_t> bytes) {
    EXPECT(!rows.Load(1, bytes, 20));
    EXPECT_EQ(rows.SizeOf(1, 1000), 0U);  // nothing is noted
  };
  for (std::size_t size = 1; size < saved.size(); ++size) {
    if (size != saved.size() / 2) expect_refused(std::span(saved).first(size));
  }
  // A number that is huge: a begin, a count, a number of positions, or of rows in the cache.
  for (std::size_t number = 0; number < saved.size() / 4; ++number) {
    std::vector<std::uint8_t> damaged = saved;
    std::fill_n(damaged.begin() + number * 4, 4, 0xFF);
    expect_refused(damaged);
  }
  std::vector<std::uint8_t> swapped = saved;
  std::rotate(swapped.begin(), swapped.begin() + swapped.size() / 2, swapped.end());
  expect_refused(swapped);
  EXPECT(rows.Load(1, {}, 20));
  EXPECT(rows.Load(1, saved, 20));
  EXPECT_EQ(rows.Of(1, 14), 11);
}

TEST(PositionsBehindAPicture) {
  MediaRows picture = Picture(4, 12, 4);
  RowPositions positions;
  EXPECT_EQ(positions.Of(0, 7), 7);
  EXPECT_EQ(positions.Next(0, 3), 4U);
  positions.Computed(0, picture, 10);
  EXPECT_EQ(positions.Of(0, 3), 3);
  EXPECT_EQ(positions.Of(0, 9), 4);
  EXPECT_EQ(positions.Next(0, 4), 10U);  // a part of the picture
  positions.Computed(0, picture, 16);
  EXPECT_EQ(positions.Next(0, 4), 16U);
  EXPECT_EQ(positions.Of(0, 16), 8);
  EXPECT_EQ(positions.Next(0, 8), 17U);
  EXPECT_EQ(positions.Of(1, 16), 16);
  // A second one.
  picture.begin = 20;
  positions.Computed(0, picture, 32);
  EXPECT_EQ(positions.Of(0, 20), 12);
  EXPECT_EQ(positions.Of(0, 32), 16);
  positions.Cut(0, 11);
  EXPECT_EQ(positions.Next(0, 11), 20U);
  EXPECT_EQ(positions.Of(0, 32), 24);
  positions.Cut(0, -1);
  EXPECT_EQ(positions.Of(0, 32), 32);
  // One line of rows takes as many positions as it has rows, but they are all at the first one.
  positions.Computed(0, Picture(4, 5, 5), 7);
  EXPECT_EQ(positions.Next(0, 4), 7U);
  positions.Computed(0, Picture(4, 5, 5), 9);
  EXPECT_EQ(positions.Next(0, 4), 9U);
  EXPECT_EQ(positions.Of(0, 9), 9);
}

TEST(PositionsOfASharedText) {
  RowPositions positions;
  positions.Computed(0, Picture(4, 12, 4), 16);
  positions.Computed(0, Picture(20, 9, 3), 29);
  positions.Share(0, 1, 20);
  EXPECT_EQ(positions.Of(1, 20), 12);
  EXPECT_EQ(positions.Of(1, 40), 32);
  positions.Share(0, 1, 40);
  EXPECT_EQ(positions.Of(1, 40), positions.Of(0, 40));
  // Another sequence may have the end of the text before its beginning.
  positions.Share(0, 2, 40);
  positions.Share(0, 2, 20);
  EXPECT_EQ(positions.Of(2, 40), positions.Of(0, 40));
  // Text is cut off behind the second picture.
  positions.Cut(2, 14);
  EXPECT_EQ(positions.Next(2, 14), 29U);
}

TEST(PositionsThatWereSaved) {
  RowPositions positions;
  positions.Computed(0, Picture(4, 12, 4), 16);
  positions.Computed(0, Picture(20, 9, 3), 23);
  std::vector<std::uint8_t> saved(positions.SizeOf(0, 40));
  positions.Save(0, 40, saved);
  EXPECT_EQ(positions.SizeOf(0, 20) * 2, saved.size());
  EXPECT_EQ(positions.SizeOf(5, 40), 0U);
  EXPECT(positions.Load(1, saved, 20));
  EXPECT_EQ(positions.Next(1, 11), 20U);
  EXPECT(positions.Load(2, saved, 40));
  EXPECT_EQ(positions.Next(2, 12), 23U);  // three rows of the second picture
  // Damaged ones.
  EXPECT(!positions.Load(3, std::span(saved).first(saved.size() - 1), 40));
  for (std::size_t at = 3; at < saved.size(); at += 4) {
    std::vector<std::uint8_t> bad = saved;
    bad[at] = 0xFF;
    EXPECT(!positions.Load(3, bad, 40));
  }
  EXPECT_EQ(positions.Of(3, 40), 40);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
