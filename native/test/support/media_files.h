// Files of pictures and sounds, made here.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace svc::test {

using Bytes = std::vector<std::uint8_t>;

inline void AddBig(Bytes* bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes->push_back(static_cast<std::uint8_t>(value >> static_cast<unsigned>(shift)));
  }
}

inline void AddLittle(Bytes* bytes, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) {
    bytes->push_back(static_cast<std::uint8_t>(value >> (8U * static_cast<unsigned>(i))));
  }
}

inline void AddText(Bytes* bytes, std::string_view text) {
  bytes->insert(bytes->end(), text.begin(), text.end());
}

// The decoder does not check it.
inline void AddChunk(Bytes* png, std::string_view type, const Bytes& data) {
  AddBig(png, static_cast<std::uint32_t>(data.size()));
  AddText(png, type);
  png->insert(png->end(), data.begin(), data.end());
  AddBig(png, 0);
}

// A zlib stream that is not compressed.
inline Bytes Stored(const Bytes& raw) {
  constexpr std::size_t kMost = 65535;
  Bytes stream = {0x78, 0x01};
  for (std::size_t at = 0; at < raw.size(); at += kMost) {
    const std::size_t length = std::min(kMost, raw.size() - at);
    stream.push_back(at + length == raw.size() ? 1 : 0);
    AddLittle(&stream, static_cast<std::uint32_t>(length), 2);
    AddLittle(&stream, ~static_cast<std::uint32_t>(length), 2);
    stream.insert(stream.end(), raw.begin() + static_cast<std::ptrdiff_t>(at),
                  raw.begin() + static_cast<std::ptrdiff_t>(at + length));
  }
  AddBig(&stream, 0);
  return stream;
}

inline Bytes PngOf(std::uint32_t width, std::uint32_t height, const Bytes& stream) {
  Bytes png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  Bytes head;
  AddBig(&head, width);
  AddBig(&head, height);
  for (const std::uint8_t each : {8, 2, 0, 0, 0}) head.push_back(each);  // 8 bits, colours
  AddChunk(&png, "IHDR", head);
  AddChunk(&png, "IDAT", stream);
  AddChunk(&png, "IEND", {});
  return png;
}

using Color = std::array<std::uint8_t, 3>;

inline Bytes Png(std::uint32_t width, std::uint32_t height,
                 const std::function<Color(std::uint32_t, std::uint32_t)>& color) {
  Bytes raw;
  for (std::uint32_t y = 0; y < height; ++y) {
    raw.push_back(0);  // no filter
    for (std::uint32_t x = 0; x < width; ++x) {
      for (const std::uint8_t each : color(x, y)) raw.push_back(each);
    }
  }
  return PngOf(width, height, Stored(raw));
}

// A picture that differs with `kind`.
inline Bytes SomePng(std::uint32_t width, std::uint32_t height, std::uint32_t kind) {
  return Png(width, height, [=](std::uint32_t x, std::uint32_t y) -> Color {
    return {static_cast<std::uint8_t>(x * 2 + kind * 70), static_cast<std::uint8_t>(y * 3),
            static_cast<std::uint8_t>(255 - x * kind)};
  });
}

// A tone of one channel with 16 bits.
inline Bytes Wav(std::uint32_t rate, std::uint32_t samples, double hertz) {
  Bytes wav;
  AddText(&wav, "RIFF");
  AddLittle(&wav, 36 + samples * 2, 4);
  AddText(&wav, "WAVEfmt ");
  AddLittle(&wav, 16, 4);
  AddLittle(&wav, 1, 2);  // PCM
  AddLittle(&wav, 1, 2);  // channels
  AddLittle(&wav, rate, 4);
  AddLittle(&wav, rate * 2, 4);
  AddLittle(&wav, 2, 2);
  AddLittle(&wav, 16, 2);
  AddText(&wav, "data");
  AddLittle(&wav, samples * 2, 4);
  for (std::uint32_t i = 0; i < samples; ++i) {
    const double value = 20000 * std::sin(6.283185307179586 * hertz * i / rate);
    AddLittle(&wav, static_cast<std::uint32_t>(static_cast<std::int32_t>(value)), 2);
  }
  return wav;
}

inline std::string Base64(const Bytes& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8U | (i + k < bytes.size() ? bytes[i + k] : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[bits >> (18U - 6U * k) & 63U];
    }
  }
  return text;
}

}  // namespace svc::test
