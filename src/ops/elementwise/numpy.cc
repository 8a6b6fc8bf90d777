// Elementwise operators that only NumPy's interface has.
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "ops/common.h"

namespace gluino::ops {
namespace {

const Uses NONE{}, IN{{0}, {}}, BOTH{{0, 1}, {}};
Tensor f(std::string_view name, const Tensor& x) { return call(name, {x}); }

// ---- questions: truth values

template <class F>
void define_question(OpBuilder<NoAttrs>& op, F question) {
  op.input("data")
      .dtypes(DTypeSet::any)
      .same_shape()
      .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::boolean; })
      .kernel([question](const NoAttrs&, KernelContext& k) {
        bool* out = k.out_data<bool>();
        visit_dtype(k.in(0).dtype(), [&]<class T>(T*) {
          const T* x = k.data<T>(0);
          parallel_for(k.out().size(), kParallelGrain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) out[i] = question(static_cast<double>(x[i]));
          });
        });
      })
      .not_differentiable("piecewise constant")
      .sample({{3, 4}});
}
GLUINO_OP(_npi_isnan, NoAttrs) {
  define_question(op.doc("Whether an element is not a number."), [](double x) { return std::isnan(x); });
}
GLUINO_OP(_npi_isinf, NoAttrs) {
  define_question(op.doc("Whether an element is infinite."), [](double x) { return std::isinf(x); });
}
GLUINO_OP(_npi_isfinite, NoAttrs) {
  define_question(op.doc("Whether an element is finite."), [](double x) { return std::isfinite(x); });
}
GLUINO_OP(_npi_isposinf, NoAttrs) {
  define_question(op.doc("Whether an element is infinite and positive."), [](double x) { return std::isinf(x) && x > 0; });
}
GLUINO_OP(_npi_isneginf, NoAttrs) {
  define_question(op.doc("Whether an element is infinite and negative."), [](double x) { return std::isinf(x) && x < 0; });
}
GLUINO_OP(_npi_logical_not, NoAttrs) {
  define_question(op.doc("Whether an element is 0."), [](double x) { return x == 0; });
}

// ---- of two tensors, and of a tensor and a number

struct NumberAttrs {
  double scalar = 1;
  bool is_int = true;
  static void fields(AttrFields<NumberAttrs>& f) {
    f.field("scalar", &NumberAttrs::scalar, "the number").field("is_int", &NumberAttrs::is_int, "whether it was written as a whole number");
  }
};

template <class F, class G>
void define_with_number(OpBuilder<NumberAttrs>& op, Uses uses, F expression, G gradient) {
  op.input("data")
      .same_shape()
      .scalar([expression](const NumberAttrs& a, Expr x) { return expression(x, a.scalar); })
      .gradient(std::move(uses), [gradient](const NumberAttrs& a, const Gradient& g) -> Tensors { return {gradient(g, a.scalar)}; })
      .sample({uniform_sample({3, 4}, 0.3, 2)}, {.scalar = 1.5, .is_int = false});
}

template <class F, class G>
void define_of_two(OpBuilder<NoAttrs>& op, Uses uses, F expression, G gradient) {
  op.input("x1")
      .input("x2")
      .scalar([expression](Expr a, Expr b) { return expression(a, b); })
      .gradient(
          std::move(uses),
          [gradient](const Gradient& g) -> Tensors {
            const Tensors found = gradient(g);
            return {g.wants(0) ? reduce_like(found[0], g.like(0)) : Tensor(), g.wants(1) ? reduce_like(found[1], g.like(1)) : Tensor()};
          })
      .sample({uniform_sample({2, 3, 4}, 0.3, 2), uniform_sample({3, 1}, 0.3, 2)});
}

// 1 or -1 as the sign of x; 1 for 0.
Expr sign_of(Expr x) { return 1.0 - 2.0 * (x < 0.0); }
Tensor sign_of(const Tensor& x) { return 1 - 2 * indicator(x, "<", 0); }
GLUINO_OP(_npi_copysign, NoAttrs) {
  define_of_two(
      op.doc("The size of x1 with the sign of x2."), BOTH, [](Expr a, Expr b) { return abs(a) * sign_of(b); },
      [](const Gradient& g) -> Tensors {
        return {call("broadcast_mul", {g.head() * sign_of(g.in(1)), f("sign", g.in(0))}), g.head() * 0};
      });
}
GLUINO_OP(_npi_copysign_scalar, NumberAttrs) {
  define_with_number(
      op.doc("The sizes of the elements with the sign of a number."), IN, [](Expr x, double s) { return abs(x) * std::copysign(1.0, s); },
      [](const Gradient& g, double s) { return g.head() * f("sign", g.in(0)) * std::copysign(1.0, s); });
}
GLUINO_OP(_npi_rcopysign_scalar, NumberAttrs) {
  define_with_number(
      op.doc("The size of a number with the signs of the elements."), NONE, [](Expr x, double s) { return std::abs(s) * sign_of(x); },
      [](const Gradient&, double) { return Tensor(); });
}
GLUINO_OP(_npi_arctan2_scalar, NumberAttrs) {
  define_with_number(
      op.doc("Angle of the point (number, element)."), IN, [](Expr x, double s) { return arctan2(x, s); },
      [](const Gradient& g, double s) { return g.head() * s / (f("square", g.in(0)) + s * s); });
}
GLUINO_OP(_npi_rarctan2_scalar, NumberAttrs) {
  define_with_number(
      op.doc("Angle of the point (element, number)."), IN, [](Expr x, double s) { return arctan2(s, x); },
      [](const Gradient& g, double s) { return -(g.head() * s / (f("square", g.in(0)) + s * s)); });
}
GLUINO_OP(_npi_ldexp_scalar, NumberAttrs) {
  define_with_number(
      op.doc("The elements times 2 to the power of a number."), NONE, [](Expr x, double s) { return x * std::exp2(s); },
      [](const Gradient& g, double s) { return g.head() * std::exp2(s); });
}
GLUINO_OP(_npi_rldexp_scalar, NumberAttrs) {
  define_with_number(
      op.doc("A number times 2 to the power of the elements."), IN, [](Expr x, double s) { return s * power(2.0, x); },
      [](const Gradient& g, double s) {
        return g.head() * call("_rpower_scalar", {g.in(0)}, {{"scalar", 2.0}}) * (s * 0.6931471805599453);
      });
}

// ---- whole numbers

// Bits and divisors are those of whole numbers: of a real number, its whole part counts.
template <class F>
void of_whole_numbers(KernelContext& k, F&& function) {
  visit_dtype(k.out().dtype(), std::forward<F>(function));
}

template <class T>
T whole(int64_t x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(x);
  else
    return element<T>(static_cast<double>(x));
}

// The number of the element of an input that broadcasts to `out`.
int64_t element_of(const Shape& in, const Shape& out, int64_t i) {
  int64_t at = 0, step = 1;
  for (int axis = out.ndim() - 1; axis >= 0; --axis) {
    const int64_t place = i % out[axis];
    i /= out[axis];
    const int own = axis - (out.ndim() - in.ndim());
    if (own < 0) break;
    at += in[own] == 1 ? 0 : place * step;
    step *= in[own];
  }
  return at;
}

template <class F>
void define_whole_pair(OpBuilder<NoAttrs>& op, F function) {
  op.input("x1")
      .input("x2")
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape> in) -> Shape { return broadcast_shapes(in); })
      .kernel([function](const NoAttrs&, KernelContext& k) {
        of_whole_numbers(k, [&]<class T>(T*) {
          const Shape &a = k.in(0).shape(), &b = k.in(1).shape(), &out = k.out().shape();
          const Tensor first = with_dtype(k.in(0), k.out().dtype()), second = with_dtype(k.in(1), k.out().dtype());
          const T *x = first.data<T>(), *y = second.data<T>();
          T* to = k.out_data<T>();
          const auto both = [&](T p, T q) { return whole<T>(function(static_cast<int64_t>(p), static_cast<int64_t>(q))); };
          const int64_t elements = k.out().size();
          if (a == b)
            for (int64_t i = 0; i < elements; ++i) to[i] = both(x[i], y[i]);
          else
            for (int64_t i = 0; i < elements; ++i) to[i] = both(x[element_of(a, out, i)], y[element_of(b, out, i)]);
        });
      })
      .not_differentiable("of whole numbers")
      .sample({index_sample({2, 3, 4}, 9), index_sample({3, 1}, 9)});
}
template <class F>
void define_whole_number(OpBuilder<NumberAttrs>& op, F function) {
  op.input("data")
      .dtypes(DTypeSet::any)
      .same_shape()
      .kernel([function](const NumberAttrs& a, KernelContext& k) {
        of_whole_numbers(k, [&]<class T>(T*) {
          const T* x = k.data<T>(0);
          T* to = k.out_data<T>();
          const auto scalar = static_cast<int64_t>(a.scalar);
          for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) to[i] = whole<T>(function(static_cast<int64_t>(x[i]), scalar));
        });
      })
      .not_differentiable("of whole numbers")
      .sample({index_sample({3, 4}, 9)}, {.scalar = 6});
}

constexpr auto bits_and = [](int64_t a, int64_t b) { return a & b; };
constexpr auto bits_or = [](int64_t a, int64_t b) { return a | b; };
constexpr auto bits_xor = [](int64_t a, int64_t b) { return a ^ b; };
constexpr auto common_multiple = [](int64_t a, int64_t b) { return std::lcm(a, b); };
GLUINO_OP(_npi_bitwise_and, NoAttrs) { define_whole_pair(op.doc("Bits that both have."), bits_and); }
GLUINO_OP(_npi_bitwise_or, NoAttrs) { define_whole_pair(op.doc("Bits that one of them has."), bits_or); }
GLUINO_OP(_npi_bitwise_xor, NoAttrs) { define_whole_pair(op.doc("Bits that exactly one of them has."), bits_xor); }
GLUINO_OP(_npi_lcm, NoAttrs) { define_whole_pair(op.doc("The least common multiple."), common_multiple); }
GLUINO_OP(_npi_bitwise_and_scalar, NumberAttrs) { define_whole_number(op.doc("Bits that a number has, too."), bits_and); }
GLUINO_OP(_npi_bitwise_or_scalar, NumberAttrs) { define_whole_number(op.doc("The bits with those of a number."), bits_or); }
GLUINO_OP(_npi_bitwise_xor_scalar, NumberAttrs) { define_whole_number(op.doc("Bits that differ from those of a number."), bits_xor); }
GLUINO_OP(_npi_lcm_scalar, NumberAttrs) { define_whole_number(op.doc("The least common multiple with a number."), common_multiple); }
GLUINO_OP(_npi_bitwise_not, NoAttrs) {
  op.doc("The other bits; of truth values, the other one.")
      .input("x")
      .dtypes(DTypeSet::any)
      .same_shape()
      .kernel([](const NoAttrs&, KernelContext& k) {
        of_whole_numbers(k, [&]<class T>(T*) {
          const T* x = k.data<T>(0);
          T* to = k.out_data<T>();
          for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) {
            if constexpr (std::is_same_v<T, bool>)
              to[i] = !x[i];
            else
              to[i] = whole<T>(~static_cast<int64_t>(x[i]));
          }
        });
      })
      .not_differentiable("of whole numbers")
      .sample({index_sample({3, 4}, 9)});
}

// ---- choices between a tensor and a number

struct ChoiceAttrs {
  double scalar = 0;
  static void fields(AttrFields<ChoiceAttrs>& f) { f.field("scalar", &ChoiceAttrs::scalar, "the number"); }
};
void define_choice(OpBuilder<ChoiceAttrs>& op, bool number_where_true) {
  op.input("condition")
      .own_dtype()
      .input(number_where_true ? "y" : "x")
      .dtypes(DTypeSet::any)
      .scalar([number_where_true](const ChoiceAttrs& a, Expr condition, Expr x) {
        return number_where_true ? select(condition, a.scalar, x) : select(condition, x, a.scalar);
      })
      .gradient({{0}, {}},
                [number_where_true](const ChoiceAttrs&, const Gradient& g) -> Tensors {
                  const Tensor zero = call("zeros_like", {g.head()});
                  const Tensors choice = number_where_true ? Tensors{g.in(0), zero, g.head()} : Tensors{g.in(0), g.head(), zero};
                  return {Tensor(), reduce_like(call("_npi_where", choice), g.like(1))};
                })
      .sample({index_sample({3, 4}, 2), {3, 4}}, {.scalar = 0.5});
}
GLUINO_OP(_npi_where_lscalar, ChoiceAttrs) { define_choice(op.doc("A number where the condition holds, else y."), true); }
GLUINO_OP(_npi_where_rscalar, ChoiceAttrs) { define_choice(op.doc("x where the condition holds, else a number."), false); }

}  // namespace
}  // namespace gluino::ops
