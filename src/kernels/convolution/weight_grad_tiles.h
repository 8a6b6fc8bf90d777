// The inner loop of a convolution weight's gradient, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// One of the products a gradient is made of: over places of the images, the transpose of the data at each place times the head there.
// Data is (blocks of kGradRows channels, terms, kGradRows), the head (panels of kGradColumns channels, terms, kGradColumns).
inline constexpr int64_t kGradRows = 24, kGradColumns = 16;
struct GradFactors {
  const float *data, *head;
  int64_t terms;
};

struct WeightGradTable {
  // sums[rows, kGradColumns] = the product's block of `rows` channels (at most 6) from `row` of a block of data on, and of one panel; for
  // `count` products. Rows of sums are row_step apart, the sums of products sum_step.
  void (*multiply)(int64_t rows, int64_t count, const GradFactors* factors, int64_t block, int64_t row, int64_t panel, float* sums,
                   int64_t row_step, int64_t sum_step);
};
const WeightGradTable& weight_grad_table();

}  // namespace gluino::kernels
