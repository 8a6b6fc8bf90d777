// Included by weight_grad_tiles_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set and with contraction of a * b + c
// where that set has it. Every sum adds its terms one after the other.
#include "kernels/convolution/weight_grad_tiles.h"
#include "kernels/isa/lanes.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <int kRows>
void multiply(int64_t rows, int64_t count, const GradFactors* factors, int64_t block, int64_t row, int64_t panel, float* sums,
              int64_t row_step, int64_t sum_step) {
  if constexpr (kRows > 1)
    if (rows < kRows) return multiply<kRows - 1>(rows, count, factors, block, row, panel, sums, row_step, sum_step);
  for (int64_t p = 0; p < count; ++p, sums += sum_step) {
    const int64_t terms = factors[p].terms;
    const float *data = factors[p].data + block * terms * kGradRows + row, *head = factors[p].head + panel * terms * kGradColumns;
    Lanes low[kRows] = {}, high[kRows] = {};
#pragma GCC unroll 2
    for (int64_t t = 0; t < terms; ++t, data += kGradRows, head += kGradColumns) {
      const Lanes left = load(head), right = load(head + kLanes);
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        const Lanes x = spread(data[i]);
        low[i] += x * left;
        high[i] += x * right;
      }
    }
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      store(sums + i * row_step, low[i]);
      store(sums + i * row_step + kLanes, high[i]);
    }
  }
}

}  // namespace

extern const WeightGradTable kWeightGradTable;
const WeightGradTable kWeightGradTable = {multiply<6>};

}  // namespace gluino::kernels::GLUINO_ISA
