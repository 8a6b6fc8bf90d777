// The product of a matrix of which few elements are stored, each with its row and column.
#include <cstring>

#include "base/parallel.h"
#include "dispatch/row_gradient.h"
#include "ops/index/indices.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

void check_shapes(std::span<const Shape> in) {
  if (in[0].ndim() != 1) raise<ShapeError>("input 'data' has shape {}, but one axis is needed", in[0]);
  check_same_shape("rows", in[1], in[0]);
  check_same_shape("columns", in[2], in[0]);
  if (in[3].ndim() < 1 || in[4].ndim() < 1) throw ShapeError("a scalar has no rows to multiply");
}
Tensor product(const Tensor& data, const Tensor& rows, const Tensor& columns, const Tensor& rhs, const Tensor& like) {
  return call("_coordinate_dot", {data, rows, columns, rhs, like});
}
// data as a factor of rows of `like`'s rank.
Tensor beside(const Tensor& data, const Tensor& like) {
  Shape column = Shape::filled(impl_of(like).shape.ndim(), 1);
  column[0] = -1;
  return call("Reshape", {data}, {{"shape", column}});
}
Tensor taken(const Tensor& table, const Tensor& indices) { return call("take", {table, indices}); }

// Elements of one row add up in the order in which they are stored; threads share the columns of rhs, so the sum does not depend on them.
template <class T>
void add_products(const T* data, const Indices& rows, const Indices& columns, const T* rhs, int64_t width, T* out) {
  const int64_t n = rows.size();
  parallel_for(width, std::max<int64_t>(16, kParallelGrain / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
    for (int64_t k = 0; k < n; ++k) {
      const T* from = rhs + columns[k] * width;
      T* to = out + rows[k] * width;
      for (int64_t j = begin; j < end; ++j) to[j] += data[k] * from[j];
    }
  });
}

GLUINO_OP(_coordinate_dot, NoAttrs) {
  op.doc("The product of a matrix, whose stored elements have rows and columns, and rhs. The result has as many rows as like.")
      .input("data")
      .input("rows")
      .own_dtype()
      .input("columns")
      .own_dtype()
      .input("rhs")
      .input("like")
      .shape_only()
      .kernel_dtypes({DType::float32, DType::float64})
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        check_shapes(in);
        Shape out = in[3];
        out[0] = in[4][0];
        return out;
      })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Shape &rhs = k.in(3).shape(), &out = k.out().shape();
        const Indices rows(k.in(1), out[0], IndexMode::raise), columns(k.in(2), rhs[0], IndexMode::raise, 1);
        std::memset(bytes_of(k.out()), 0, k.out().nbytes());
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          if constexpr (std::is_floating_point_v<T>)
            add_products(k.data<T>(0), rows, columns, k.data<T>(3), rhs.elements(1, rhs.ndim()), k.out_data<T>());
        });
      })
      .gradient({.inputs = {0, 1, 2, 3}},
                [](const NoAttrs&, const Gradient& g) -> Tensors {
                  Tensor data;
                  if (g.wants(0)) {
                    const Tensor products = taken(g.head(), g.in(1)) * taken(g.in(3), g.in(2));
                    data = call("sum", {products}, {{"axis", Shape{0}}, {"exclude", true}});
                  }
                  return {data, Tensor(), Tensor(), product(g.in(0), g.in(2), g.in(1), g.head(), g.like(3)), Tensor()};
                })
      .sample({{4}, index_sample({4}, 3), index_sample({4}, 5), {5, 2}, {3, 1}});
  picks_rows("_coordinate_dot", {3, [](const void*, const Gradient& g) -> std::optional<PickedRows> {
                                   if (g.wants(0)) return std::nullopt;
                                   return PickedRows{g.in(2), taken(g.head(), g.in(1)) * beside(g.in(0), g.like(3)), "clip"};
                                 }});
}

}  // namespace
}  // namespace gluino::ops
