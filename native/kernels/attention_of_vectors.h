// Attention on vectors of sixteen floats. Included once per instruction set, at the end of a file
// that defines SVC_TARGET, the function attribute, and in this namespace:
//
//   Vector, Broadcast, Load, Store, Add, Subtract, Multiply, MultiplyAdd (rounded once);
//   Max(a, b)               a > b ? a : b;
//   kRegisters              Vectors that a loop can keep in registers besides two others;
//   Nearest                 rounds to integers, ties to even;
//   TimesPowerOf2(v, e)     v * 2^e for integers e from -160 to 0, rounded once;
//   ToFloat(half)           converts a half float;
//   FromHalves(halves)      converts sixteen half floats;
//   SelectFirst(n, a, b)    the first n elements of a, the rest of b;
//   Largest(v)              the largest element;
//   Sum(v)                  the sum: elements 8 apart are added first, then 4, 2 and 1 apart;
//   Folded, Fold(v)         a Vector after the first of these additions, or the first two;
//   SumEach(folded)         for sixteen Folded the rest of these additions, one sum per element;
//   Differing(p, n, x)      bit i is set if p[i] != x, for i < n <= 16;
//   StoreNumbers(set, i, p) writes i + (bit number) for each bit set to p; may write sixteen.
//
// Sums are added in the same order for all instruction sets: results are bit-identical.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention.h"

namespace svc {
namespace {

// Cells of a tile, of heads of that many Vectors.
template <std::size_t kVectors>
constexpr std::size_t kTile = AttentionTile(kVectors* kVectorLength);
template <std::size_t kVectors>
constexpr std::size_t kParts = kTile<kVectors> / kVectorLength;
// Keys whose products with a query are summed at a time. A query of more than eight Vectors does
// not stay in registers: it is loaded once for four keys.
template <std::size_t kVectors>
constexpr std::size_t kKeysTogether = kVectors > 8 ? 4 : 2;
constexpr float kLog2E = 1.44269504088896340736F;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint16_t kHalfMinusInfinity = 0xfc00;

// Arrays in the caller's scratch memory, in the order of AttentionScratch(). A unit is a head of a
// row: unit = row * heads + head.
struct Scratch {
  Scratch(std::uint8_t* bytes, const Attention& attention)
      : tile(reinterpret_cast<float*>(bytes)),
        queries(tile + AttentionTile(attention.head_length) * attention.head_length),
        sums(queries + attention.rows * attention.heads * attention.head_length),
        scores(sums + attention.rows * attention.heads * attention.head_length),
        bias(scores + attention.rows * attention.heads * AttentionTile(attention.head_length)),
        largest(bias + AttentionTile(attention.head_length)),
        weight(largest + attention.rows * attention.heads),
        seen(reinterpret_cast<std::int32_t*>(weight + attention.rows * attention.heads)),
        seen_before(seen + attention.cells + kVectorLength) {}

  float* tile;                // [tile][head_length], the keys, then the values
  float* queries;             // [unit][head_length], scaled for Exp2
  float* sums;                // [unit][head_length], weighted sums of the values
  float* scores;              // [unit][tile]
  float* bias;                // [tile], the mask, scaled for Exp2
  float* largest;             // [unit], largest score so far
  float* weight;              // [unit], sum of the weights
  std::int32_t* seen;         // [cells + kVectorLength], the cells that the last row sees
  std::int32_t* seen_before;  // the same of a row before it
};

// Rows that see the same cells but for the last ones, and are computed together.
struct RowGroup {
  std::size_t first = 0;
  std::size_t rows = 0;
  std::array<std::size_t, kAttentionRows> seen{};  // of each row: number of cells
  bool has_bias = false;                           // some cell has one; then it is a single row
};

// Returns 2^x for x <= 0: a Taylor series in the distance to the nearest integer, accurate to about
// two units in the last place.
SVC_TARGET Vector Exp2(Vector x) {
  // 2^-160 is 0 in single precision.
  x = Max(x, Broadcast(-160));
  const Vector whole = Nearest(x);
  const Vector rest = Subtract(x, whole);
  Vector power = Broadcast(1.54035304e-4F);
  for (const float coefficient :
       {1.33335581e-3F, 9.61812911e-3F, 5.55041087e-2F, 2.40226507e-1F, 6.93147181e-1F, 1.0F}) {
    power = MultiplyAdd(power, rest, Broadcast(coefficient));
  }
  return TimesPowerOf2(power, whole);
}

const std::uint16_t* MaskOf(const Attention& attention, std::size_t row) {
  return attention.mask == nullptr ? nullptr : attention.mask + row * attention.mask_stride;
}

// Lists the cells that a row sees; returns their number. Sets *has_bias if one has a bias.
SVC_TARGET std::size_t FindSeen(const std::uint16_t* mask, std::size_t cells, std::int32_t* seen,
                                bool* has_bias) {
  std::size_t count = 0;
  std::uint32_t biased = 0;
  for (std::size_t cell = 0; cell < cells; cell += kVectorLength) {
    const std::size_t left = std::min(kVectorLength, cells - cell);
    std::uint32_t visible = (1U << left) - 1;
    if (mask != nullptr) {
      visible = Differing(mask + cell, left, kHalfMinusInfinity);
      if (visible == 0) continue;
      biased |= visible & Differing(mask + cell, left, 0);
    }
    StoreNumbers(visible, static_cast<std::int32_t>(cell), seen + count);
    count += static_cast<std::size_t>(__builtin_popcount(visible));
  }
  *has_bias = biased != 0;
  return count;
}

// The longest group of rows that ends with the row before `end`. Their cells are in scratch.seen.
SVC_TARGET RowGroup GroupBefore(const Attention& attention, std::size_t end,
                                const Scratch& scratch) {
  RowGroup group{.first = end - 1, .rows = 1};
  const std::size_t last_seen =
      FindSeen(MaskOf(attention, end - 1), attention.cells, scratch.seen, &group.has_bias);
  std::array<std::size_t, kAttentionRows> backwards{last_seen};
  while (!group.has_bias && group.first > 0) {
    bool has_bias = false;
    const std::size_t count = FindSeen(MaskOf(attention, group.first - 1), attention.cells,
                                       scratch.seen_before, &has_bias);
    if (has_bias || count > last_seen ||
        std::memcmp(scratch.seen_before, scratch.seen, count * sizeof(std::int32_t)) != 0) {
      break;
    }
    --group.first;
    backwards[group.rows++] = count;
  }
  std::reverse_copy(backwards.begin(), backwards.begin() + group.rows, group.seen.begin());
  return group;
}

template <std::size_t kVectors>
SVC_TARGET void Widen(const std::uint16_t* halves, float* floats) {
  for (std::size_t i = 0; i < kVectors; ++i) {
    Store(FromHalves(halves + i * kVectorLength), floats + i * kVectorLength);
  }
}

// Computes a unit's scores for the first `count` keys of the tile, as arguments of Exp2; minus
// infinity for the others.
template <std::size_t kVectors>
SVC_TARGET void Score(const Scratch& scratch, std::size_t count, std::size_t unit) {
  constexpr std::size_t kLength = kVectors * kVectorLength;
  constexpr std::size_t kTogether = kKeysTogether<kVectors>;
  const float* const query = scratch.queries + unit * kLength;
  float* const scores = scratch.scores + unit * kTile<kVectors>;
  for (std::size_t first = 0; first < kTile<kVectors>; first += kVectorLength) {
    if (first >= count) {
      Store(Broadcast(-kInfinity), scores + first);
      continue;
    }
    Folded products[kVectorLength];
    for (std::size_t cell = 0; cell < kVectorLength; cell += kTogether) {
      const float* const keys = scratch.tile + (first + cell) * kLength;
      Vector sums[kTogether];
      for (std::size_t k = 0; k < kTogether; ++k) {
        sums[k] = Multiply(Load(query), Load(keys + k * kLength));
      }
      for (std::size_t i = kVectorLength; i < kLength; i += kVectorLength) {
        const Vector part = Load(query + i);
        for (std::size_t k = 0; k < kTogether; ++k) {
          sums[k] = MultiplyAdd(part, Load(keys + k * kLength + i), sums[k]);
        }
      }
      for (std::size_t k = 0; k < kTogether; ++k) products[cell + k] = Fold(sums[k]);
    }
    const Vector biased = Add(SumEach(products), Load(scratch.bias + first));
    Store(SelectFirst(std::min(kVectorLength, count - first), biased, Broadcast(-kInfinity)),
          scores + first);
  }
}

// Multiplies kVectors Vectors of one head's sums by `shrink` and adds the weighted values.
template <std::size_t kVectors, std::size_t kStride>
SVC_TARGET void AddWeighted(const float* values, const float* weights, std::size_t count,
                            float shrink, float* sums) {
  Vector sum[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) {
    sum[i] = Multiply(Load(sums + i * kVectorLength), Broadcast(shrink));
  }
  for (std::size_t cell = 0; cell < count; ++cell) {
    const float* value = values + cell * kStride;
    const Vector weight = Broadcast(weights[cell]);
    for (std::size_t i = 0; i < kVectors; ++i) {
      sum[i] = MultiplyAdd(weight, Load(value + i * kVectorLength), sum[i]);
    }
  }
  for (std::size_t i = 0; i < kVectors; ++i) Store(sum[i], sums + i * kVectorLength);
}

// Adds the tile's values to the sums of a unit, each weighted by its score.
template <std::size_t kVectors>
SVC_TARGET void AddValues(const Scratch& scratch, std::size_t count, std::size_t unit) {
  Vector scores[kParts<kVectors>];
  for (std::size_t part = 0; part < kParts<kVectors>; ++part) {
    scores[part] = Load(scratch.scores + unit * kTile<kVectors> + part * kVectorLength);
  }
  float& largest = scratch.largest[unit];
  const float before = largest;
  for (std::size_t part = 0; part < kParts<kVectors>; ++part) {
    largest = std::max(largest, Largest(scores[part]));
  }
  alignas(64) float weights[kTile<kVectors>];
  Vector total = Broadcast(0);
  for (std::size_t part = 0; part < kParts<kVectors>; ++part) {
    const Vector weight = Exp2(Subtract(scores[part], Broadcast(largest)));
    Store(weight, weights + part * kVectorLength);
    const std::size_t first = part * kVectorLength;
    const std::size_t left = count > first ? std::min(kVectorLength, count - first) : 0;
    total = Add(total, SelectFirst(left, weight, Broadcast(0)));
  }
  const float shrink = before == largest ? 1 : std::exp2(before - largest);
  scratch.weight[unit] = std::fma(scratch.weight[unit], shrink, Sum(total));

  constexpr std::size_t kLength = kVectors * kVectorLength;
  constexpr std::size_t kTogether = std::min(kVectors, kRegisters);
  float* const sums = scratch.sums + unit * kLength;
  std::size_t done = 0;
  for (; done + kTogether * kVectorLength <= kLength; done += kTogether * kVectorLength) {
    AddWeighted<kTogether, kLength>(scratch.tile + done, weights, count, shrink, sums + done);
  }
  if constexpr (kVectors % kTogether != 0) {
    AddWeighted<kVectors % kTogether, kLength>(scratch.tile + done, weights, count, shrink,
                                               sums + done);
  }
}

// Starts to load a tile's cells. The keys of a cell lie far from those of the next, so the
// processor does not load them by itself.
template <std::size_t kVectors>
SVC_TARGET void Prefetch(const std::uint16_t* halves, std::size_t stride, const std::int32_t* cells,
                         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t* const cell = halves + static_cast<std::size_t>(cells[i]) * stride;
    for (std::size_t at = 0; at < kVectors * kVectorLength; at += 32) {
      __builtin_prefetch(cell + at);
    }
  }
}

// Converts the keys or values of a tile's cells.
template <std::size_t kVectors>
SVC_TARGET void WidenTile(const std::uint16_t* halves, std::size_t stride,
                          const std::int32_t* cells, std::size_t count, const Scratch& scratch) {
  for (std::size_t i = 0; i < count; ++i) {
    Widen<kVectors>(halves + static_cast<std::size_t>(cells[i]) * stride,
                    scratch.tile + i * kVectors * kVectorLength);
  }
}

SVC_TARGET void SetBias(const std::uint16_t* mask, const std::int32_t* cells, std::size_t count,
                        const Scratch& scratch) {
  for (std::size_t i = 0; i < count; ++i) {
    scratch.bias[i] = ToFloat(mask[static_cast<std::size_t>(cells[i])]) * kLog2E;
  }
}

template <std::size_t kVectors>
SVC_TARGET void ScaleQueries(const Attention& attention, const RowGroup& group,
                             const Scratch& scratch) {
  float* scaled = scratch.queries;
  for (std::size_t row = group.first; row < group.first + group.rows; ++row) {
    for (std::size_t i = 0; i < attention.heads; ++i) {
      const float* const query =
          attention.queries + row * attention.query_row_stride + i * attention.query_stride;
      for (std::size_t v = 0; v < kVectors; ++v, scaled += kVectorLength) {
        Store(Multiply(Load(query + v * kVectorLength), Broadcast(attention.scale * kLog2E)),
              scaled);
      }
    }
  }
}

template <std::size_t kVectors>
SVC_TARGET void AttendTogether(const Attention& attention, const RowGroup& group,
                               const Scratch& scratch) {
  constexpr std::size_t kLength = kVectors * kVectorLength;
  const std::size_t units = group.rows * attention.heads;
  std::fill_n(scratch.sums, units * kLength, 0.0F);
  std::fill_n(scratch.weight, units, 0.0F);
  std::fill_n(scratch.largest, units, -kInfinity);
  std::fill_n(scratch.bias, kTile<kVectors>, 0.0F);
  ScaleQueries<kVectors>(attention, group, scratch);
  const std::size_t most = group.seen[group.rows - 1];
  for (std::size_t first = 0; first < most; first += kTile<kVectors>) {
    const std::int32_t* const cells = scratch.seen + first;
    const std::size_t width = std::min(kTile<kVectors>, most - first);
    // Cells of the tile that the row of a unit sees.
    const auto count_of = [&](std::size_t unit) {
      return std::clamp(group.seen[unit / attention.heads], first, first + width) - first;
    };
    if (group.has_bias) SetBias(MaskOf(attention, group.first), cells, width, scratch);
    WidenTile<kVectors>(attention.keys, attention.key_stride, cells, width, scratch);
    Prefetch<kVectors>(attention.values, attention.value_stride, cells, width);
    for (std::size_t unit = 0; unit < units; ++unit) {
      Score<kVectors>(scratch, count_of(unit), unit);
    }
    WidenTile<kVectors>(attention.values, attention.value_stride, cells, width, scratch);
    Prefetch<kVectors>(attention.keys, attention.key_stride, cells + width,
                       std::min(kTile<kVectors>, most - first - width));
    for (std::size_t unit = 0; unit < units; ++unit) {
      const std::size_t count = count_of(unit);
      if (count > 0) AddValues<kVectors>(scratch, count, unit);
    }
  }
}

// Writes the outputs of the group's rows: their sums divided by their weights.
template <std::size_t kVectors>
SVC_TARGET void PutOut(const Attention& attention, const RowGroup& group, const Scratch& scratch) {
  constexpr std::size_t kLength = kVectors * kVectorLength;
  for (std::size_t row = 0; row < group.rows; ++row) {
    for (std::size_t head = 0; head < attention.heads; ++head) {
      const std::size_t unit = row * attention.heads + head;
      const float weight = scratch.weight[unit];
      const Vector share = Broadcast(weight == 0 ? 0 : 1 / weight);
      float* const output = attention.outputs + (group.first + row) * attention.output_row_stride +
                            head * attention.output_stride;
      for (std::size_t i = 0; i < kLength; i += kVectorLength) {
        Store(Multiply(Load(scratch.sums + unit * kLength + i), share), output + i);
      }
    }
  }
}

template <std::size_t kVectors>
SVC_TARGET void AttendWith(const Attention& attention, std::uint8_t* bytes) {
  const Scratch scratch(bytes, attention);
  for (std::size_t end = attention.rows; end > 0;) {
    const RowGroup group = GroupBefore(attention, end, scratch);
    AttendTogether<kVectors>(attention, group, scratch);
    PutOut<kVectors>(attention, group, scratch);
    end = group.first;
  }
}

SVC_TARGET void AttendOfVectors(const Attention& attention, std::uint8_t* scratch) {
  switch (attention.head_length) {
    case 32:
      return AttendWith<2>(attention, scratch);
    case 64:
      return AttendWith<4>(attention, scratch);
    case 80:
      return AttendWith<5>(attention, scratch);
    case 96:
      return AttendWith<6>(attention, scratch);
    case 128:
      return AttendWith<8>(attention, scratch);
    default:
      return AttendWith<16>(attention, scratch);
  }
}

}  // namespace
}  // namespace svc
