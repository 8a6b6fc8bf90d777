#include "autograd/row_gradient.h"

#include <algorithm>
#include <cstring>

#include "dispatch/mode.h"
#include "gluino/autograd.h"
#include "tensor/pool.h"

namespace gluino::autograd {

void attach_row_grad(Tensor leaf, GradReq req) {
  if (req == GradReq::null || leaf.is_symbolic() || mode().tracing || impl_of(leaf).shape.ndim() == 0) return leaf.attach_grad(req);
  auto entry = make_ref<TapeEntry>();
  entry->req = req;
  entry->keeps_rows = true;
  const detail::TensorImpl& t = impl_of(leaf);
  entry->leaf_grad = make_shape_only(t.shape, t.dtype, t.device);
  forget_rows(*entry);
  impl_of(leaf).autograd = entry;
}

bool keeps_rows(const Tensor& leaf) {
  const TapeEntry* e = entry_of(leaf);
  return e && e->is_leaf() && e->keeps_rows;
}

std::pair<Tensor, Tensor> row_gradient(const Tensor& leaf) {
  if (!keeps_rows(leaf)) return {};
  const TapeEntry& e = *entry_of(leaf);
  return {e.rows, e.row_values};
}

static Shape rows_of_shape(const Shape& table, int64_t count) {
  Shape s = table;
  s[0] = count;
  return s;
}

void forget_rows(TapeEntry& leaf) {
  const detail::TensorImpl& g = impl_of(leaf.leaf_grad);
  leaf.rows = make_tensor({0}, DType::int64, g.device);
  leaf.row_values = make_tensor(rows_of_shape(g.shape, 0), g.dtype, g.device);
}

// Which row of the table each index means.
static std::vector<int64_t> numbers_of(const PickedRows& piece, int64_t extent) {
  const Tensor indices = piece.indices.detach().astype(DType::int64);
  const auto* from = reinterpret_cast<const int64_t*>(bytes_of(indices));
  std::vector<int64_t> numbers(from, from + impl_of(indices).shape.elements());
  for (int64_t& n : numbers) n = piece.mode == "wrap" ? (n % extent + extent) % extent : std::clamp<int64_t>(n, 0, extent - 1);
  return numbers;
}

void set_rows(TapeEntry& leaf, std::vector<PickedRows> pieces) {
  const detail::TensorImpl& g = impl_of(leaf.leaf_grad);
  const Scope scope(false, std::nullopt);
  std::vector<std::vector<int64_t>> numbers;
  std::vector<int64_t> touched;
  for (const PickedRows& piece : pieces) {
    numbers.push_back(numbers_of(piece, g.shape[0]));
    touched.insert(touched.end(), numbers.back().begin(), numbers.back().end());
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  const auto count = static_cast<int64_t>(touched.size());
  const Tensor like = make_shape_only(rows_of_shape(g.shape, count), g.dtype, g.device);
  Tensor sum;
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (int64_t& n : numbers[i]) n = std::lower_bound(touched.begin(), touched.end(), n) - touched.begin();
    Tensor places = make_tensor({static_cast<int64_t>(numbers[i].size())}, DType::int64, g.device);
    std::copy(numbers[i].begin(), numbers[i].end(), reinterpret_cast<int64_t*>(bytes_of(places)));
    const Tensor values = pieces[i].values.detach().reshape(rows_of_shape(g.shape, impl_of(places).shape[0]));
    const Tensor part = table_of({places, values.dtype() == g.dtype ? values : values.astype(g.dtype), "clip"}, like);
    sum = sum.defined() ? gluino::call("elemwise_add", {sum, part}) : part;
  }
  leaf.rows = make_tensor({count}, DType::int64, g.device);
  std::copy(touched.begin(), touched.end(), reinterpret_cast<int64_t*>(bytes_of(leaf.rows)));
  leaf.row_values = sum;
}

Tensor dense_gradient(TapeEntry& leaf) {
  if (!leaf.keeps_rows) return leaf.leaf_grad;
  const detail::TensorImpl& g = impl_of(leaf.leaf_grad);
  const Tensor table = make_tensor(g.shape, g.dtype, g.device);
  fill_with_zeros(bytes_of(table), table.nbytes());
  const int64_t count = impl_of(leaf.rows).shape[0], width = g.shape[0] > 0 ? table.nbytes() / g.shape[0] : 0;
  const auto* rows = reinterpret_cast<const int64_t*>(bytes_of(leaf.rows));
  for (int64_t i = 0; i < count; ++i) std::memcpy(bytes_of(table) + rows[i] * width, bytes_of(leaf.row_values) + i * width, width);
  leaf.leaf_grad = table;
  leaf.keeps_rows = false;
  leaf.rows = leaf.row_values = Tensor();
  return leaf.leaf_grad;
}

}  // namespace gluino::autograd
