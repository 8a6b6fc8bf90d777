// Attention products on interleaved projections, as transformer files use them.
#include <cmath>
#include <cstring>

#include "base/extents.h"
#include "base/parallel.h"
#include "kernels/gemm/gemm.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

struct HeadsAttrs {
  int64_t heads = 1;
  static void fields(AttrFields<HeadsAttrs>& f) { f.required("heads", &HeadsAttrs::heads, "number of attention heads"); }
};

// One of the interleaved matrices of a tensor (time, batch, heads * parts * depth): a (time, depth) matrix per batch and head.
template <class T>
struct Part {
  T* data;
  int64_t row, batch, head;  // distances
  T* at(int64_t n, int64_t h) const { return data + n * batch + h * head; }
};
template <class T>
static Part<T> part_of(T* data, const Shape& s, int64_t heads, int64_t parts, int64_t which) {
  const int64_t depth = s[2] / heads / parts;
  return {data + which * depth, s[1] * s[2], s[2], parts * depth};
}
// Attention weights (batch * heads, rows, columns).
template <class T>
static Part<T> weights_of(T* data, const Shape& s, int64_t heads) {
  return {data, s[2], heads * s[1] * s[2], s[1] * s[2]};
}

// c = alpha * op(a) * op(b) for every batch and head.
template <class T>
static void multiply(int64_t batch, int64_t heads, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, Part<const T> a,
                     Part<const T> b, Part<T> c) {
  parallel_for(batch * heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t s = i / heads, h = i % heads;
      kernels::gemm<T>({m, n, k}, {a.at(s, h), a.row, ta}, {b.at(s, h), b.row, tb}, {c.at(s, h), c.row},
                       {.product = static_cast<T>(alpha)});
    }
  });
}

static void check_projection(const Shape& s, int64_t heads, int64_t parts) {
  constexpr int64_t kMostHeads = 1 << 20;
  if (heads < 1 || heads > kMostHeads) raise<AttrError>("heads = {}, but 1 to {} are possible", heads, kMostHeads);
  if (s.ndim() != 3 || s[2] % (heads * parts))
    raise<ShapeError>("a projection has shape {}, but (time, batch, a multiple of {}) is needed", s, heads * parts);
}
static void check_attention(const Shape& attention, const Shape& values, int64_t heads) {
  const int64_t matrices = saturated_product(values[1], heads);
  if (attention.ndim() != 3 || attention[0] != matrices || attention[2] != values[0])
    raise<ShapeError>("attention has shape {}, but ({}, queries, {}) is needed", attention, matrices, values[0]);
}

// Where queries, keys and values lie: all in input 0, or queries in one tensor and keys and values in another.
struct Interleaving {
  int64_t query_parts, key_parts;  // matrices that are interleaved
  int64_t key, value;              // which of key_parts they are
};
constexpr Interleaving kSelf{3, 3, 1, 2}, kCross{1, 2, 0, 1};

static double query_scale(int64_t depth) { return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(depth, 1))); }

static void scores_kernel(const HeadsAttrs& a, KernelContext& k, Interleaving w) {
  const Tensor &queries = k.in(0), &keys = k.in(k.num_inputs() - 1);
  const int64_t depth = queries.extent(2) / a.heads / w.query_parts;
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    multiply<T>(queries.extent(1), a.heads, false, true, queries.extent(0), keys.extent(0), depth, query_scale(depth),
                part_of(queries.data<T>(), queries.shape(), a.heads, w.query_parts, 0),
                part_of(keys.data<T>(), keys.shape(), a.heads, w.key_parts, w.key), weights_of(k.out_data<T>(), k.out().shape(), a.heads));
  });
}
// Inputs head, queries[, keys]; outputs their gradients.
static void scores_grad_kernel(const HeadsAttrs& a, KernelContext& k, Interleaving w) {
  const Tensor &head = k.in(0), &queries = k.in(1), &keys = k.in(k.num_inputs() - 1);
  Tensor &dq = k.out(0), &dk = k.out(k.num_outputs() - 1);
  const int64_t depth = queries.extent(2) / a.heads / w.query_parts, rows = queries.extent(0), columns = keys.extent(0);
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    for (int i = 0; i < k.num_outputs(); ++i) std::fill_n(k.out_data<T>(i), k.out(i).size(), T(0));
    const Part<const T> up = weights_of(head.data<T>(), head.shape(), a.heads);
    multiply<T>(queries.extent(1), a.heads, false, false, rows, depth, columns, query_scale(depth), up,
                part_of(keys.data<T>(), keys.shape(), a.heads, w.key_parts, w.key),
                part_of(dq.mutable_data<T>(), dq.shape(), a.heads, w.query_parts, 0));
    multiply<T>(queries.extent(1), a.heads, true, false, columns, depth, rows, query_scale(depth), up,
                part_of(queries.data<T>(), queries.shape(), a.heads, w.query_parts, 0),
                part_of(dk.mutable_data<T>(), dk.shape(), a.heads, w.key_parts, w.key));
  });
}
static void values_kernel(const HeadsAttrs& a, KernelContext& k, Interleaving w) {
  const Tensor &values = k.in(0), &attention = k.in(1);
  const int64_t depth = values.extent(2) / a.heads / w.key_parts;
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    multiply<T>(values.extent(1), a.heads, false, false, attention.extent(1), depth, values.extent(0), 1,
                weights_of(attention.data<T>(), attention.shape(), a.heads),
                part_of(values.data<T>(), values.shape(), a.heads, w.key_parts, w.value),
                part_of(k.out_data<T>(), k.out().shape(), a.heads, 1, 0));
  });
}
// Inputs head, values, attention; outputs the gradients of the last two.
static void values_grad_kernel(const HeadsAttrs& a, KernelContext& k, Interleaving w) {
  const Tensor &head = k.in(0), &values = k.in(1), &attention = k.in(2);
  const int64_t depth = values.extent(2) / a.heads / w.key_parts, rows = attention.extent(1), columns = values.extent(0);
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    std::fill_n(k.out_data<T>(0), k.out(0).size(), T(0));
    const Part<const T> up = part_of(head.data<T>(), head.shape(), a.heads, 1, 0);
    multiply<T>(values.extent(1), a.heads, true, false, columns, depth, rows, 1,
                weights_of(attention.data<T>(), attention.shape(), a.heads), up,
                part_of(k.out_data<T>(0), values.shape(), a.heads, w.key_parts, w.value));
    multiply<T>(values.extent(1), a.heads, false, true, rows, columns, depth, 1, up,
                part_of(values.data<T>(), values.shape(), a.heads, w.key_parts, w.value),
                weights_of(k.out_data<T>(1), attention.shape(), a.heads));
  });
}

constexpr const char* kSecond = "the second derivative of attention products is not implemented";
// Shapes of the four forward operators, and of their gradients: the inputs without the head, which must fit.
template <Interleaving w>
static Shape scores_shape(const HeadsAttrs& a, std::span<const Shape> in) {
  const Shape &queries = in.front(), &keys = in.back();
  check_projection(queries, a.heads, w.query_parts);
  check_projection(keys, a.heads, w.key_parts);
  if (queries[1] != keys[1] || queries[2] * w.key_parts != keys[2] * w.query_parts)
    raise<ShapeError>("queries of shape {} do not fit keys_values of shape {}", queries, keys);
  return {saturated_product(queries[1], a.heads), queries[0], keys[0]};
}
template <Interleaving w>
static Shape values_shape(const HeadsAttrs& a, std::span<const Shape> in) {
  check_projection(in[0], a.heads, w.key_parts);
  check_attention(in[1], in[0], a.heads);
  return {in[1][1], in[0][1], in[0][2] / w.key_parts};
}
template <Shape (*forward)(const HeadsAttrs&, std::span<const Shape>)>
static std::vector<Shape> shapes_after_head(const HeadsAttrs& a, std::span<const Shape> in) {
  const Shape out = forward(a, in.subspan(1));
  if (!(in[0] == out)) raise<ShapeError>("head has shape {}, but {} is needed", in[0], out);
  return {in.begin() + 1, in.end()};
}

GLUINO_OP(_contrib_interleaved_matmul_selfatt_qk, HeadsAttrs) {
  op.doc("Scores of self-attention: scaled products of queries and keys, interleaved with values per head.")
      .input("queries_keys_values")
      .kernel_dtypes(real_dtypes())
      .shape(scores_shape<kSelf>)
      .kernel([](const HeadsAttrs& a, KernelContext& k) { scores_kernel(a, k, kSelf); })
      .gradient({{0}, {}},
                [](const HeadsAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_interleaved_selfatt_qk_grad", {g.head(), g.in(0)}, a)};
                })
      .sample({{3, 2, 12}}, {.heads = 2});
}
GLUINO_OP(_interleaved_selfatt_qk_grad, HeadsAttrs) {
  op.doc("The gradient of _contrib_interleaved_matmul_selfatt_qk.")
      .input("head")
      .input("queries_keys_values")
      .kernel_dtypes(real_dtypes())
      .shape(shapes_after_head<scores_shape<kSelf>>)
      .kernel([](const HeadsAttrs& a, KernelContext& k) { scores_grad_kernel(a, k, kSelf); })
      .not_differentiable(kSecond)
      .sample({{4, 3, 3}, {3, 2, 12}}, {.heads = 2});
}
GLUINO_OP(_contrib_interleaved_matmul_selfatt_valatt, HeadsAttrs) {
  op.doc("Values of self-attention, weighted by attention.")
      .input("queries_keys_values")
      .input("attention")
      .kernel_dtypes(real_dtypes())
      .shape(values_shape<kSelf>)
      .kernel([](const HeadsAttrs& a, KernelContext& k) { values_kernel(a, k, kSelf); })
      .gradient({{0, 1}, {}},
                [](const HeadsAttrs& a, const Gradient& g) {
                  return call_all_with("_interleaved_selfatt_valatt_grad", {g.head(), g.in(0), g.in(1)}, a);
                })
      .sample({{3, 2, 12}, {4, 3, 3}}, {.heads = 2});
}
GLUINO_OP(_interleaved_selfatt_valatt_grad, HeadsAttrs) {
  op.doc("The gradients of _contrib_interleaved_matmul_selfatt_valatt.")
      .input("head")
      .input("queries_keys_values")
      .input("attention")
      .kernel_dtypes(real_dtypes())
      .outputs({"values_grad", "attention_grad"})
      .shape(shapes_after_head<values_shape<kSelf>>)
      .kernel([](const HeadsAttrs& a, KernelContext& k) { values_grad_kernel(a, k, kSelf); })
      .not_differentiable(kSecond)
      .sample({{3, 2, 4}, {3, 2, 12}, {4, 3, 3}}, {.heads = 2});
}
GLUINO_OP(_contrib_interleaved_matmul_encdec_qk, HeadsAttrs) {
  op.doc("Scores of attention between two sequences; keys and values are interleaved per head.")
      .input("queries")
      .input("keys_values")
      .kernel_dtypes(real_dtypes())
      .shape(scores_shape<kCross>)
      .kernel([](const HeadsAttrs& a, KernelContext& k) { scores_kernel(a, k, kCross); })
      .gradient({{0, 1}, {}},
                [](const HeadsAttrs& a, const Gradient& g) {
                  return call_all_with("_interleaved_encdec_qk_grad", {g.head(), g.in(0), g.in(1)}, a);
                })
      .sample({{3, 2, 4}, {5, 2, 8}}, {.heads = 2});
}
GLUINO_OP(_interleaved_encdec_qk_grad, HeadsAttrs) {
  op.doc("The gradients of _contrib_interleaved_matmul_encdec_qk.")
      .input("head")
      .input("queries")
      .input("keys_values")
      .kernel_dtypes(real_dtypes())
      .outputs({"queries_grad", "keys_grad"})
      .shape(shapes_after_head<scores_shape<kCross>>)
      .kernel([](const HeadsAttrs& a, KernelContext& k) { scores_grad_kernel(a, k, kCross); })
      .not_differentiable(kSecond)
      .sample({{4, 3, 5}, {3, 2, 4}, {5, 2, 8}}, {.heads = 2});
}
GLUINO_OP(_contrib_interleaved_matmul_encdec_valatt, HeadsAttrs) {
  op.doc("Values of attention between two sequences, weighted by attention.")
      .input("keys_values")
      .input("attention")
      .kernel_dtypes(real_dtypes())
      .shape(values_shape<kCross>)
      .kernel([](const HeadsAttrs& a, KernelContext& k) { values_kernel(a, k, kCross); })
      .gradient({{0, 1}, {}},
                [](const HeadsAttrs& a, const Gradient& g) {
                  return call_all_with("_interleaved_encdec_valatt_grad", {g.head(), g.in(0), g.in(1)}, a);
                })
      .sample({{5, 2, 8}, {4, 3, 5}}, {.heads = 2});
}
GLUINO_OP(_interleaved_encdec_valatt_grad, HeadsAttrs) {
  op.doc("The gradients of _contrib_interleaved_matmul_encdec_valatt.")
      .input("head")
      .input("keys_values")
      .input("attention")
      .kernel_dtypes(real_dtypes())
      .outputs({"values_grad", "attention_grad"})
      .shape(shapes_after_head<values_shape<kCross>>)
      .kernel([](const HeadsAttrs& a, KernelContext& k) { values_grad_kernel(a, k, kCross); })
      .not_differentiable(kSecond)
      .sample({{3, 2, 4}, {5, 2, 8}, {4, 3, 5}}, {.heads = 2});
}

GLUINO_OP(_contrib_div_sqrt_dim, NoAttrs) {
  op.doc("Divides by the square root of the last extent.")
      .input("data")
      .same_shape()
      .kernel_dtypes(real_dtypes())
      .kernel([](const NoAttrs&, KernelContext& k) {
        const double factor = query_scale(k.in(0).ndim() ? k.in(0).shape().back() : 1);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T* from = k.data<T>(0);
          T* to = k.out_data<T>();
          for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) to[i] = from[i] * static_cast<T>(factor);
        });
      })
      .gradient({}, [](const Gradient& g) -> Tensors { return {call("_contrib_div_sqrt_dim", {g.head()})}; })
      .sample({{3, 4}});
}

struct QuadraticAttrs {
  double a = 0, b = 0, c = 0;
  static void fields(AttrFields<QuadraticAttrs>& f) {
    f.field("a", &QuadraticAttrs::a, "factor of the square")
        .field("b", &QuadraticAttrs::b, "factor of the data")
        .field("c", &QuadraticAttrs::c, "the constant");
  }
};
GLUINO_OP(_contrib_quadratic, QuadraticAttrs) {
  op.doc("a x^2 + b x + c.")
      .input("data")
      .same_shape()
      .scalar([](const QuadraticAttrs& q, Expr x) { return q.a * (x * x) + q.b * x + q.c; })
      .gradient({{0}, {}}, [](const QuadraticAttrs& q, const Gradient& g) -> Tensors { return {g.head() * (2 * q.a * g.in(0) + q.b)}; })
      .sample({{3, 4}}, {.a = 1, .b = 2, .c = 3});
}

struct GradientMultiplierAttrs {
  double scalar = 1;
  static void fields(AttrFields<GradientMultiplierAttrs>& f) {
    f.field("scalar", &GradientMultiplierAttrs::scalar, "factor of the gradient");
  }
};
GLUINO_OP(_contrib_gradientmultiplier, GradientMultiplierAttrs) {
  op.doc("The data itself; the gradient is multiplied by scalar.")
      .ignores({"is_int"})
      .input("data")
      .same_shape()
      .scalar([](Expr x) { return x * 1.0; })
      .gradient({}, [](const GradientMultiplierAttrs& a, const Gradient& g) -> Tensors { return {g.head() * a.scalar}; })
      .sample_without_gradient({{3, 4}}, {.scalar = 0.5});
}
GLUINO_OP(_contrib_round_ste, NoAttrs) {
  op.doc("Rounds; the gradient passes as if nothing had happened.")
      .input("data")
      .same_shape()
      .scalar([](Expr x) { return round(x); })
      .gradient({}, [](const Gradient& g) -> Tensors { return {g.head()}; })
      .sample_without_gradient({{3, 4}});
}
GLUINO_OP(_contrib_sign_ste, NoAttrs) {
  op.doc("The sign; the gradient passes as if nothing had happened.")
      .input("data")
      .same_shape()
      .scalar([](Expr x) { return sign(x); })
      .gradient({}, [](const Gradient& g) -> Tensors { return {g.head()}; })
      .sample_without_gradient({{3, 4}});
}

}  // namespace
}  // namespace gluino::ops
