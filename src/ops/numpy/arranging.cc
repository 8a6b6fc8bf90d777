// Names of mx.np that put elements elsewhere: reshapes, stacks, splits, diagonals, insertion and deletion.
#include <cstring>

#include "base/copy_bytes.h"
#include "base/extents.h"
#include "base/parallel.h"
#include "gluino/functions.h"
#include "ops/numpy/composed.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

// ---- shapes

struct NewShapeAttrs {
  Shape newshape;
  bool reverse = false;
  std::string order = "C";
  static void fields(AttrFields<NewShapeAttrs>& f) {
    f.required("newshape", &NewShapeAttrs::newshape, "new shape; -1 infers an extent")
        .field("reverse", &NewShapeAttrs::reverse, "match the codes from the last axis to the first")
        .field("order", &NewShapeAttrs::order, "how elements are counted: C");
  }
};
void check_order(const NewShapeAttrs& a) {
  if (a.order != "C") raise<AttrError>("order '{}' is not supported; C is", a.order);
}
// What -1 stands for is what is left.
Shape with_inferred(Shape shape, const Shape& data, const Shape& attr) {
  int64_t* open = nullptr;
  int64_t known = 1;
  for (int64_t& extent : shape) {
    if (extent < -1) raise<AttrError>("newshape {} has the extent {}", attr, extent);
    if (extent == -1 && open) raise<AttrError>("newshape {} has more than one -1", attr);
    if (extent == -1)
      open = &extent;
    else
      known = saturated_product(known, extent);
  }
  const int64_t size = data.elements();
  if (open) *open = known > 0 ? size / known : 0;
  if (known * (open ? *open : 1) != size)
    raise<ShapeError>("data of shape {} has {} elements and cannot become shape {}", data, size, attr);
  shape.elements();  // raises where they cannot be counted: here the message gets the operator's name
  return shape;
}
template <class F>
void define_reshape(OpBuilder<NewShapeAttrs>& op, F shape_of) {
  op.input("a")
      .dtypes(DTypeSet::any)
      .view()
      .identity_if([](const auto&, bool) { return true; })
      .shape([shape_of](const NewShapeAttrs& a, std::span<const Shape> in) {
        check_order(a);
        return with_inferred(shape_of(a, in[0]), in[0], a.newshape);
      })
      .gradient({}, [](const Gradient& g) -> Tensors {
        return {call("reshape_like", {g.head(), g.like(0)})};
      });
}
GLUINO_OP(_npi_reshape, NewShapeAttrs) {
  define_reshape(op.doc("The same elements with another shape, as NumPy's reshape.").alias("_np_reshape"),
                 [](const NewShapeAttrs& a, const Shape&) { return a.newshape; });
  op.sample({{2, 3, 4}}, {.newshape = {4, -1}}).sample({{1, 1}}, {.newshape = {}});
}

// -2 copies an extent, -3 skips one of 1, -4 copies the rest, -5 joins two, -6 splits one into the two extents behind it. From behind
// (`reverse`) it is all read backwards: -6 stands behind the two.
Shape decode_extended(const NewShapeAttrs& a, const Shape& data) {
  Shape in = data, codes = a.newshape;
  if (a.reverse) {
    std::reverse(in.begin(), in.end());
    std::reverse(codes.begin(), codes.end());
  }
  std::vector<std::array<int64_t, 3>> steps;
  for (int i = 0; i < codes.ndim(); ++i) {
    if (codes[i] < -6) raise<AttrError>("newshape {} has the unknown code {}", a.newshape, codes[i]);
    const bool splits = codes[i] == -6;
    if (splits && i + 2 >= codes.ndim())
      raise<AttrError>("newshape {}: two extents must stand {} -6", a.newshape, a.reverse ? "before" : "behind");
    steps.push_back({codes[i], splits ? codes[i + 1] : 0, splits ? codes[i + 2] : 0});
    i += splits ? 2 : 0;
  }
  int axis = 0;
  Shape out;
  const auto next = [&] {
    if (axis >= in.ndim()) raise<ShapeError>("newshape {} asks for more axes than data of shape {} has", a.newshape, data);
    return in[axis++];
  };
  for (auto [code, first, second] : steps) {
    if (code == -2) {
      out.push_back(next());
    } else if (code == -3) {
      if (const int64_t extent = next(); extent != 1)
        raise<ShapeError>("newshape {}: -3 skips an extent of 1, but it is {}", a.newshape, extent);
    } else if (code == -4) {
      while (axis < in.ndim()) out.push_back(next());
    } else if (code == -5) {
      const int64_t extent = next();
      out.push_back(saturated_product(extent, next()));
    } else if (code == -6) {
      const int64_t total = next();
      if (first == -1 && second == -1) raise<AttrError>("newshape {}: only one of the extents after -6 can be -1", a.newshape);
      if (first == -1) first = second > 0 ? total / second : 0;
      if (second == -1) second = first > 0 ? total / first : 0;
      if (first < 0 || second < 0 || saturated_product(first, second) != total)
        raise<ShapeError>("newshape {} cannot split an extent of {}", a.newshape, total);
      out.push_back(first);
      out.push_back(second);
    } else {
      out.push_back(code);
      ++axis;
    }
  }
  if (a.reverse) std::reverse(out.begin(), out.end());
  return out;
}
GLUINO_OP(_npx_reshape, NewShapeAttrs) {
  define_reshape(
      op.doc(
          "The same elements with another shape: -2 copies an extent, -3 skips one of 1, -4 copies the rest, -5 joins two, -6 splits one."),
      decode_extended);
  op.sample({{2, 3, 4}}, {.newshape = {-2, -1}})
      .sample({{2, 1, 4}}, {.newshape = {-2, -3, -6, 2, -1}})
      .sample({{2, 3, 4, 5}}, {.newshape = {-5, -4}})
      .sample({{8, 3, 2}}, {.newshape = {-6, 4, 2, -4}})
      .sample({{2, 3, 4}}, {.newshape = {-1, -2}, .reverse = true})
      .sample({{3, 8}}, {.newshape = {-4, -1, 2, -6}, .reverse = true});
}

Tensor at_least(const Tensor& x, int axes) {
  if (x.ndim() >= axes) return x;
  switch (x.ndim()) {
    case 0: return reshaped(x, Shape::filled(axes, 1));
    case 1: return call("expand_dims", {axes == 3 ? call("expand_dims", {x}, {{"axis", int64_t{1}}}) : x}, {{"axis", int64_t{0}}});
    default: return call("expand_dims", {x}, {{"axis", int64_t{2}}});
  }
}
Tensors all_at_least(std::span<const Tensor> in, int axes) {
  Tensors out;
  for (const Tensor& x : in) out.push_back(at_least(x, axes));
  return out;
}
void define_at_least(OpBuilder<CountAttrs>& op, int axes) {
  composed(op.variadic("arys")
               .dtypes(DTypeSet::any)
               .num_outputs([](const CountAttrs& a) { return a.num_args; })
               .dtype([](const CountAttrs& a, std::span<const DType> in, DType) {
                 std::vector<DType> out(in.begin(), in.end());
                 out.resize(std::max<int64_t>(a.num_args, 0), DType::float32);
                 return out;
               }),
           [axes](const CountAttrs&, std::span<const Tensor> in) { return all_at_least(in, axes); })
      .sample({{3}, {2, 3}}, {.num_args = 2})
      .sample({SampleInput(Shape{}, -2, 2)});
}
GLUINO_OP(_np_atleast_1d, CountAttrs) { define_at_least(op.doc("Scalars become vectors."), 1); }
GLUINO_OP(_np_atleast_2d, CountAttrs) { define_at_least(op.doc("Scalars and vectors become matrices."), 2); }
GLUINO_OP(_np_atleast_3d, CountAttrs) { define_at_least(op.doc("What has fewer than three axes gets new ones."), 3); }

struct MoveAxisAttrs {
  Shape source, destination;
  static void fields(AttrFields<MoveAxisAttrs>& f) {
    f.required("source", &MoveAxisAttrs::source, "the axes to move").required("destination", &MoveAxisAttrs::destination, "where they go");
  }
};
GLUINO_OP(_np_moveaxis, MoveAxisAttrs) {
  composed(op.doc("Moves axes to other places; the others keep their order.").input("a").dtypes(DTypeSet::any),
           [](const MoveAxisAttrs& a, std::span<const Tensor> in) { return moved_axes(in[0], a.source, a.destination); })
      .sample({{2, 3, 4}}, {.source = {0}, .destination = {-1}})
      .sample({{2, 3, 4}}, {.source = {0, 1}, .destination = {1, 2}});
}

struct RollAttrs {
  std::optional<Shape> shift, axis;
  static void fields(AttrFields<RollAttrs>& f) {
    f.field("shift", &RollAttrs::shift, "how far, one number or one per axis")
        .field("axis", &RollAttrs::axis, "along which axes; None rolls the elements in their order");
  }
};
// Two runs of each block along the axis change places.
void roll_axis(int bytes, const AxisSplit& s, int64_t shift, const char* from, char* to) {
  if (s.extent == 0) return;
  const int64_t block = s.extent * s.inner * bytes, moved = ((shift % s.extent) + s.extent) % s.extent * s.inner * bytes;
  parallel_for(s.outer, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, block)), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      copy_bytes(to + o * block, from + (o + 1) * block - moved, moved);
      copy_bytes(to + o * block + moved, from + o * block, block - moved);
    }
  });
}
GLUINO_OP(_np_roll, RollAttrs) {
  op.doc("Rolls elements along axes; what leaves at the end comes back at the beginning.")
      .input("data")
      .dtypes(DTypeSet::any)
      .same_shape()
      .shape([](const RollAttrs& a, std::span<const Shape> in) {
        if (!a.shift || a.shift->empty()) throw AttrError("attribute 'shift' is needed");
        if (a.shift->ndim() != 1 && (!a.axis || a.shift->ndim() != a.axis->ndim()))
          raise<AttrError>("shift {} has {} numbers for {} axes", *a.shift, a.shift->ndim(), a.axis ? a.axis->ndim() : 1);
        for (int i = 0; a.axis && i < a.axis->ndim(); ++i) normalize_axis((*a.axis)[i], in[0]);
        return in[0];
      })
      .kernel([](const RollAttrs& a, KernelContext& k) {
        const Shape shape = a.axis ? k.out().shape() : Shape{k.out().size()};
        const Shape axes = a.axis ? *a.axis : Shape{0};
        const int bytes = dtype_bytes(k.out().dtype());
        if (axes.empty()) return copy_bytes(bytes_of(k.out()), bytes_of(k.in(0)), k.out().nbytes());
        Tensor between = axes.ndim() > 1 ? make_tensor(k.out().shape(), k.out().dtype(), k.out().device()) : Tensor();
        // The last one ends in the result.
        const char* from = bytes_of(k.in(0));
        for (int i = 0; i < axes.ndim(); ++i) {
          char* to = bytes_of((axes.ndim() - i) % 2 ? k.out() : between);
          roll_axis(bytes, AxisSplit(shape, normalize_axis(axes[i], shape)), (*a.shift)[a.shift->ndim() == 1 ? 0 : i], from, to);
          from = to;
        }
      })
      .gradient({},
                [](const RollAttrs& a, const Gradient& g) -> Tensors {
                  Shape back = *a.shift;
                  for (int64_t& s : back) s = -s;
                  return {call("_np_roll", {g.head()}, {{"shift", back}, {"axis", a.axis ? AttrValue(*a.axis) : AttrValue()}})};
                })
      .sample({{2, 5}}, {.shift = Shape{2}})
      .sample({{2, 5}}, {.shift = Shape{1, -2}, .axis = Shape{0, 1}})
      .sample({{2, 3, 4}}, {.shift = Shape{1}, .axis = Shape{0, 1, -1}});
}

struct Rot90Attrs {
  int64_t k = 1;
  Shape axes{0, 1};
  static void fields(AttrFields<Rot90Attrs>& f) {
    f.field("k", &Rot90Attrs::k, "how often by 90 degrees")
        .field("axes", &Rot90Attrs::axes, "the plane: from the first axis to the second");
  }
};
GLUINO_OP(_npi_rot90, Rot90Attrs) {
  composed(op.doc("Rotates by 90 degrees in the plane of two axes.").input("data").dtypes(DTypeSet::any),
           [](const Rot90Attrs& a, std::span<const Tensor> in) -> Tensor {
             const Shape axes = axes_of(a.axes, in[0].shape());
             if (axes.ndim() != 2 || axes[0] == axes[1]) raise<AttrError>("axes {} must be two different ones", a.axes);
             const auto flip = [](const Tensor& x, const Shape& along) { return call("reverse", {x}, {{"axis", along}}); };
             const auto swap = [&](const Tensor& x) { return call("SwapAxis", {x}, {{"dim1", axes[0]}, {"dim2", axes[1]}}); };
             switch (((a.k % 4) + 4) % 4) {
               case 0: return in[0];
               case 1: return swap(flip(in[0], {axes[1]}));
               case 2: return flip(in[0], axes);
               default: return flip(swap(in[0]), {axes[1]});
             }
           })
      .sample({{2, 3}})
      .sample({{2, 3, 4}}, {.k = -1, .axes = {1, 2}});
}

// ---- stacks and splits

template <class F>
void define_stack(OpBuilder<CountAttrs>& op, F f) {
  composed(op.variadic("data").dtypes(DTypeSet::any), [f](const CountAttrs&, std::span<const Tensor> in) {
    return f(in);
  }).sample({{2, 3}, {2, 3}}, {.num_args = 2});
}
GLUINO_OP(_npi_vstack, CountAttrs) {
  define_stack(op.doc("Joins along the first axis; vectors are rows."),
               [](std::span<const Tensor> in) { return joined(all_at_least(in, 2), 0); });
}
GLUINO_OP(_npi_hstack, CountAttrs) {
  define_stack(op.doc("Joins along the second axis, vectors along their only one."), [](std::span<const Tensor> in) {
    const Tensors parts = all_at_least(in, 1);
    return joined(parts, parts[0].ndim() == 1 ? 0 : 1);
  });
  op.sample({{2}, {3}}, {.num_args = 2});
}
GLUINO_OP(_npi_dstack, CountAttrs) {
  define_stack(op.doc("Joins along the third axis."), [](std::span<const Tensor> in) { return joined(all_at_least(in, 3), 2); });
}
GLUINO_OP(_npi_column_stack, CountAttrs) {
  define_stack(op.doc("Joins vectors as columns, matrices along the second axis."), [](std::span<const Tensor> in) {
    Tensors parts;
    for (const Tensor& x : in) parts.push_back(x.ndim() < 2 ? reshaped(x, {-1, 1}) : x);
    return joined(parts, 1);
  });
  op.sample({{3}, {3}}, {.num_args = 2});
}

struct ConcatenateAttrs {
  int64_t num_args = 1;
  std::optional<int64_t> axis = 0;
  static void fields(AttrFields<ConcatenateAttrs>& f) {
    f.field("num_args", &ConcatenateAttrs::num_args, "number of inputs; follows from the call")
        .field("axis", &ConcatenateAttrs::axis, "the axis to join along; None flattens first");
  }
};
GLUINO_OP(_npi_concatenate, ConcatenateAttrs) {
  composed(op.doc("Joins tensors along an axis.").variadic("data").dtypes(DTypeSet::any),
           [](const ConcatenateAttrs& a, std::span<const Tensor> in) {
             Tensors parts(in.begin(), in.end());
             if (!a.axis)
               for (Tensor& x : parts) x = reshaped(x, {-1});
             return joined(parts, a.axis.value_or(0));
           })
      .sample({{2, 3}, {2, 1}}, {.num_args = 2, .axis = 1})
      .sample({{2, 3}, {2}}, {.num_args = 2, .axis = std::nullopt});
}

struct NumpySplitAttrs {
  Shape indices;
  int64_t axis = 1;
  bool squeeze_axis = false;
  int64_t sections = 0;
  static void fields(AttrFields<NumpySplitAttrs>& f) {
    f.field("indices", &NumpySplitAttrs::indices, "where each part starts")
        .field("axis", &NumpySplitAttrs::axis, "follows from the operator; has no effect")
        .field("squeeze_axis", &NumpySplitAttrs::squeeze_axis, "remove the axis from the parts, whose extent must be 1")
        .field("sections", &NumpySplitAttrs::sections, "number of equal parts; 0 to use indices");
  }
};
void define_split(OpBuilder<NumpySplitAttrs>& op, int64_t of_matrix, int64_t of_vector) {
  composed(op.input("data").dtypes(DTypeSet::any).num_outputs([](const NumpySplitAttrs& a) {
    return a.sections > 0 ? a.sections : a.indices.ndim();
  }),
           [=](const NumpySplitAttrs& a, std::span<const Tensor> in) {
             return call_all("_split_v2", in,
                             {{"indices", a.indices},
                              {"axis", in[0].ndim() < 2 ? of_vector : of_matrix},
                              {"squeeze_axis", a.squeeze_axis},
                              {"sections", a.sections}});
           })
      .sample({{2, 4, 4}}, {.sections = 2})
      .sample({{2, 4, 4}}, {.indices = {0, 1}});
}
GLUINO_OP(_npi_hsplit, NumpySplitAttrs) { define_split(op.doc("Splits along the second axis, a vector along its only one."), 1, 0); }
GLUINO_OP(_npi_dsplit, NumpySplitAttrs) { define_split(op.doc("Splits along the third axis."), 2, 2); }

// ---- diagonals and triangles

struct DiagonalAttrs {
  int64_t offset = 0, axis1 = 0, axis2 = 1;
  static void fields(AttrFields<DiagonalAttrs>& f) {
    f.field("offset", &DiagonalAttrs::offset, "which diagonal; positive is above the main one")
        .field("axis1", &DiagonalAttrs::axis1, "the axis of rows")
        .field("axis2", &DiagonalAttrs::axis2, "the axis of columns");
  }
};
Tensor diagonal(const DiagonalAttrs& a, const Tensor& x) {
  if (x.ndim() < 2) raise<ShapeError>("data has shape {}, but at least two axes are needed", x.shape());
  return call("_np_diag", {x}, {{"k", a.offset}, {"axis1", a.axis1}, {"axis2", a.axis2}});
}
GLUINO_OP(_np_diagonal, DiagonalAttrs) {
  composed(op.doc("The diagonal of two axes, as the last axis.").input("data").dtypes(DTypeSet::any),
           [](const DiagonalAttrs& a, std::span<const Tensor> in) { return diagonal(a, in[0]); })
      .sample({{3, 4}}, {.offset = 1})
      .sample({{2, 3, 4}}, {.axis1 = 1, .axis2 = 2});
}
GLUINO_OP(_np_trace, DiagonalAttrs) {
  composed(op.doc("The sum of the diagonal of two axes.").input("data").dtypes(DTypeSet::numeric),
           [](const DiagonalAttrs& a, std::span<const Tensor> in) { return reduced("sum", diagonal(a, in[0]), Shape{-1}, false); })
      .sample({{3, 4}}, {.offset = 1})
      .sample({{2, 3, 4}}, {.axis1 = 1, .axis2 = 2});
}
struct DiagflatAttrs {
  int64_t k = 0;
  static void fields(AttrFields<DiagflatAttrs>& f) { f.field("k", &DiagflatAttrs::k, "which diagonal; positive is above the main one"); }
};
GLUINO_OP(_np_diagflat, DiagflatAttrs) {
  composed(op.doc("A matrix with all elements of data on a diagonal.").input("data").dtypes(DTypeSet::any),
           [](const DiagflatAttrs& a, std::span<const Tensor> in) {
             return call("_np_diag", {reshaped(in[0], {-1})}, {{"k", a.k}});
           })
      .sample({{2, 2}})
      .sample({{3}}, {.k = -1});
}
GLUINO_OP(_npi_tril, DiagflatAttrs) {
  composed(op.doc("The lower triangle of matrices; zeros above the diagonal k.").input("data").dtypes(DTypeSet::numeric),
           [](const DiagflatAttrs& a, std::span<const Tensor> in) {
             const Tensor x = in[0].ndim() == 1 ? call("broadcast_axis", {call("expand_dims", {in[0]}, {{"axis", int64_t{0}}})},
                                                       {{"axis", Shape{0}}, {"size", Shape{in[0].extent(0)}}})
                                                : in[0];
             return is_floating(x.dtype()) ? call("_triangle", {x}, {{"k", a.k}}) : gluino::tril(x, a.k);
           })
      .sample({{3, 4}}, {.k = 1})
      .sample({{2, 3, 3}}, {.k = -1})
      .sample({{3}});
}
GLUINO_OP(_npi_diag_indices_from, NoAttrs) {
  op.doc("The indices of the main diagonal of a tensor with equal extents: a row per axis.")
      .input("data")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        if (in[0].ndim() < 2 || std::any_of(in[0].begin(), in[0].end(), [&](int64_t e) { return e != in[0][0]; }))
          raise<ShapeError>("data has shape {}, but at least two axes of equal extents are needed", in[0]);
        return Shape{in[0].ndim(), in[0][0]};
      })
      .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::int64; })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const int64_t extent = k.out().extent(1);
        int64_t* out = k.out_data<int64_t>();
        for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) out[i] = i % extent;
      })
      .not_differentiable("it depends on a shape only")
      .sample({{3, 3}});
}

}  // namespace
}  // namespace gluino::ops
