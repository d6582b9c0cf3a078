// Products of quantized rows and weights, on registers with one 32-bit element per output. Included
// once per instruction set, at the end of a file that defines SVC_TARGET, the function attribute,
// and in this namespace:
//
//   Integers, Floats           registers; GNU vectors, to which arithmetic operators apply;
//   kOutputs                   elements per register, a divisor of kPanel;
//   kRows                      rows whose sums fit into the registers, a divisor of kRowGroup;
//   Load(p)                    reads Integers;
//   Store(v, p)                writes Floats;
//   Broadcast(x)               the float x in each element;
//   BroadcastByte(x)           the byte x in each byte;
//   BroadcastWord(p)           the four bytes at p in each element;
//   ShiftLeft(v, n), ShiftRight(v, n)
//                              shift elements of 16 bits, filling with zeros;
//   FromHalves(p)              converts kOutputs half floats;
//   FromBytes<is_signed>(p)    converts kOutputs bytes;
//   MultiplyAdd(a, b, c)       a * b + c, rounded once;
//   SubtractProduct(c, a, b)   c - a * b, rounded once;
//   Dots<kBits, kWords>        dot products of one row with each output, over kWords words:
//     Start(offset)            begins with `offset`, see RowBlock::offsets(); an implementation
//                              that lowers 8-bit quants by 128 itself ignores it;
//     Add(i, quants, values)   adds the four products of word i; called in the order of i;
//     ToFloats()               returns the sums after the last word.
//
// Integer sums are exact, and floats are added in the same order for all instruction sets: results
// are bit-identical.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/matrix_kernel.h"

namespace svc {
namespace {

// Eight quants of each output, four per element.
struct Eight {
  Integers first;
  Integers second;
};

// Reads the quants of a block. Read(i) must be called in the order of i, from 0 to 3.
template <std::size_t kBits>
class QuantReader {
 public:
  SVC_TARGET explicit QuantReader(const std::uint8_t* quants) : quants_(quants) {}

  [[gnu::always_inline]] SVC_TARGET Eight Read(std::size_t i) {
    if constexpr (kBits == 8) return {Word(2 * i), Word(2 * i + 1)};
    const Integers pairs = Word(i);
    const Integers mask = BroadcastByte(15);
    const Eight low = {pairs & mask, ShiftRight(pairs, 4) & mask};
    if constexpr (kBits == 4) return low;
    const std::size_t part = 2 * i % kWordsPerHigh;
    if (part == 0) high_ = Word(4 + 2 * i / kWordsPerHigh);
    return {low.first | High(part), low.second | High(part + 1)};
  }

 private:
  static constexpr std::size_t kHighBits = kBits % 4 == 0 ? 1 : kBits - 4;
  // Words whose high bits make one word.
  static constexpr std::size_t kWordsPerHigh = 8 / kHighBits;

  // Returns word `index` of each output.
  SVC_TARGET Integers Word(std::size_t index) const {
    const std::uint8_t* from = quants_ + index * kPanel * 4;
    _mm_prefetch(reinterpret_cast<const char*>(from) + kPrefetchBytes, _MM_HINT_T0);
    return Load(from);
  }

  // Returns the high bits of the word that is number `part` in high_, in their place in a quant.
  SVC_TARGET Integers High(std::size_t part) const {
    constexpr std::uint8_t kMask = ((1 << kHighBits) - 1) << 4;
    const int left = static_cast<int>(kHighBits * (part + 1)) - 4;
    return (left < 0 ? ShiftRight(high_, -left) : ShiftLeft(high_, left)) & BroadcastByte(kMask);
  }

  const std::uint8_t* quants_;
  Integers high_;
};

// Returns the scales of block `b` for kOutputs outputs of a panel, from `output` on. `index`:
// number of the scale, or format.scales for the min.
template <WeightType kType>
[[gnu::always_inline]] SVC_TARGET inline Floats ScaleOf(const std::uint8_t* scales,
                                                        std::size_t output, std::size_t b,
                                                        std::size_t index) {
  const Floats of_source =
      FromHalves(scales + WeightMatrix::HalvesAt(kType, b, index) + output * sizeof(std::uint16_t));
  if constexpr (!FormatOf(kType).has_nested_scales()) return of_source;
  constexpr bool kAreSigned = !FormatOf(kType).has_mins();
  return of_source *
         FromBytes<kAreSigned>(scales + WeightMatrix::NestedAt(kType, b, index) + output);
}

// Computes kOutputs outputs of the panel, from `output` on, for kCount rows of the group, from
// `first` on.
template <WeightType kType, std::size_t kCount>
SVC_TARGET void Multiply(const WeightMatrix& matrix, std::size_t panel, std::size_t output,
                         RowBlock rows, std::size_t first, float* const* out) {
  constexpr WeightFormat kFormat = FormatOf(kType);
  constexpr std::size_t kReads = 4 / kFormat.scales;
  // For the compiler, which then computes addresses with constants.
  if (matrix.type != kType) __builtin_unreachable();
  if constexpr (kOutputs == kPanel) output = 0;
  if constexpr (kRows == kRowGroup) {
    first = 0;
    rows.size = kCount;
  }
  const std::uint8_t* quants = matrix.quants(panel) + output * 4;
  const std::uint8_t* scales = matrix.scales(panel);
  Floats outputs[kCount];
  // GCC would clear the array in memory first.
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kCount; ++r) outputs[r] = Floats{};
  for (std::size_t b = 0; b < matrix.blocks(); ++b, rows = rows.next()) {
    QuantReader<kFormat.bits> reader(quants);
    quants += WeightMatrix::QuantBytes(kType);
    // GCC does not unroll these two loops by itself. QuantReader's shifts should be constants.
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kFormat.scales; ++s) {
      Dots<kFormat.bits, 2 * kReads> dots[kCount];
      for (std::size_t r = 0; r < kCount; ++r) {
        dots[r].Start(kFormat.has_mins() ? 0 : rows.offsets(s)[first + r]);
      }
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kReads; ++i) {
        const Eight eight = reader.Read(s * kReads + i);
        const std::size_t at = 8 * (s * kReads + i);
        for (std::size_t r = 0; r < kCount; ++r) {
          dots[r].Add(2 * i, eight.first, BroadcastWord(rows.values(first + r) + at));
        }
        for (std::size_t r = 0; r < kCount; ++r) {
          dots[r].Add(2 * i + 1, eight.second, BroadcastWord(rows.values(first + r) + at + 4));
        }
      }
      const Floats scale = ScaleOf<kType>(scales, output, b, s);
      for (std::size_t r = 0; r < kCount; ++r) {
        const Floats of_row = Broadcast(rows.scales()[first + r]);
        outputs[r] = MultiplyAdd(dots[r].ToFloats() * of_row, scale, outputs[r]);
      }
    }
    if constexpr (kFormat.has_mins()) {
      const Floats min = ScaleOf<kType>(scales, output, b, kFormat.scales);
      for (std::size_t r = 0; r < kCount; ++r) {
        outputs[r] = SubtractProduct(outputs[r], min, Broadcast(rows.sums()[first + r]));
      }
    }
  }
  for (std::size_t r = 0; r < kCount; ++r) Store(outputs[r], out[first + r] + output);
}

template <WeightType kType, std::size_t... kCounts>
constexpr auto MultiplyEach(std::index_sequence<kCounts...> /*each*/) {
  return std::array{Multiply<kType, kCounts + 1>...};
}

template <WeightType kType>
void MultiplyOf(const WeightMatrix& matrix, std::size_t panel, RowBlock rows, float* const* out) {
  // Indexed by the number of rows less one.
  static constexpr auto kMultiply = MultiplyEach<kType>(std::make_index_sequence<kRows>());
  for (std::size_t output = 0; output < kPanel; output += kOutputs) {
    for (std::size_t first = 0; first < rows.size; first += kRows) {
      const std::size_t count = std::min(kRows, rows.size - first);
      kMultiply[count - 1](matrix, panel, output, rows, first, out);
    }
  }
}

template <std::size_t... kTypes>
constexpr auto MultiplyAll(std::index_sequence<kTypes...> /*types*/) {
  return std::array<MultiplyPanel*, kWeightTypes>{MultiplyOf<static_cast<WeightType>(kTypes)>...};
}

MultiplyPanel* MultiplyOfRegisters(WeightType type) {
  static constexpr auto kByType = MultiplyAll(std::make_index_sequence<kWeightTypes>());
  return kByType[static_cast<std::size_t>(type)];
}

}  // namespace
}  // namespace svc
