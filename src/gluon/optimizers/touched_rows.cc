#include "gluon/optimizers/touched_rows.h"

#include <cstring>

#include "gluino/op.h"
#include "tensor/impl.h"

namespace gluino::optimizer {

TouchedRows::TouchedRows(Update& update, Tensors& states, const Tensor& rows) : rows_(rows) {
  const int64_t extent = update.weight.extent(0);
  const auto pick = [&](Tensor& whole) {
    wholes_.push_back(whole);
    parts_.push_back(whole = call("take", {whole, rows}, {{"mode", std::string("raise")}}));
  };
  pick(update.weight);
  for (Tensor& state : states)
    if (state.ndim() > 0 && state.extent(0) == extent) pick(state);
}

void TouchedRows::write_back() const {
  for (size_t i = 0; i < wholes_.size(); ++i) write_rows(wholes_[i], rows_, parts_[i]);
}

void write_rows(const Tensor& table, const Tensor& rows, const Tensor& values) {
  const int64_t count = values.extent(0), width = table.extent(0) > 0 ? table.nbytes() / table.extent(0) : 0;
  if (rows.dtype() != DType::int64 || rows.size() != count || values.dtype() != table.dtype() || values.nbytes() != width * count)
    throw UserError("write_rows: the rows do not fit the table");
  const auto* numbers = reinterpret_cast<const int64_t*>(bytes_of(rows));
  char* to = bytes_of(table);
  for (int64_t k = 0; k < count; ++k) {
    if (numbers[k] < 0 || numbers[k] >= table.extent(0)) throw IndexError("write_rows: a row that the table does not have");
    std::memcpy(to + numbers[k] * width, bytes_of(values) + k * width, static_cast<size_t>(width));
  }
  impl_of(table).storage->note_write();
}

}  // namespace gluino::optimizer
