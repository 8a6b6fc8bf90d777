// Copies, casts, constants of a tensor's shape, and operators that only change how gradients flow.
#include <cstring>

#include "base/parallel.h"
#include "dispatch/own_gradient.h"
#include "kernels/isa/primitives.h"
#include "ops/common.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

static void copy_converted(const Tensor& from, Tensor& to) {
  const DType in = from.dtype(), out = to.dtype();
  const char* source = bytes_of(from);
  char* target = bytes_of(to);
  parallel_for(to.size(), kParallelGrain, [&](int64_t begin, int64_t end) {
    kernels::convert(source + begin * dtype_bytes(in), in, target + begin * dtype_bytes(out), out, end - begin);
  });
}
static void copy_kernel(const NoAttrs&, KernelContext& k) { copy_converted(k.in(0), k.out()); }

struct CastAttrs {
  DType dtype = DType::float32;
  static void fields(AttrFields<CastAttrs>& f) { f.required("dtype", &CastAttrs::dtype, "the dtype to convert to"); }
};
static void define_cast(OpBuilder<CastAttrs>& op) {
  op.input("data")
      .dtypes(DTypeSet::any)
      .same_shape()
      .identity_if([](const auto&, bool) { return true; })
      .dtype([](const CastAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .scalar([](Expr x) { return x; })
      .kernel([](const CastAttrs&, KernelContext& k) { copy_converted(k.in(0), k.out()); })
      .gradient({}, [](const Gradient& g) -> Tensors { return {g.head().astype(g.like(0).dtype())}; })
      .sample({{3, 4}}, {.dtype = DType::float64});
}
GLUINO_OP(Cast, CastAttrs) { define_cast(op.doc("Converts the elements to another dtype.").alias("cast", "_npi_cast")); }
GLUINO_OP(amp_cast, CastAttrs) { define_cast(op.doc("Converts the elements to another dtype, as mixed precision inserts it.")); }

struct AmpMulticastAttrs {
  int num_outputs = 0;
  bool cast_narrow = false;
  static void fields(AttrFields<AmpMulticastAttrs>& f) {
    f.required("num_outputs", &AmpMulticastAttrs::num_outputs, "number of inputs and outputs")
        .field("cast_narrow", &AmpMulticastAttrs::cast_narrow, "cast to the narrowest input dtype instead of the widest");
  }
};
GLUINO_OP(amp_multicast, AmpMulticastAttrs) {
  op.doc("Converts all inputs to the widest (or narrowest) dtype among them.")
      .variadic("data")
      .dtypes(DTypeSet::floating)
      .num_outputs([](const AmpMulticastAttrs& a) { return a.num_outputs; })
      .shape([](const AmpMulticastAttrs&, std::span<const Shape> in) { return std::vector<Shape>(in.begin(), in.end()); })
      .dtype([](const AmpMulticastAttrs& a, std::span<const DType> in, DType promoted) {
        DType narrow = in[0];
        for (DType d : in)
          if (dtype_bytes(d) < dtype_bytes(narrow)) narrow = d;
        return a.cast_narrow ? narrow : promoted;
      })
      .kernel([](const AmpMulticastAttrs&, KernelContext& k) {
        for (int i = 0; i < k.num_inputs(); ++i) copy_converted(k.in(i), k.out(i));
      })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  Tensors out;
                  for (int i = 0; i < g.num_inputs(); ++i) out.push_back(g.head(i).astype(g.like(i).dtype()));
                  return out;
                })
      .sample({{3, 4}, {2}}, {.num_outputs = 2});
}

GLUINO_OP(_copy, NoAttrs) {
  op.doc("A copy of the data.")
      .alias("identity", "_npi_copy", "_np_copy")
      .input("data")
      .dtypes(DTypeSet::any)
      .same_shape()
      .inplace(0)
      .identity_if([](const auto&, bool) { return true; })
      .kernel(copy_kernel)
      .gradient({}, [](const Gradient& g) -> Tensors { return {g.head()}; })
      .sample({{3, 4}});
}
GLUINO_OP(BlockGrad, NoAttrs) {
  ends_gradients("BlockGrad");
  op.doc("The data itself; no gradient flows through.")
      .alias("stop_gradient")
      .input("data")
      .dtypes(DTypeSet::any)
      .same_shape()
      .inplace(0)
      .kernel(copy_kernel)
      .gradient({}, [](const Gradient&) -> Tensors { return {Tensor()}; })
      .sample_without_gradient({{3, 4}});
}
GLUINO_OP(_overwrite, NoAttrs) {
  op.doc("The data after its memory took other values: those of value, while what flows back goes to the data.")
      .input("data")
      .input("value")
      .dtypes(DTypeSet::any)
      .same_shape()
      .inplace(1)
      .kernel([](const NoAttrs&, KernelContext& k) { copy_converted(k.in(1), k.out()); })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {g.head(), Tensor()};
                })
      .sample_without_gradient({{3, 4}, {3, 4}});
}
GLUINO_OP(make_loss, NoAttrs) {
  op.doc("The data itself, marked as a loss: backward starts here with ones whatever flows in.")
      .input("data")
      .same_shape()
      .inplace(0)
      .kernel(copy_kernel)
      .gradient({}, [](const Gradient& g) -> Tensors { return {call("ones_like", {g.head()})}; })
      .sample_without_gradient({{3, 4}});
}

// The like-operators read only a shape.
static void define_filled_like(OpBuilder<NoAttrs>& op, int value) {
  op.input("data")
      .shape_only()
      .dtypes(DTypeSet::any)
      .same_shape()
      .scalar([=](Expr x) { return Expr::constant(x.program(), value); })
      .kernel([=](const NoAttrs&, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) { std::fill_n(k.out_data<T>(), k.out().size(), static_cast<T>(value)); });
      })
      .gradient({}, [](const Gradient&) -> Tensors { return {Tensor()}; })
      .sample({{3, 4}});
}
GLUINO_OP(zeros_like, NoAttrs) {
  ends_gradients("zeros_like");
  define_filled_like(op.doc("Zeros of the shape and dtype of data."), 0);
}
GLUINO_OP(ones_like, NoAttrs) {
  ends_gradients("ones_like");
  define_filled_like(op.doc("Ones of the shape and dtype of data."), 1);
}
GLUINO_OP(shape_array, NoAttrs) {
  op.doc("The shape of data as an int64 vector.")
      .input("data")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape> in) { return Shape{in[0].ndim()}; })
      .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::int64; })
      .kernel([](const NoAttrs&, KernelContext& k) { std::copy(k.in(0).shape().begin(), k.in(0).shape().end(), k.out_data<int64_t>()); })
      .not_differentiable("a shape is not a function of the values")
      .sample({{3, 4}});
}
GLUINO_OP(size_array, NoAttrs) {
  op.doc("The number of elements of data as an int64 vector of one element.")
      .input("data")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape>) { return Shape{1}; })
      .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::int64; })
      .kernel([](const NoAttrs&, KernelContext& k) { *k.out_data<int64_t>() = k.in(0).size(); })
      .not_differentiable("a size is not a function of the values")
      .sample({{3, 4}});
}

}  // namespace
}  // namespace gluino::ops
