// The dense layer.
#include "kernels/gemm/gemm.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

struct FullyConnectedAttrs {
  int64_t num_hidden = 0;
  bool no_bias = false, flatten = true;
  static void fields(AttrFields<FullyConnectedAttrs>& f) {
    f.required("num_hidden", &FullyConnectedAttrs::num_hidden, "number of outputs")
        .field("no_bias", &FullyConnectedAttrs::no_bias, "leave the bias out")
        .field("flatten", &FullyConnectedAttrs::flatten, "treat all axes but the first as one");
  }
};

static int64_t features_of(const FullyConnectedAttrs& a, const Shape& data) {
  if (data.empty()) raise<ShapeError>("data is a scalar, but at least one axis is needed");
  return a.flatten ? data.elements(1, data.ndim()) : data.back();
}

static Shape result_shape(const FullyConnectedAttrs& a, const Shape& data) {
  if (a.flatten) return {data[0], a.num_hidden};
  Shape out = data;
  out[out.ndim() - 1] = a.num_hidden;
  return out;
}

static Shape fully_connected_shape(const FullyConnectedAttrs& a, std::span<const Shape> in) {
  const Shape weight{a.num_hidden, features_of(a, in[0])};
  if (!(in[1] == weight))
    raise<ShapeError>("data of shape {} with num_hidden = {} needs a weight of shape {}, but it is {}", in[0], a.num_hidden, weight, in[1]);
  if (!a.no_bias && in[2].elements() != a.num_hidden) raise<ShapeError>("bias has shape {}, but {} is needed", in[2], Shape{a.num_hidden});
  return result_shape(a, in[0]);
}

static void complete_fully_connected(const FullyConnectedAttrs& a, OptionalShapes& in, const OptionalShapes&) {
  if (!a.no_bias && is_open(in[2])) in[2] = Shape{a.num_hidden};
  if (!in[0] || in[0]->empty() || !is_open(in[1])) return;
  for (int i = a.flatten ? 1 : in[0]->ndim() - 1; i < in[0]->ndim(); ++i)
    if ((*in[0])[i] == Shape::kUnknown) return;
  in[1] = Shape{a.num_hidden, features_of(a, *in[0])};
}

static void fully_connected_kernel(const FullyConnectedAttrs& a, KernelContext& k) {
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const int64_t features = k.in(1).extent(1), rows = k.out().size() / std::max<int64_t>(a.num_hidden, 1);
    T* out = k.out_data<T>();
    if constexpr (std::is_same_v<T, float>)
      return kernels::gemm_with_epilogue({rows, a.num_hidden, features}, {k.data<T>(0), features}, {k.data<T>(1), features, true},
                                         {out, a.num_hidden}, {.bias = a.no_bias ? nullptr : k.data<T>(2)});
    if (!a.no_bias)
      for (int64_t i = 0; i < rows; ++i) std::copy_n(k.data<T>(2), a.num_hidden, out + i * a.num_hidden);
    kernels::gemm<T>({rows, a.num_hidden, features}, {k.data<T>(0), features}, {k.data<T>(1), features, true}, {out, a.num_hidden},
                     {.old = static_cast<T>(a.no_bias ? 0 : 1)});
  });
}

static Tensors fully_connected_gradient(const FullyConnectedAttrs& a, const Gradient& g) {
  const Shape rows{-1, 0};  // with reverse: keep the last axis, merge the others
  const Tensor head = a.flatten ? g.head() : g.head().reshape(rows, true);
  Tensors out(g.num_inputs());
  if (g.wants(0)) out[0] = call("reshape_like", {call("dot", {head, g.in(1)}), g.like(0)});
  if (g.wants(1)) {
    const Tensor data = a.flatten ? call("Flatten", {g.in(0)}) : g.in(0).reshape(rows, true);
    out[1] = call("dot", {head, data}, {{"transpose_a", true}});
  }
  if (!a.no_bias && g.wants(2)) out[2] = call("reshape_like", {head.sum(Shape{0}), g.like(2)});
  return out;
}

// ---- The compiled form: the weight rearranged once, relu in the same sweep.
struct CompiledDenseAttrs : FullyConnectedAttrs {
  int64_t features = 0;
  bool relu = false;
  template <class M>
  static M CompiledDenseAttrs::*own(M FullyConnectedAttrs::*member) {
    return member;
  }
  static void fields(AttrFields<CompiledDenseAttrs>& f) {
    using A = CompiledDenseAttrs;
    f.field("num_hidden", own(&A::num_hidden), "number of outputs")
        .field("no_bias", own(&A::no_bias), "leave the bias out")
        .field("flatten", own(&A::flatten), "treat all axes but the first as one")
        .field("features", &A::features, "number of inputs")
        .field("relu", &A::relu, "whether negative results become zero");
  }
};
static Shape packed_shape(const CompiledDenseAttrs& a) { return {kernels::packed_elements(a.features, a.num_hidden)}; }
static CompiledDenseAttrs compiled_sample() {
  CompiledDenseAttrs a;
  a.num_hidden = 4;
  a.features = 6;
  a.relu = true;
  return a;
}
static std::optional<CompiledLayer> compiled_dense(const FullyConnectedAttrs& a, std::span<const Shape> in, LayerEpilogue e, bool) {
  if (e.add || e.limit) return {};
  CompiledDenseAttrs c;
  static_cast<FullyConnectedAttrs&>(c) = a;
  c.features = in[1][1];
  const auto pack = std::make_shared<const CompiledDenseAttrs>(c);
  c.relu = e.relu;
  return CompiledLayer{
      .op = "_compiled_dense", .attrs = std::make_shared<const CompiledDenseAttrs>(c), .pack = "_pack_dense_weight", .pack_attrs = pack};
}
GLUINO_OP(_pack_dense_weight, CompiledDenseAttrs) {
  op.doc("Rearranges a weight for _compiled_dense.")
      .input("weight")
      .shape([](const CompiledDenseAttrs& a, std::span<const Shape> in) {
        if (!(in[0] == Shape{a.num_hidden, a.features})) raise<ShapeError>("weight has shape {}", in[0]);
        return packed_shape(a);
      })
      .kernel([](const CompiledDenseAttrs& a, KernelContext& k) {
        kernels::pack_factor(true, a.features, a.num_hidden, k.data<float>(0), a.features, k.out_data<float>());
      })
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{4, 6}}, compiled_sample());
}
GLUINO_OP(_compiled_dense, CompiledDenseAttrs) {
  op.doc("Dense layer with a rearranged weight, and what follows it.")
      .input("data")
      .input("weight")
      .input("bias")
      .present_if([](const CompiledDenseAttrs& a) { return !a.no_bias; })
      .shape([](const CompiledDenseAttrs& a, std::span<const Shape> in) {
        if (features_of(a, in[0]) != a.features) raise<ShapeError>("data has shape {}, but {} features are needed", in[0], a.features);
        if (!(in[1] == packed_shape(a))) raise<ShapeError>("weight has shape {}, but {} is needed", in[1], packed_shape(a));
        if (!a.no_bias && in[2].elements() != a.num_hidden) raise<ShapeError>("bias has shape {}", in[2]);
        return result_shape(a, in[0]);
      })
      .kernel([](const CompiledDenseAttrs& a, KernelContext& k) {
        const int64_t rows = k.out().size() / std::max<int64_t>(a.num_hidden, 1);
        const kernels::Epilogue after{.bias = a.no_bias ? nullptr : k.data<float>(2), .relu = a.relu};
        kernels::gemm_packed({rows, a.num_hidden, a.features}, {k.data<float>(0), a.features}, k.data<float>(1), false,
                             {k.out_data<float>(), a.num_hidden}, after);
      })
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{1, 6}, {6 * 16}, {4}}, compiled_sample())
      .sample({{3, 6}, {6 * 16}, {4}}, compiled_sample());
}

GLUINO_OP(FullyConnected, FullyConnectedAttrs) {
  op.doc("Dense layer: data times the transposed weight, plus bias.")
      .input("data")
      .input("weight")
      .input("bias")
      .present_if([](const FullyConnectedAttrs& a) { return !a.no_bias; })
      .shape(fully_connected_shape)
      .complete(complete_fully_connected)
      .kernel(fully_connected_kernel)
      .kernel_dtypes(real_dtypes())
      .gradient({{0, 1}, {}}, fully_connected_gradient)
      .sample({{2, 3, 2}, {4, 6}, {4}}, {.num_hidden = 4})
      .sample({{2, 3, 5}, {4, 5}}, {.num_hidden = 4, .no_bias = true, .flatten = false});
  for_compiler(op)
      .fold_affine([](const FullyConnectedAttrs& a, const Tensors& in, const ChannelAffine& c) {
        return c.axis == (a.flatten ? 1 : in[0].ndim() - 1) ? fold_into_weight(a, in, c, 0) : FoldedCall{};
      })
      .compiled_layer(compiled_dense);
}

}  // namespace
}  // namespace gluino::ops
