// The matrix kernels, compared with sums in double precision over ggml's dequantized weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "aligned_bytes.h"
#include "kernels/kernels.h"
#include "quantized_weights.h"
#include "test.h"

namespace svc {
namespace {

using test::AlignedBytes;
using test::QuantizedWeights;

// Random weights and products with them.
class Product {
 public:
  Product(WeightType type, std::size_t outputs, std::size_t depth)
      : type_(type), outputs_(outputs), depth_(depth), weights_(type, outputs, depth) {}

  void Fill(std::uint8_t byte) { weights_.Fill(byte); }

  std::vector<float> Row() {
    std::normal_distribution<float> values;
    std::vector<float> row(depth_);
    for (float& value : row) value = values(random_);
    return row;
  }

  // Returns the kernel's outputs, [row][output].
  std::vector<float> Of(const std::vector<std::vector<float>>& values, MultiplyPanel* multiply) {
    const WeightMatrix& matrix = weights_.Interleaved();
    const AlignedBytes bytes(QuantizedRows::BytesFor(values.size(), depth_));
    const QuantizedRows rows(bytes.data(), values.size(), depth_, FormatOf(type_));
    for (std::size_t r = 0; r < values.size(); ++r) rows.Set(r, values[r].data());
    std::vector<float> product(values.size() * outputs_, NAN);
    for (std::size_t panel = 0; panel < matrix.panels(); ++panel) {
      for (std::size_t first = 0; first < rows.rows(); first += kRowGroup) {
        std::array<float*, kRowGroup> out{};
        for (std::size_t r = 0; r < rows.Group(first).size; ++r) {
          out[r] = &product[(first + r) * outputs_ + panel * kPanel];
        }
        multiply(matrix, panel, rows.Group(first), out.data());
      }
    }
    return product;
  }

  // Returns the expected outputs: ggml's weights times activations quantized as by QuantizedRows.
  std::vector<double> Expected(const std::vector<float>& row) const {
    const std::vector<float> weights = weights_.Dequantized();
    std::vector<double> outputs(outputs_);
    for (std::size_t b = 0; b < depth_ / kBlock; ++b) {
      float largest = 0;
      for (std::size_t i = 0; i < kBlock; ++i) {
        largest = std::max(largest, std::abs(row[b * kBlock + i]));
      }
      if (largest == 0) continue;
      for (std::size_t i = b * kBlock; i < (b + 1) * kBlock; ++i) {
        const double value = std::nearbyint(row[i] * (127 / largest)) * (largest / 127);
        for (std::size_t output = 0; output < outputs_; ++output) {
          outputs[output] += weights[output * depth_ + i] * value;
        }
      }
    }
    return outputs;
  }

 private:
  const WeightType type_;
  const std::size_t outputs_;
  const std::size_t depth_;
  std::mt19937 random_{2};
  QuantizedWeights weights_;
};

// Compares with a tolerance relative to the largest expected output.
bool AreClose(const std::vector<float>& actual, std::size_t from,
              const std::vector<double>& expected) {
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(actual[from + i] - expected[i]) <= 1e-5 * largest)) return false;
  }
  return true;
}

// Calls test(type, multiply) for each kernel that this processor has.
template <typename Test>
void ForEachKernel(Test test) {
  for (const WeightType type : test::kAllWeightTypes) {
    for (const Kernels& kernels : SupportedKernels()) test(type, kernels.multiply(type));
  }
}

TEST(EachOutputOfEachRowIsTheSumOfItsProducts) {
  ForEachKernel([](WeightType type, MultiplyPanel* multiply) {
    Product product(type, 48, 512);
    for (std::size_t count = 1; count <= 2 * kRowGroup + 1; ++count) {
      std::vector<std::vector<float>> rows;
      for (std::size_t r = 0; r < count; ++r) rows.push_back(product.Row());
      const std::vector<float> actual = product.Of(rows, multiply);
      for (std::size_t r = 0; r < count; ++r) {
        EXPECT(AreClose(actual, r * 48, product.Expected(rows[r])));
      }
    }
  });
}

// A row's result must not depend on other rows in the batch, nor on the processor.
TEST(ARowComesOutTheSameInWhateverCompanyAndOfEachKernel) {
  std::map<WeightType, std::vector<float>> first;
  ForEachKernel([&first](WeightType type, MultiplyPanel* multiply) {
    Product product(type, 32, 768);
    std::vector<std::vector<float>> rows;
    for (std::size_t r = 0; r < 2 * kRowGroup; ++r) rows.push_back(product.Row());
    const std::vector<float> row = product.Row();
    const std::vector<float>& alone =
        first.try_emplace(type, product.Of({row}, multiply)).first->second;
    for (std::size_t count = 1; count <= rows.size(); ++count) {
      std::vector<std::vector<float>> company(rows.begin(),
                                              rows.begin() + static_cast<std::ptrdiff_t>(count));
      company.back() = row;
      const std::vector<float> together = product.Of(company, multiply);
      EXPECT(std::memcmp(together.data() + (count - 1) * 32, alone.data(), 32 * sizeof(float)) ==
             0);
    }
  });
}

TEST(TheLargestWeightsAndActivationsDoNotOverflow) {
  ForEachKernel([](WeightType type, MultiplyPanel* multiply) {
    for (const std::uint8_t byte : {0x00, 0x7f, 0x80, 0xff}) {
      for (const float sign : {-1.0F, 1.0F}) {
        Product product(type, 16, 4096);
        product.Fill(byte);
        const std::vector<float> row(4096, sign * 1000);
        EXPECT(AreClose(product.Of({row, row, row, row}, multiply), 48, product.Expected(row)));
      }
    }
  });
}

// NaN and infinity must not turn into finite outputs, nor cause undefined behavior.
TEST(WhatIsNoNumberMakesEachOutputOfItsRowNaN) {
  ForEachKernel([](WeightType type, MultiplyPanel* multiply) {
    Product product(type, 16, 512);
    for (const float broken : {NAN, -NAN, INFINITY, -INFINITY}) {
      for (const std::size_t at : {0U, 31U, 300U, 511U}) {
        const std::vector<float> good = product.Row();
        std::vector<float> row = good;
        row[at] = broken;
        const std::vector<float> outputs = product.Of({good, row}, multiply);
        EXPECT(AreClose(outputs, 0, product.Expected(good)));
        for (std::size_t i = 16; i < 32; ++i) EXPECT(std::isnan(outputs[i]));
      }
    }
  });
}

TEST(TheSmallestAndLargestNumbersAreTaken) {
  ForEachKernel([](WeightType type, MultiplyPanel* multiply) {
    Product product(type, 16, 256);
    for (const float value : {std::numeric_limits<float>::denorm_min(),
                              std::numeric_limits<float>::min(), 1e-37F, 1e-30F, 1e30F}) {
      std::vector<float> row(256, 0);
      row[7] = -value;
      row[200] = value;
      for (const float output : product.Of({row}, multiply)) EXPECT(std::isfinite(output));
    }
  });
}

TEST(ABlockOfZerosAddsNothing) {
  ForEachKernel([](WeightType type, MultiplyPanel* multiply) {
    Product product(type, 16, 256);
    for (const float output : product.Of({std::vector<float>(256, 0)}, multiply)) {
      EXPECT_EQ(output, 0.0F);
    }
  });
}

}  // namespace
}  // namespace svc

TEST_MAIN()
