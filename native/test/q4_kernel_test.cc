// Our kernels for Q4_0 weights, against sums in double precision of what the bytes stand for.
#include "kernels/q4_kernel.h"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <random>

#include "test.h"

namespace svc {
namespace {

constexpr std::size_t kAlignment = 64;

struct FreeAligned {
  void operator()(std::uint8_t* bytes) const {
    ::operator delete[](bytes, std::align_val_t{kAlignment});
  }
};
using Bytes = std::unique_ptr<std::uint8_t[], FreeAligned>;

Bytes NewBytes(std::size_t size) {
  return Bytes(static_cast<std::uint8_t*>(::operator new[](size, std::align_val_t{kAlignment})));
}

// 2 ** exponent, which a half float holds from -14 to 15.
std::uint16_t HalfOf(int exponent) { return static_cast<std::uint16_t>((exponent + 15) << 10); }
double ValueOfHalf(std::uint16_t half) { return std::ldexp(1, (half >> 10) - 15); }

int WeightOf(const Q4Block& block, std::size_t i) {
  const std::uint8_t pair = block.weights[i % (kBlock / 2)];
  return (i < kBlock / 2 ? pair & 15 : pair >> 4) - 8;
}

// A product and all that it is made of.
class Product {
 public:
  Product(std::size_t outputs, std::size_t depth)
      : outputs_(outputs),
        depth_(depth),
        blocks_(outputs * depth / kBlock),
        data_(NewBytes(blocks_.size() * sizeof(Q4Block))) {
    for (Q4Block& block : blocks_) {
      block.scale = HalfOf(static_cast<int>(random_() % 8) - 8);
      for (std::uint8_t& pair : block.weights) pair = static_cast<std::uint8_t>(random_());
    }
  }

  std::vector<Q4Block>& blocks() { return blocks_; }

  std::vector<float> Row() {
    std::normal_distribution<float> values;
    std::vector<float> row(depth_);
    for (float& value : row) value = values(random_);
    return row;
  }

  // [row][output]
  std::vector<float> Of(const std::vector<std::vector<float>>& values, const Q4Kernel& kernel) {
    const Q4Matrix matrix{.outputs = outputs_, .depth = depth_, .data = data_.get()};
    Interleave(blocks_.data(), matrix);
    const Bytes bytes = NewBytes(QuantizedRows::BytesFor(values.size(), depth_));
    const QuantizedRows rows(bytes.get(), values.size(), depth_);
    for (std::size_t r = 0; r < values.size(); ++r) rows.Set(r, values[r].data());
    std::vector<float> product(values.size() * outputs_, NAN);
    for (std::size_t panel = 0; panel < matrix.panels(); ++panel) {
      for (std::size_t first = 0; first < rows.rows(); first += kRowGroup) {
        std::array<float*, kRowGroup> out{};
        for (std::size_t r = 0; r < rows.Group(first).size; ++r) {
          out[r] = &product[(first + r) * outputs_ + panel * kPanel];
        }
        kernel.multiply(matrix, panel, rows.Group(first), out.data());
      }
    }
    return product;
  }

  // Of an activation that is rounded to one of 255 steps of its block, as they should be.
  double Expected(const std::vector<float>& row, std::size_t output) const {
    double sum = 0;
    for (std::size_t b = 0; b < depth_ / kBlock; ++b) {
      const Q4Block& block = blocks_[output * depth_ / kBlock + b];
      float largest = 0;
      for (std::size_t i = 0; i < kBlock; ++i) {
        largest = std::max(largest, std::abs(row[b * kBlock + i]));
      }
      if (largest == 0) continue;
      for (std::size_t i = 0; i < kBlock; ++i) {
        const double step = std::nearbyint(row[b * kBlock + i] * (127 / largest));
        sum += ValueOfHalf(block.scale) * WeightOf(block, i) * step * (largest / 127);
      }
    }
    return sum;
  }

 private:
  const std::size_t outputs_;
  const std::size_t depth_;
  std::mt19937 random_{1};
  std::vector<Q4Block> blocks_;
  const Bytes data_;
};

bool AreClose(double actual, double expected) {
  return std::abs(actual - expected) <= 1e-4 * (1 + std::abs(expected));
}

TEST(EachOutputOfEachRowIsTheSumOfItsProducts) {
  Product product(48, 160);
  for (const Q4Kernel& kernel : Q4Kernels()) {
    for (std::size_t count = 1; count <= 2 * kRowGroup + 1; ++count) {
      std::vector<std::vector<float>> rows;
      for (std::size_t r = 0; r < count; ++r) rows.push_back(product.Row());
      const std::vector<float> actual = product.Of(rows, kernel);
      for (std::size_t r = 0; r < count; ++r) {
        for (std::size_t output = 0; output < 48; ++output) {
          EXPECT(AreClose(actual[r * 48 + output], product.Expected(rows[r], output)));
        }
      }
    }
  }
}

// A row's text must not depend on who else is computed, nor on the machine.
TEST(ARowComesOutTheSameInWhateverCompanyAndOfEachKernel) {
  Product product(32, 896);
  std::vector<std::vector<float>> rows;
  for (std::size_t r = 0; r < 2 * kRowGroup; ++r) rows.push_back(product.Row());
  for (const std::vector<float>& row : rows) {
    if (Q4Kernels().empty()) break;
    const std::vector<float> alone = product.Of({row}, Q4Kernels().front());
    for (const Q4Kernel& kernel : Q4Kernels()) {
      for (std::size_t count = 1; count <= rows.size(); ++count) {
        std::vector<std::vector<float>> company(rows.begin(),
                                                rows.begin() + static_cast<std::ptrdiff_t>(count));
        company.back() = row;
        const std::vector<float> together = product.Of(company, kernel);
        EXPECT(std::memcmp(together.data() + (count - 1) * 32, alone.data(), 32 * sizeof(float)) ==
               0);
      }
    }
  }
}

TEST(TheLargestWeightsAndActivationsDoNotOverflow) {
  for (const Q4Kernel& kernel : Q4Kernels()) {
    for (const std::uint8_t weight : {0, 15}) {
      for (const float sign : {-1.0F, 1.0F}) {
        Product product(16, 4096);
        for (Q4Block& block : product.blocks()) {
          block.scale = HalfOf(0);
          for (std::uint8_t& pair : block.weights) {
            pair = static_cast<std::uint8_t>(weight | weight << 4);
          }
        }
        const std::vector<float> row(4096, sign * 1000);
        for (const float output : product.Of({row, row, row, row}, kernel)) {
          EXPECT(AreClose(output, 4096.0 * sign * 1000 * (weight - 8)));
        }
      }
    }
  }
}

TEST(ABlockOfZerosAddsNothing) {
  for (const Q4Kernel& kernel : Q4Kernels()) {
    Product product(16, 64);
    for (const float output : product.Of({std::vector<float>(64, 0)}, kernel)) {
      EXPECT_EQ(output, 0.0F);
    }
  }
}

TEST(OnlyWholePanelsAndBlocksFit) {
  EXPECT(Q4Matrix::Fits(16, 32));
  EXPECT(!Q4Matrix::Fits(24, 32));
  EXPECT(!Q4Matrix::Fits(16, 48));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
