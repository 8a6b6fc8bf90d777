// Names that ask how elements are stored. Tensors of graphs are dense: what is stored is what is not zero.
#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

struct StorageAttrs {
  std::string stype = "default";
  static void fields(AttrFields<StorageAttrs>& f) {
    f.required("stype", &StorageAttrs::stype, "default, row_sparse or csr; arrays of mx.nd.sparse know, graphs are dense");
  }
};
GLUINO_OP(cast_storage, StorageAttrs) {
  composed(op.doc("The same values, stored otherwise: in a graph, as they are.").input("data").dtypes(DTypeSet::any),
           [](const StorageAttrs& a, std::span<const Tensor> in) {
             if (a.stype != "default" && a.stype != "row_sparse" && a.stype != "csr")
               raise<AttrError>("stype '{}' is not known; default, row_sparse and csr are", a.stype);
             return call("_copy", {in[0]});
           })
      .sample({{2, 3}}, {.stype = "csr"});
}

Tensor row_mask(const Tensor& data, const Tensor& rows) {
  const int64_t count = data.extent(0);
  const Tensor hits = call("one_hot", {reshaped(rows, {-1})}, {{"depth", count}, {"dtype", DType::int32}});
  Shape column = Shape::filled(data.ndim(), 1);
  column[0] = -1;
  return reshaped(call("max", {hits}, {{"axis", Shape{0}}}), column);
}
GLUINO_OP(_sparse_retain, NoAttrs) {
  composed(op.doc("The rows that indices name; zeros elsewhere.").input("data").input("indices").own_dtype().dtypes(DTypeSet::numeric),
           [](const NoAttrs&, std::span<const Tensor> in) {
             if (in[0].ndim() == 0) throw ShapeError("data is a scalar, but at least one axis is needed");
             if (in[1].size() == 0) return call("zeros_like", {in[0]});
             return chosen(row_mask(in[0], in[1]), in[0], call("zeros_like", {in[0]}));
           })
      .sample({{4, 2}, index_sample({2}, 4)});
}
GLUINO_OP(_identity_with_attr_like_rhs, NoAttrs) {
  composed(op.doc("lhs as it is; rhs tells how MXNet would store it.").input("lhs").input("rhs").shape_only().dtypes(DTypeSet::any),
           [](const NoAttrs&, std::span<const Tensor> in) { return call("_copy", {in[0]}); })
      .sample({{2, 3}, {2, 3}});
}

struct NnzAttrs {
  std::optional<Shape> axis;
  static void fields(AttrFields<NnzAttrs>& f) { f.field("axis", &NnzAttrs::axis, "count along this axis; None for all elements"); }
};
GLUINO_OP(_contrib_getnnz, NnzAttrs) {
  composed(op.doc("How many elements are stored: those that are not zero.")
               .input("data")
               .dtypes(DTypeSet::numeric)
               .dtype([](const NnzAttrs&, std::span<const DType>, DType) { return DType::int64; }),
           [](const NnzAttrs& a, std::span<const Tensor> in) {
             const Tensor counted = reduced("sum", as_dtype(in[0] != 0.0, DType::int64), a.axis, false);
             return counted.ndim() == 0 ? reshaped(counted, {1}) : counted;
           })
      .not_differentiable("it counts")
      .sample({index_sample({3, 4}, 2)})
      .sample({index_sample({3, 4}, 2)}, {.axis = Shape{0}});
}
GLUINO_OP(_contrib_edge_id, NoAttrs) {
  composed(op.doc("The numbers of edges from u to v in the matrix of a graph; -1 where there is none.")
               .input("data")
               .input("u")
               .own_dtype()
               .input("v")
               .own_dtype()
               .dtypes(DTypeSet::numeric),
           [](const NoAttrs&, std::span<const Tensor> in) {
             if (in[0].ndim() != 2) raise<ShapeError>("data has shape {}, but a matrix is needed", in[0].shape());
             const Tensor pairs[] = {reshaped(in[1], {-1}), reshaped(in[2], {-1})};
             const Tensor places = call("stack", pairs, {{"axis", int64_t{0}}, {"num_args", int64_t{2}}});
             const Tensor found = call("gather_nd", {in[0], places});
             return chosen(found != 0.0, found, call("zeros_like", {found}) - 1);
           })
      .not_differentiable("it looks numbers up")
      .sample({index_sample({3, 4}, 2), index_sample({5}, 3), index_sample({5}, 4)});
}

}  // namespace
}  // namespace gluino::ops
