// The half-float kernels, compared with sums in double precision.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "test.h"

namespace svc {
namespace {

// Converts zero and numbers that a half float holds exactly as normal numbers.
std::uint16_t HalfOf(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (value == 0) return 0;
  const std::uint32_t exponent = ((bits >> 23U) & 0xffU) - 127 + 15;
  return static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | exponent << 10U |
                                    (bits >> 13U & 0x3ffU));
}

class Product {
 public:
  Product(std::size_t outputs, std::size_t depth)
      : outputs_(outputs), depth_(depth), weights_(outputs * depth), halves_(outputs * depth) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = static_cast<float>(static_cast<int>(random_() % 255) - 127) / 64;
      halves_[i] = HalfOf(weights_[i]);
    }
  }

  std::vector<float> Row() {
    std::vector<float> row(depth_);
    for (float& value : row) value = std::uniform_real_distribution<float>(-2, 2)(random_);
    return row;
  }
  // Returns outputs [begin, end) of the rows as [row][output]; all other outputs are 77.
  std::vector<float> Of(const std::vector<std::vector<float>>& rows, std::size_t begin,
                        std::size_t end, HalfKernel* kernel) const {
    std::vector<float> all(rows.size() * outputs_, 77);
    std::vector<const float*> in;
    std::vector<float*> out;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      in.push_back(rows[r].data());
      out.push_back(all.data() + r * outputs_);
    }
    kernel({.data = halves_.data(), .stride = depth_, .outputs = outputs_, .depth = depth_}, begin,
           end, in.data(), rows.size(), out.data());
    return all;
  }
  double Expected(const std::vector<float>& row, std::size_t output) const {
    double sum = 0;
    for (std::size_t i = 0; i < depth_; ++i) {
      sum += static_cast<double>(weights_[output * depth_ + i]) * row[i];
    }
    return sum;
  }

 private:
  const std::size_t outputs_;
  const std::size_t depth_;
  std::vector<float> weights_;
  std::vector<std::uint16_t> halves_;
  std::mt19937 random_{1};
};

void ExpectSums(const Product& product, const std::vector<std::vector<float>>& rows,
                std::size_t outputs, HalfKernel* kernel) {
  const std::vector<float> actual = product.Of(rows, 0, outputs, kernel);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t o = 0; o < outputs; ++o) {
      EXPECT(std::abs(actual[r * outputs + o] - product.Expected(rows[r], o)) < 1e-3);
    }
  }
}

TEST(EachOutputOfEachRowIsTheSumOfItsProducts) {
  for (const std::size_t outputs : {1U, 4U, 7U, 16U}) {
    for (const std::size_t depth : {16U, 896U}) {
      Product product(outputs, depth);
      for (const std::size_t count : {1U, 2U, 5U, 6U, 7U, 13U, 160U}) {
        std::vector<std::vector<float>> rows;
        for (std::size_t r = 0; r < count; ++r) rows.push_back(product.Row());
        for (const Kernels& kernels : SupportedKernels()) {
          ExpectSums(product, rows, outputs, kernels.multiply_halves);
        }
      }
    }
  }
}

// A row's result must not depend on other rows in the batch, nor on the processor, nor on the
// outputs computed beside it.
TEST(ARowComesOutTheSameInWhateverCompanyAndShareAndOfEachKernel) {
  if (SupportedKernels().empty()) return;
  Product product(11, 256);
  const std::vector<float> row = product.Row();
  const std::vector<float> alone =
      product.Of({row}, 0, 11, SupportedKernels().front().multiply_halves);
  for (const Kernels& kernels : SupportedKernels()) {
    for (std::size_t count = 1; count <= 30; ++count) {
      std::vector<std::vector<float>> rows;
      for (std::size_t r = 0; r + 1 < count; ++r) rows.push_back(product.Row());
      rows.push_back(row);
      const std::vector<float> together = product.Of(rows, 0, 11, kernels.multiply_halves);
      EXPECT(std::memcmp(together.data() + (count - 1) * 11, alone.data(), 11 * sizeof(float)) ==
             0);
    }
    for (std::size_t begin = 0; begin < 11; ++begin) {
      for (std::size_t end = begin; end <= 11; ++end) {
        const std::vector<float> part = product.Of({row}, begin, end, kernels.multiply_halves);
        for (std::size_t o = 0; o < 11; ++o) {
          EXPECT_EQ(part[o], o >= begin && o < end ? alone[o] : 77.0F);
        }
      }
    }
  }
}

TEST(WhatIsNoNumberStaysNone) {
  Product product(4, 64);
  std::vector<float> row = product.Row();
  row[9] = NAN;
  for (const Kernels& kernels : SupportedKernels()) {
    for (const float output : product.Of({row}, 0, 4, kernels.multiply_halves))
      EXPECT(std::isnan(output));
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
