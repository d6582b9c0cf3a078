// Pictures: the pixels of each format, and files that are refused before they are decoded.
#include "engine/llama/media/picture.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "engine/base/base64.h"
#include "engine/llama/media/media_limits.h"
#include "media_files.h"
#include "media_samples.h"
#include "test.h"

namespace svc {
namespace {

using test::Bytes;
using test::SomePng;
using test::Wav;

std::string WhyNoPicture(const Bytes& bytes) { return DecodePicture(bytes).status().message(); }

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(APictureHasItsPixels) {
  const Bytes png = test::Png(3, 2, [](std::uint32_t x, std::uint32_t y) -> test::Color {
    return {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y), 7};
  });
  const Result<Picture> picture = DecodePicture(png);
  EXPECT(picture.ok());
  if (!picture.ok()) return;
  EXPECT_EQ(picture.value().width, 3U);
  EXPECT_EQ(picture.value().height, 2U);
  const Bytes pixels = {0, 0, 7, 1, 0, 7, 2, 0, 7, 0, 1, 7, 1, 1, 7, 2, 1, 7};
  EXPECT(picture.value().pixels == pixels);
}

TEST(PicturesThatAreTooLarge) {
  // Only the header is read: there are no pixels.
  EXPECT(Has(WhyNoPicture(test::PngOf(65000, 65000, {})), "a side of more than"));
  EXPECT(Has(WhyNoPicture(test::PngOf(20000, 200, {})), "a side of more than"));
  EXPECT(Has(WhyNoPicture(test::PngOf(16000, 16000, {})), "are allowed"));
  EXPECT(Has(WhyNoPicture(test::PngOf(1000, 4, {})), "times as long"));
  EXPECT(Has(WhyNoPicture(Bytes(std::size_t{21} << 20U, 0xFF)), "bytes"));
}

TEST(PicturesThatUnpackToMoreThanTheyDeclare) {
  // One pixel is declared; the stream has 64 MiB.
  const Bytes stream = test::Stored(Bytes(std::size_t{16} << 20U, 0));
  const Result<Picture> picture = DecodePicture(test::PngOf(1, 1, stream));
  EXPECT(!picture.ok());
  EXPECT(Has(picture.status().message(), "damaged"));
}

TEST(JpegsWithTooManyScans) {
  Bytes jpeg = {0xFF, 0xD8, 0xFF, 0xE0};
  for (int i = 0; i < 200; ++i) {
    jpeg.push_back(0xFF);
    jpeg.push_back(0xDA);
  }
  EXPECT(Has(WhyNoPicture(jpeg), "scans"));
}

TEST(CutPicturesAndOtherFiles) {
  const Bytes whole = SomePng(40, 30, 1);
  for (std::size_t length = 0; length < whole.size() - 20; length += 97) {
    EXPECT(!DecodePicture(std::span(whole).first(length)).ok());
  }
  EXPECT(Has(WhyNoPicture({'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P', ' '}), "WebP"));
  EXPECT(Has(WhyNoPicture({'%', 'P', 'D', 'F'}), "not a PNG, JPEG or GIF"));
  EXPECT(Has(WhyNoPicture(Wav(8000, 100, 440)), "not a PNG"));
}

// The sample in base64 as a picture; empty if it cannot be decoded.
Picture Decoded(std::string_view text) {
  const Result<Picture> picture = DecodePicture(DecodeBase64(text).value());
  if (picture.ok()) return picture.value();
  test::Fail(__FILE__, __LINE__, picture.status().message());
  return {};
}

TEST(EveryFormatIsDecodedToThreeColors) {
  struct Sample {
    std::string_view text;
    std::uint32_t width;
    std::uint32_t height;
  };
  for (const auto& [text, width, height] :
       {Sample{test::kJpeg, 24, 16}, Sample{test::kProgressiveJpeg, 20, 12},
        Sample{test::kGif, 16, 10}, Sample{test::kPngWithAlpha, 16, 10},
        Sample{test::kPngWithPalette, 16, 10}}) {
    const Picture picture = Decoded(text);
    EXPECT_EQ(picture.width, width);
    EXPECT_EQ(picture.height, height);
    REQUIRE(picture.pixels.size() == std::size_t{width} * height * 3);
    const auto [least, most] = std::ranges::minmax(picture.pixels);
    EXPECT(least != most);
  }
}

// The first of two frames: a red one, and a blue one.
TEST(OfAGifTheFirstFrameIsRead) {
  Bytes gif;
  test::AddText(&gif, "GIF89a");
  for (const std::uint8_t each : {1, 0, 1, 0, 0x80, 0, 0}) gif.push_back(each);  // a palette of two
  for (const std::uint8_t each : {255, 0, 0, 0, 0, 255}) gif.push_back(each);
  for (const std::uint8_t code : {0x44, 0x4C}) {  // the first color, and the second
    for (const std::uint8_t each : {0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2}) gif.push_back(each);
    for (const std::uint8_t each : {code, std::uint8_t{1}, std::uint8_t{0}}) gif.push_back(each);
  }
  gif.push_back(0x3B);
  const Result<Picture> picture = DecodePicture(gif);
  REQUIRE(picture.ok());
  EXPECT((picture.value().pixels == Bytes{255, 0, 0}));
}

TEST(WhatIsAtALimitOfTheSizesIsLookedAtAndOneMoreIsNot) {
  // There are no pixels, so whatever is not refused by its header is damaged.
  const auto why = [](std::uint32_t width, std::uint32_t height) {
    return WhyNoPicture(test::PngOf(width, height, {}));
  };
  const auto side = static_cast<std::uint32_t>(kMaxSide);
  const auto ratio = static_cast<std::uint32_t>(kMaxSidesRatio);
  const auto pixels = static_cast<std::uint32_t>(kMaxPixels);
  EXPECT(Has(why(side, 100), "damaged"));
  EXPECT(Has(why(100, side), "damaged"));
  EXPECT(Has(why(side + 1, 100), "a side of more than"));
  EXPECT(Has(why(100, side + 1), "a side of more than"));
  EXPECT(Has(why(ratio, 1), "damaged"));
  EXPECT(Has(why(1, ratio), "damaged"));
  EXPECT(Has(why(ratio + 1, 1), "times as long"));
  EXPECT(Has(why(1, ratio + 1), "times as long"));
  EXPECT(Has(why(10'000, pixels / 10'000), "damaged"));
  EXPECT(Has(why(10'000, pixels / 10'000 + 1), "are allowed"));
  // Sizes that no int has, and none.
  EXPECT(Has(why(0x80000000U, 10), "a side of more than"));
  EXPECT(Has(why(10, 0xFFFFFFFFU), "a side of more than"));
  EXPECT(Has(why(0xFFFFFFFFU, 0xFFFFFFFFU), "a side of more than"));
  EXPECT(Has(why(0, 10), "has no pixels"));
  EXPECT(Has(why(10, 0), "has no pixels"));
}

TEST(HeadersOfOtherFormatsAreCheckedToo) {
  // A GIF's size is in bytes 6 to 9, the smallest first.
  Bytes gif = DecodeBase64(test::kGif).value();
  gif[6] = 0xFF;
  gif[7] = 0xFF;
  EXPECT(Has(WhyNoPicture(gif), "a side of more than"));
  gif[6] = gif[7] = 0;
  EXPECT(!DecodePicture(gif).ok());
  // A JPEG's are behind the marker of its frame: height, then width.
  Bytes jpeg = DecodeBase64(test::kJpeg).value();
  const Bytes marker = {0xFF, 0xC0};
  const auto frame = std::ranges::search(jpeg, marker).begin();
  REQUIRE(frame != jpeg.end());
  std::fill_n(frame + 5, 4, 0x7F);
  EXPECT(Has(WhyNoPicture(jpeg), "a side of more than"));
  frame[5] = 1;
  frame[7] = 0;
  frame[8] = 1;
  EXPECT(Has(WhyNoPicture(jpeg), "times as long"));
}

TEST(ScansAreCountedUpToTheLimit) {
  const auto why = [](std::size_t scans) {
    Bytes jpeg = DecodeBase64(test::kProgressiveJpeg).value();
    const auto own =
        static_cast<std::size_t>(std::ranges::count_if(jpeg, [&](const std::uint8_t& at) {
          return &at != jpeg.data() && at == 0xDA && *(&at - 1) == 0xFF;
        }));
    for (std::size_t i = own; i < scans; ++i) {
      jpeg.push_back(0xFF);
      jpeg.push_back(0xDA);
    }
    return WhyNoPicture(jpeg);
  };
  EXPECT_EQ(why(0), "");
  EXPECT_EQ(why(100), "");  // behind the picture's end
  EXPECT_EQ(why(101), "is a JPEG with too many scans");
}

TEST(AFileOfTheLargestSizeIsLookedAt) {
  Bytes png = SomePng(4, 4, 1);
  png.resize(kMaxMediaBytes);
  EXPECT(DecodePicture(png).ok());
  png.push_back(0);
  EXPECT(Has(WhyNoPicture(png), "has more than " + std::to_string(kMaxMediaBytes) + " bytes"));
  EXPECT(!DecodePicture({}).ok());
}

TEST(TheMemoryForAPictureGrowsWithItsPixels) {
  constexpr std::uint32_t kSide = 1'500;
  const Bytes rows(std::size_t{kSide} * (1 + kSide * 3), 0);
  const Result<Picture> picture = DecodePicture(test::PngOf(kSide, kSide, test::Stored(rows)));
  REQUIRE(picture.ok());
  EXPECT_EQ(picture.value().pixels.size(), std::size_t{kSide} * kSide * 3);
}

// What one picture has used up, or was refused, is not missing for the next one.
TEST(EachPictureHasItsOwnBudget) {
  for (int i = 0; i < 10; ++i) {
    EXPECT(!DecodePicture(test::PngOf(1, 1, test::Stored(Bytes(std::size_t{8} << 20U, 0)))).ok());
    EXPECT(DecodePicture(SomePng(300, 300, 1)).ok());
  }
  std::thread([] { EXPECT(DecodePicture(SomePng(300, 300, 1)).ok()); }).join();
}

}  // namespace
}  // namespace svc

TEST_MAIN()
