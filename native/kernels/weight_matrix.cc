#include "kernels/weight_matrix.h"

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>

namespace svc {
namespace {

static_assert(std::endian::native == std::endian::little);

// Quants of kBlock weights, four per word.
using Quants = std::array<std::uint32_t, kBlock / 4>;

constexpr std::uint32_t kLowHalves = 0x0f0f0f0f;
constexpr std::uint32_t kLowBits = 0x01010101;

std::uint32_t WordAt(const std::uint8_t* bytes, std::size_t index) {
  std::uint32_t word;
  std::memcpy(&word, bytes + index * sizeof word, sizeof word);
  return word;
}

// ---- blocks of ggml -----------------------------------------------------------------------------
// Fields are in the order of ggml-common.h. `b`: index of kBlock weights within the block.

struct Q4_0 {
  std::uint8_t scale[2];
  std::uint8_t low[16];

  Quants QuantsOf(std::size_t) const {
    Quants quants;
    for (std::size_t i = 0; i < 4; ++i) {
      quants[i] = WordAt(low, i) & kLowHalves;
      quants[i + 4] = WordAt(low, i) >> 4 & kLowHalves;
    }
    return quants;
  }
};

struct Q5_0 {
  std::uint8_t scale[2];
  std::uint8_t high[4];
  std::uint8_t low[16];

  Quants QuantsOf(std::size_t) const {
    Quants quants;
    for (std::size_t i = 0; i < 4; ++i) {
      quants[i] = (WordAt(low, i) & kLowHalves) | Spread(WordAt(high, 0) >> 4 * i) << 4;
      quants[i + 4] = (WordAt(low, i) >> 4 & kLowHalves) | Spread(WordAt(high, 0) >> (4 * i + 16))
                                                               << 4;
    }
    return quants;
  }

 private:
  // Moves each of the lowest four bits to the lowest bit of a byte.
  static std::uint32_t Spread(std::uint32_t bits) { return (bits & 15) * 0x00204081 & kLowBits; }
};

// Returns the quants whose words `word` computes from their index.
template <typename Word>
Quants QuantsOfWords(Word word) {
  Quants quants;
  for (std::size_t i = 0; i < quants.size(); ++i) quants[i] = word(i);
  return quants;
}

struct Q8_0 {
  std::uint8_t scale[2];
  std::uint8_t quants[32];

  Quants QuantsOf(std::size_t) const {
    return QuantsOfWords([&](std::size_t i) { return WordAt(quants, i) ^ 0x80808080; });
  }
};

// Head of Q4_K and Q5_K, with nested scales and mins of six bits each. Those of the last four
// blocks are split: four bits in the last four bytes, two above the earlier scales and mins.
struct ScalesAndMins {
  std::uint8_t scale[2];
  std::uint8_t min[2];
  std::uint8_t packed[12];

  std::uint8_t Scale(std::size_t b, std::size_t) const {
    return static_cast<std::uint8_t>(b < 4 ? packed[b] & 63
                                           : (packed[b + 4] & 15) | (packed[b - 4] >> 6) << 4);
  }
  std::uint8_t Min(std::size_t b) const {
    return static_cast<std::uint8_t>(b < 4 ? packed[b + 4] & 63
                                           : packed[b + 4] >> 4 | (packed[b] >> 6) << 4);
  }
};

struct Q4K : ScalesAndMins {
  std::uint8_t low[128];

  Quants QuantsOf(std::size_t b) const {
    return QuantsOfWords(
        [&](std::size_t i) { return WordAt(low + b / 2 * 32, i) >> 4 * (b % 2) & kLowHalves; });
  }
};

struct Q5K : ScalesAndMins {
  std::uint8_t high[32];
  std::uint8_t low[128];

  Quants QuantsOf(std::size_t b) const {
    return QuantsOfWords([&](std::size_t i) {
      return (WordAt(low + b / 2 * 32, i) >> 4 * (b % 2) & kLowHalves) |
             (WordAt(high, i) >> b & kLowBits) << 4;
    });
  }
};

struct Q6K {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::uint8_t nested[16];
  std::uint8_t scale[2];

  Quants QuantsOf(std::size_t b) const {
    return QuantsOfWords([&, half = b / 4](std::size_t i) {
      return (WordAt(low + 64 * half + 32 * (b % 2), i) >> 4 * (b % 4 / 2) & kLowHalves) |
             (WordAt(high + 32 * half, i) >> 2 * (b % 4) & 3 * kLowBits) << 4;
    });
  }
  std::uint8_t Scale(std::size_t b, std::size_t index) const { return nested[2 * b + index]; }
};

// ---- writing a WeightMatrix ---------------------------------------------------------------------

// `to`: the output's first word in the block; words of the same output are kPanel words apart.
template <std::size_t kBits>
void PutQuants(const Quants& quants, std::uint8_t* to) {
  const auto put = [&to](std::uint32_t word) {
    std::memcpy(to, &word, sizeof word);
    to += kPanel * sizeof word;
  };
  if constexpr (kBits == 8) {
    for (const std::uint32_t word : quants) put(word);
  } else {
    for (std::size_t i = 0; i < quants.size(); i += 2) {
      put((quants[i] & kLowHalves) | (quants[i + 1] & kLowHalves) << 4);
    }
    // High bits of kWords words make one word.
    constexpr std::size_t kHighBits = kBits - 4;
    constexpr std::size_t kWords = kHighBits == 0 ? 0 : 8 / kHighBits;
    for (std::size_t i = 0; i < kHighBits; ++i) {
      std::uint32_t high = 0;
      for (std::size_t j = 0; j < kWords; ++j) {
        high = high << kHighBits | (quants[i * kWords + j] >> 4 & kLowHalves);
      }
      put(high);
    }
  }
}

// Writes the scales and mins of one output and one block of the file.
template <WeightType kType, typename Source>
void PutScales(const Source& source, std::uint8_t* to, std::size_t output) {
  constexpr WeightFormat kFormat = FormatOf(kType);
  const auto put_half = [&](const std::uint8_t(&half)[2]) {
    std::memcpy(to + output * sizeof half, half, sizeof half);
    to += kPanel * sizeof half;
  };
  put_half(source.scale);
  if constexpr (kFormat.has_mins()) put_half(source.min);
  if constexpr (kFormat.has_nested_scales()) {
    const auto put_byte = [&](std::uint8_t byte) {
      to[output] = byte;
      to += kPanel;
    };
    for (std::size_t b = 0; b < kFormat.blocks_per_source(); ++b) {
      for (std::size_t i = 0; i < kFormat.scales; ++i) put_byte(source.Scale(b, i));
      if constexpr (kFormat.has_mins()) put_byte(source.Min(b));
    }
  }
}

template <WeightType kType, typename Source>
void InterleaveOf(const std::uint8_t* bytes, const WeightMatrix& matrix) {
  constexpr WeightFormat kFormat = FormatOf(kType);
  static_assert(sizeof(Source) == kFormat.source_bytes && alignof(Source) == 1);
  const auto* source = reinterpret_cast<const Source*>(bytes);
  for (std::size_t panel = 0; panel < matrix.panels(); ++panel) {
    for (std::size_t output = 0; output < kPanel; ++output) {
      std::uint8_t* quants = matrix.quants(panel) + output * sizeof(std::uint32_t);
      std::uint8_t* scales = matrix.scales(panel);
      for (std::size_t i = 0; i < matrix.source_blocks(); ++i, ++source) {
        for (std::size_t b = 0; b < kFormat.blocks_per_source(); ++b) {
          PutQuants<kFormat.bits>(source->QuantsOf(b), quants);
          quants += WeightMatrix::QuantBytes(kType);
        }
        PutScales<kType>(*source, scales, output);
        scales += WeightMatrix::ScaleBytes(kType);
      }
    }
  }
}

// ---- reading a WeightMatrix ---------------------------------------------------------------------

// `from`: as `to` of PutQuants.
Quants GetQuants(std::size_t bits, const std::uint8_t* from) {
  Quants quants;
  const auto get = [&from] {
    const std::uint32_t word = WordAt(from, 0);
    from += kPanel * sizeof word;
    return word;
  };
  if (bits == 8) {
    for (std::uint32_t& word : quants) word = get();
    return quants;
  }
  for (std::size_t i = 0; i < quants.size(); i += 2) {
    const std::uint32_t pair = get();
    quants[i] = pair & kLowHalves;
    quants[i + 1] = pair >> 4 & kLowHalves;
  }
  const std::size_t high_bits = bits - 4;
  for (std::size_t i = 0; i < quants.size() && high_bits != 0;) {
    const std::uint32_t high = get();
    for (std::size_t shift = 8; shift != 0; ++i) {
      shift -= high_bits;
      quants[i] |= (high >> shift & ((1U << high_bits) - 1) * kLowBits) << 4;
    }
  }
  return quants;
}

__attribute__((target("f16c"))) float FloatOf(const std::uint8_t* half) {
  std::uint16_t bits;
  std::memcpy(&bits, half, sizeof bits);
  return _cvtsh_ss(bits);
}

// Returns the scale of block `b` with number `index`, or its min for format.scales; as ScaleOf of
// the kernels.
float ScaleOf(const WeightMatrix& matrix, std::size_t output, std::size_t b, std::size_t index) {
  const WeightFormat format = FormatOf(matrix.type);
  const std::uint8_t* scales = matrix.scales(output / kPanel);
  const std::size_t in_panel = output % kPanel;
  const float of_source = FloatOf(scales + WeightMatrix::HalvesAt(matrix.type, b, index) +
                                  in_panel * sizeof(std::uint16_t));
  if (!format.has_nested_scales()) return of_source;
  const std::uint8_t byte = scales[WeightMatrix::NestedAt(matrix.type, b, index) + in_panel];
  return of_source * static_cast<float>(format.has_mins() ? byte : static_cast<std::int8_t>(byte));
}

}  // namespace

void ReadOutput(const WeightMatrix& matrix, std::size_t output, float* weights) {
  const WeightFormat format = FormatOf(matrix.type);
  const std::uint8_t* quants =
      matrix.quants(output / kPanel) + output % kPanel * sizeof(std::uint32_t);
  for (std::size_t b = 0; b < matrix.blocks(); ++b) {
    const Quants words = GetQuants(format.bits, quants);
    quants += WeightMatrix::QuantBytes(matrix.type);
    const float min = format.has_mins() ? ScaleOf(matrix, output, b, format.scales) : 0;
    float scale = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      if (i % (kBlock / format.scales) == 0) {
        scale = ScaleOf(matrix, output, b, i * format.scales / kBlock);
      }
      const auto quant = static_cast<int>(words[i / 4] >> 8 * (i % 4) & 255);
      *weights++ = scale * static_cast<float>(quant - format.zero) - min;
    }
  }
}

void Interleave(const std::uint8_t* source, const WeightMatrix& matrix) {
  using enum WeightType;
  static constexpr std::array kByType = {InterleaveOf<kQ4_0, Q4_0>, InterleaveOf<kQ5_0, Q5_0>,
                                         InterleaveOf<kQ8_0, Q8_0>, InterleaveOf<kQ4K, Q4K>,
                                         InterleaveOf<kQ5K, Q5K>,   InterleaveOf<kQ6K, Q6K>};
  static_assert(kByType.size() == kWeightTypes);
  kByType[static_cast<std::size_t>(matrix.type)](source, matrix);
}

}  // namespace svc
