// Base64 against the RFC's own examples, a plain encoder, and texts that are none.
#include "engine/base/base64.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using Bytes = std::vector<std::uint8_t>;

const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string Encode(const Bytes& bytes) {
  std::string text;
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 6) {
    unsigned value = 0;
    for (std::size_t i = bit; i < bit + 6; ++i) {
      value *= 2;
      if (i / 8 < bytes.size()) value += bytes[i / 8] >> (7 - i % 8) & 1U;
    }
    text += kDigits[value];
  }
  while (text.size() % 4 != 0) text += '=';
  return text;
}

Bytes BytesOf(const std::string& text) { return {text.begin(), text.end()}; }

// RFC 4648, section 10.
TEST(TheExamplesOfTheRfcAreDecoded) {
  const std::vector<std::pair<std::string, std::string>> examples = {
      {"", ""},
      {"Zg==", "f"},
      {"Zm8=", "fo"},
      {"Zm9v", "foo"},
      {"Zm9vYg==", "foob"},
      {"Zm9vYmE=", "fooba"},
      {"Zm9vYmFy", "foobar"},
  };
  for (const auto& [text, decoded] : examples) {
    EXPECT(DecodeBase64(text) == BytesOf(decoded));
    EXPECT(DecodeBase64(text.substr(0, text.find('='))) == BytesOf(decoded));
  }
}

TEST(WhatIsEncodedIsDecodedWithAndWithoutPadding) {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 300; ++size) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    std::string text = Encode(bytes);
    EXPECT(DecodeBase64(text) == bytes);
    text.resize(std::min(text.size(), text.find('=')));
    EXPECT(DecodeBase64(text) == bytes);
  }
}

TEST(EveryByteThatIsNoDigitIsRefusedAtEveryPlace) {
  int refused = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const char digit = static_cast<char>(byte);
    for (std::size_t place = 0; place < 8; ++place) {
      std::string text = "Zm9vYmFy";
      text[place] = digit;
      if (digit == '=' && place == 7) continue;  // padding
      const bool is_digit = kDigits.find(digit) != std::string::npos;
      EXPECT_EQ(DecodeBase64(text).has_value(), is_digit);
      refused += is_digit ? 0 : 1;
    }
  }
  EXPECT_EQ(refused, 192 * 8 - 1);
}

TEST(ALengthThatNoBytesHaveIsRefused) {
  for (const char* text : {"Z", "Z=", "Z==", "Zm9vY", "Zm9vY==", "Zm9vYmFyZ"}) {
    EXPECT(!DecodeBase64(text).has_value());
  }
}

TEST(PaddingIsOnlyAtTheEndAndNeverThree) {
  for (const char* text :
       {"===", "====", "=Zg=", "Z=g=", "Zg==Zg==", "Zg===", "Zm9v===", "Zg==\n"}) {
    EXPECT(!DecodeBase64(text).has_value());
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
