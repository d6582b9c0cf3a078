// Files that the decoders of pictures and sounds accept, and files that they refuse undecoded.
#include <algorithm>
#include <string>

#include "engine/base/base64.h"
#include "engine/llama/media/picture.h"
#include "engine/llama/media/sound.h"
#include "engine/llama/row_positions.h"
#include "media_files.h"
#include "test.h"

namespace svc {
namespace {

using test::Base64;
using test::Bytes;
using test::SomePng;
using test::Wav;

std::string WhyNoPicture(const Bytes& bytes) { return DecodePicture(bytes).status().message(); }
std::string WhyNoSound(const Bytes& bytes) { return DecodeSound(bytes, 16000).status().message(); }

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Base64RoundTrip) {
  for (std::size_t length = 0; length < 8; ++length) {
    Bytes bytes;
    for (std::size_t i = 0; i < length; ++i) bytes.push_back(static_cast<std::uint8_t>(251 * i));
    const std::string text = Base64(bytes);
    EXPECT(DecodeBase64(text) == bytes);
    EXPECT(DecodeBase64(text.substr(0, text.find('='))) == bytes);
  }
  for (const char* wrong : {"A", "AAAAA", "A A=", "AA=A", "====", "ÄÄÄÄ", "AA-_"}) {
    EXPECT(!DecodeBase64(wrong));
  }
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
  EXPECT(Has(WhyNoPicture({'%', 'P', 'D', 'F'}), "no PNG, JPEG or GIF"));
  EXPECT(Has(WhyNoPicture(Wav(8000, 100, 440)), "no PNG"));
}

TEST(ASoundHasItsSamples) {
  const Result<std::vector<float>> sound = DecodeSound(Wav(16000, 16000, 100), 16000);
  EXPECT(sound.ok());
  if (!sound.ok()) return;
  EXPECT_EQ(sound.value().size(), 16000U);
  const auto [least, most] = std::ranges::minmax(sound.value());
  EXPECT(most > 0.6F && most < 0.62F && least < -0.6F);
  // Resampled.
  const Result<std::vector<float>> slow = DecodeSound(Wav(8000, 8000, 100), 16000);
  EXPECT(slow.ok() && slow.value().size() > 15990 && slow.value().size() < 16010);
}

TEST(SoundsThatAreRefused) {
  EXPECT(Has(WhyNoSound({'O', 'g', 'g', 'S'}), "no WAV, MP3 or FLAC"));
  EXPECT(Has(WhyNoSound(SomePng(4, 4, 0)), "no WAV, MP3 or FLAC"));
  EXPECT(Has(WhyNoSound(Wav(100, 61000, 1)), "longer than 600 seconds"));
  Bytes cut = Wav(16000, 16000, 100);
  cut.resize(30);
  EXPECT(!DecodeSound(cut, 16000).ok());
  EXPECT(Has(WhyNoSound(Wav(16000, 0, 100)), "no samples"));
}

// A picture of a model with M-RoPE.
MediaRows Picture(std::uint32_t begin, std::uint32_t count, std::uint32_t positions) {
  return {.begin = begin,
          .count = count,
          .width = 1,
          .positions = positions,
          .places = std::vector<MediaPlace>(count)};
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
  Bytes saved(positions.SizeOf(0, 40));
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
    Bytes bad = saved;
    bad[at] = 0xFF;
    EXPECT(!positions.Load(3, bad, 40));
  }
  EXPECT_EQ(positions.Of(3, 40), 40);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
