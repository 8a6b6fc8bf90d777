// The functions of rows, as operators and row programs name them.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace gluino::kernels {

// reduce: one number per row. softmax, log_softmax: of the row times `number`. Their gradients: from head and result, times `number`.
// layer_norm: of the row, with a row of factors and a row of offsets, `number` is added to the variance; also gives mean and standard
// deviation, one number per row. layer_norm_grad: from head, data, factors, mean and standard deviation, the gradients of data, factors and
// offsets. pick: the element that an index names; one out of range means the nearest. pick_grad: a row of zeros with a number there.
enum class RowFunction : uint8_t {
  map,
  reduce,
  softmax,
  log_softmax,
  softmax_grad,
  log_softmax_grad,
  layer_norm,
  layer_norm_grad,
  pick,
  pick_grad
};

// What a value is for each row: a row of its own, the same row for all, one number, or a whole number of any dtype. sum: one row that all
// rows are added up in; it is known when all rows are done, so no stage reads it.
enum class RowValue : uint8_t { row, shared, number, index, sum };

struct RowSignature {
  std::string_view name;
  std::vector<RowValue> arguments, results;
};
const RowSignature& row_signature(RowFunction function);

}  // namespace gluino::kernels
