// A lazy update: the rows of a weight that a gradient has touched, and those of its states, are updated alone.
#pragma once
#include "gluino/optimizer.h"

namespace gluino::optimizer {

// table[rows[k]] = values[k]; rows are int64 and of the table.
void write_rows(const Tensor& table, const Tensor& rows, const Tensor& values);

class TouchedRows {
 public:
  // `rows`: numbers of the rows that the gradient of the update has, each once. From now on the update is about copies of these rows.
  TouchedRows(Update& update, Tensors& states, const Tensor& rows);
  void write_back() const;  // after the step

 private:
  Tensor rows_;
  Tensors wholes_, parts_;
};

}  // namespace gluino::optimizer
