// Products of rows and half-float weights, on registers. Included once per instruction set, at the
// end of a file that defines SVC_TARGET, the function attribute, and in this namespace:
//
//   Floats                 a register; a GNU vector;
//   kParts                 registers per kHalfDepth floats;
//   kOutputs, kRows        outputs and rows whose sums fit into the registers;
//   Load(p)                reads Floats;
//   FromHalves(p)          converts half floats to Floats;
//   MultiplyAdd(a, b, c)   a * b + c, rounded once;
//   AddHalves(parts)       adds the first eight of kHalfDepth floats to the last eight.
//
// Floats are added in the same order for all instruction sets: results are bit-identical.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/half_matrix.h"
#include "kernels/sum_of_eight.h"

namespace svc {
namespace {

// Activations that stay in the L2 cache while weights stream through.
constexpr std::size_t kCachedFloats = (std::size_t{512} << 10U) / sizeof(float);

template <std::size_t outputs, std::size_t rows>
SVC_TARGET void MultiplyTile(const HalfMatrix& matrix, std::size_t output, const float* const* in,
                             float* const* out) {
  constexpr std::size_t kLength = kHalfDepth / kParts;
  Floats sums[outputs][rows][kParts];
  for (auto& of_output : sums) {
    for (auto& of_row : of_output) std::fill_n(of_row, kParts, Floats{});
  }
  const std::uint16_t* weights = matrix.data + output * matrix.stride;
  for (std::size_t at = 0; at < matrix.depth; at += kHalfDepth) {
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t from = at + part * kLength;
      Floats each[outputs];
      for (std::size_t o = 0; o < outputs; ++o) {
        each[o] = FromHalves(weights + o * matrix.stride + from);
      }
      for (std::size_t r = 0; r < rows; ++r) {
        const Floats activations = Load(in[r] + from);
        for (std::size_t o = 0; o < outputs; ++o) {
          sums[o][r][part] = MultiplyAdd(each[o], activations, sums[o][r][part]);
        }
      }
    }
  }
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t r = 0; r < rows; ++r) {
      out[r][output + o] = SumOfEight(AddHalves(sums[o][r]));
    }
  }
}

using Tile = void(const HalfMatrix&, std::size_t, const float* const*, float* const*);

template <std::size_t outputs, std::size_t... rows>
constexpr std::array<Tile*, sizeof...(rows)> TilesOf(std::index_sequence<rows...> /*each*/) {
  return {MultiplyTile<outputs, rows + 1>...};
}

void MultiplyOfRegisters(const HalfMatrix& matrix, std::size_t begin, std::size_t end,
                         const float* const* rows, std::size_t count, float* const* out) {
  // Indexed by the number of rows less one.
  static constexpr auto kTiles = TilesOf<kOutputs>(std::make_index_sequence<kRows>());
  static constexpr auto kSingles = TilesOf<1>(std::make_index_sequence<kRows>());
  const std::size_t block = std::max<std::size_t>(kCachedFloats / matrix.depth / kRows, 2) * kRows;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t last = std::min(count, first + block);
    for (std::size_t output = begin; output < end;) {
      const bool whole = output + kOutputs <= end;
      for (std::size_t row = first; row < last; row += kRows) {
        const std::size_t some = std::min(kRows, last - row);
        (whole ? kTiles : kSingles)[some - 1](matrix, output, rows + row, out + row);
      }
      output += whole ? kOutputs : 1;
    }
  }
}

}  // namespace
}  // namespace svc
