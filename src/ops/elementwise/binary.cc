// Elementwise functions of two tensors, in three spellings: same shape, broadcasting, and with a scalar.
#include <cmath>

#include "ops/common.h"

namespace gluino::ops {
namespace {

static Tensor f(std::string_view name, const Tensor& x) { return call(name, {x}); }
static Tensor power(const Tensor& x, const Tensor& y) { return call("broadcast_power", {x, y}); }
static Tensor power(const Tensor& x, double y) { return call("_power_scalar", {x}, {{"scalar", y}}); }

#define A g.in(0)
#define B g.in(1)
#define Y g.out(0)
#define H g.head()
const Uses BOTH{{0, 1}, {}};  // which values a gradient reads

// A broadcasting operator and the one that insists on equal shapes share expression and gradients.
// elementwise name, aliases of it, broadcasting name, aliases of it
#define BINARY(same_name, same_aliases, broadcast_name, broadcast_aliases, text, types, expression, uses, grad_a, grad_b, sample_a,    \
               sample_b)                                                                                                               \
  GLUINO_OP(same_name, NoAttrs) {                                                                                                      \
    op.doc(text " Both inputs have the same shape.")                                                                                   \
        .alias same_aliases.input("lhs")                                                                                               \
        .input("rhs")                                                                                                                  \
        .dtypes(types)                                                                                                                 \
        .same_shape()                                                                                                                  \
        .scalar([](Expr a, Expr b) { return expression; })                                                                             \
        .gradient(uses,                                                                                                                \
                  [](const Gradient& g) -> Tensors {                                                                                   \
                    return {grad_a, grad_b};                                                                                           \
                  })                                                                                                                   \
        .sample({uniform_sample({3, 4}, sample_a), uniform_sample({3, 4}, sample_b)});                                                 \
  }                                                                                                                                    \
  GLUINO_OP(broadcast_name, NoAttrs) {                                                                                                 \
    op.doc(text " The inputs broadcast.")                                                                                              \
        .alias broadcast_aliases.input("lhs")                                                                                          \
        .input("rhs")                                                                                                                  \
        .dtypes(types)                                                                                                                 \
        .scalar([](Expr a, Expr b) { return expression; })                                                                             \
        .gradient(                                                                                                                     \
            uses,                                                                                                                      \
            [](const Gradient& g) -> Tensors {                                                                                         \
              return {g.wants(0) ? reduce_like(grad_a, g.like(0)) : Tensor(), g.wants(1) ? reduce_like(grad_b, g.like(1)) : Tensor()}; \
            })                                                                                                                         \
        .sample({uniform_sample({2, 3, 4}, sample_a), uniform_sample({3, 1}, sample_b)})                                               \
        .sample({uniform_sample({4}, sample_a), uniform_sample({2, 1, 4}, sample_b)});                                                 \
  }
#define ANY -2, 2
#define POSITIVE 0.3, 2
#define ALIAS(...) (__VA_ARGS__)

// One line per entry reads best.
// clang-format off
BINARY(elemwise_add, ALIAS("_plus", "_Plus", "_add"), broadcast_add, ALIAS("broadcast_plus", "_npi_add"), "lhs + rhs.", DTypeSet::any, a + b, Uses{}, H, H, ANY, ANY)
BINARY(elemwise_sub, ALIAS("_minus", "_Minus", "_sub"), broadcast_sub, ALIAS("broadcast_minus", "_npi_subtract"), "lhs - rhs.", DTypeSet::any, a - b, Uses{}, H, -H, ANY, ANY)
BINARY(elemwise_mul, ALIAS("_mul", "_Mul"), broadcast_mul, ALIAS("_npi_multiply"), "lhs * rhs.", DTypeSet::any, a * b, BOTH, H * B, H * A, ANY, ANY)
BINARY(elemwise_div, ALIAS("_div", "_Div"), broadcast_div, ALIAS(), "lhs / rhs.", DTypeSet::numeric, a / b, BOTH, H / B, -(H * A / f("square", B)), ANY, POSITIVE)
BINARY(_mod, ALIAS("_Mod"), broadcast_mod, ALIAS("_npi_mod"), "Remainder with the sign of rhs.", DTypeSet::numeric, mod(a, b), BOTH, H, -(H * f("floor", A / B)), ANY, POSITIVE)
BINARY(_power, ALIAS("_Power"), broadcast_power, ALIAS("_npi_power"), "lhs to the power of rhs.", DTypeSet::numeric, power(a, b), (Uses{{0, 1}, {0}}), H * B * power(A, B - 1), H * Y * f("log", A), POSITIVE, ANY)
BINARY(_maximum, ALIAS("_Maximum"), broadcast_maximum, ALIAS("_npi_maximum"), "The larger of the two.", DTypeSet::numeric, maximum(a, b), BOTH, H * indicator(A, ">=", B), H * indicator(A, "<", B), ANY, ANY)
BINARY(_minimum, ALIAS("_Minimum"), broadcast_minimum, ALIAS("_npi_minimum"), "The smaller of the two.", DTypeSet::numeric, minimum(a, b), BOTH, H * indicator(A, "<=", B), H * indicator(A, ">", B), ANY, ANY)
BINARY(_hypot, ALIAS(), broadcast_hypot, ALIAS("_npi_hypot"), "sqrt(lhs^2 + rhs^2).", DTypeSet::floating, hypot(a, b), (Uses{{0, 1}, {0}}), H * A / Y, H * B / Y, POSITIVE, POSITIVE)
BINARY(_arctan2, ALIAS("arctan2"), _broadcast_arctan2, ALIAS("_npi_arctan2", "broadcast_arctan2"), "Angle of the point (rhs, lhs).", DTypeSet::floating, arctan2(a, b), BOTH, H * B / (f("square", A) + f("square", B)), -(H * A / (f("square", A) + f("square", B))), POSITIVE, POSITIVE)
BINARY(_ldexp, ALIAS("ldexp"), _broadcast_ldexp, ALIAS("_npi_ldexp", "broadcast_ldexp"), "lhs * 2^rhs.", DTypeSet::floating, a * power(2.0, b), (Uses{{1}, {0}}), H * call("_rpower_scalar", {B}, {{"scalar", 2.0}}), H * Y * 0.6931471805599453, ANY, ANY)

// clang-format on

// Comparisons and logic answer 0 or 1 in the dtype of the inputs, as MXNet's do; NumPy's spelling gives truth values.
static DType truth_values(const auto&, std::span<const DType>, DType) { return DType::boolean; }
#define COMPARISON(same_name, alias1, broadcast_name, truth_name, text, expression) \
  GLUINO_OP(same_name, NoAttrs) {                                                   \
    op.doc("1 where " text " Both inputs have the same shape.")                     \
        .alias(alias1)                                                              \
        .input("lhs")                                                               \
        .input("rhs")                                                               \
        .dtypes(DTypeSet::any)                                                      \
        .same_shape()                                                               \
        .scalar([](Expr a, Expr b) { return expression; })                          \
        .not_differentiable("piecewise constant")                                   \
        .sample({index_sample({3, 4}, 3), index_sample({3, 4}, 3)});                \
  }                                                                                 \
  GLUINO_OP(broadcast_name, NoAttrs) {                                              \
    op.doc("1 where " text " The inputs broadcast.")                                \
        .input("lhs")                                                               \
        .input("rhs")                                                               \
        .dtypes(DTypeSet::any)                                                      \
        .scalar([](Expr a, Expr b) { return expression; })                          \
        .not_differentiable("piecewise constant")                                   \
        .sample({index_sample({2, 3, 4}, 3), index_sample({3, 1}, 3)});             \
  }                                                                                 \
  GLUINO_OP(truth_name, NoAttrs) {                                                  \
    op.doc("True where " text " The inputs broadcast.")                             \
        .input("lhs")                                                               \
        .input("rhs")                                                               \
        .dtypes(DTypeSet::any)                                                      \
        .dtype(truth_values<NoAttrs>)                                               \
        .scalar([](Expr a, Expr b) { return expression; })                          \
        .not_differentiable("piecewise constant")                                   \
        .sample({index_sample({2, 3, 4}, 3), index_sample({3, 1}, 3)});             \
  }
COMPARISON(_equal, "_Equal", broadcast_equal, _npi_equal, "lhs == rhs.", a == b)
COMPARISON(_not_equal, "_Not_Equal", broadcast_not_equal, _npi_not_equal, "lhs != rhs.", a != b)
COMPARISON(_greater, "_Greater", broadcast_greater, _npi_greater, "lhs > rhs.", a > b)
COMPARISON(_greater_equal, "_Greater_Equal", broadcast_greater_equal, _npi_greater_equal, "lhs >= rhs.", a >= b)
COMPARISON(_lesser, "_Lesser", broadcast_lesser, _npi_less, "lhs < rhs.", a < b)
COMPARISON(_lesser_equal, "_Lesser_Equal", broadcast_lesser_equal, _npi_less_equal, "lhs <= rhs.", a <= b)
COMPARISON(_logical_and, "_Logical_And", broadcast_logical_and, _npi_logical_and, "both are not 0.", logical_and(a, b))
COMPARISON(_logical_or, "_Logical_Or", broadcast_logical_or, _npi_logical_or, "one is not 0.", logical_or(a, b))
COMPARISON(_logical_xor, "_Logical_Xor", broadcast_logical_xor, _npi_logical_xor, "exactly one is not 0.", logical_xor(a, b))

GLUINO_OP(_grad_add, NoAttrs) {
  op.doc("lhs + rhs, as MXNet names it when it adds gradients.")
      .input("lhs")
      .input("rhs")
      .same_shape()
      .scalar([](Expr a, Expr b) { return a + b; })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {H, H};
                })
      .sample({{3, 4}, {3, 4}});
}

// ---- with a scalar

// The dtype is the tensor's, as in MXNet: the number is rounded towards 0 beside whole numbers. C++'s operators and mx.np convert the
// tensor first.
static bool is_same_number(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }
#define S a.scalar
// neutral: the number with which nothing changes; NaN for none. x + 0 and x - -0 turn -0 into 0.
#define SCALAR(name, alias1, text, neutral, expression, uses, gradient_expression, low, high)                                     \
  GLUINO_OP(name, ScalarAttrs) {                                                                                                  \
    op.doc(text)                                                                                                                  \
        .alias(alias1)                                                                                                            \
        .input("data")                                                                                                            \
        .dtypes(DTypeSet::any)                                                                                                    \
        .same_shape()                                                                                                             \
        .scalar([](const ScalarAttrs& a, Expr x) { return expression; })                                                          \
        .identity_if([](const ScalarAttrs& a, bool) { return is_same_number(a.scalar, neutral); })                                \
        .gradient(uses, [](const ScalarAttrs& a, const Gradient& g) -> Tensors { return (void)a, Tensors{gradient_expression}; }) \
        .sample({uniform_sample({3, 4}, low, high)}, {.scalar = 1.7})                                                             \
        .sample({uniform_sample({5}, low, high)}, {.scalar = 3});                                                                 \
  }
const Uses IN{{0}, {}}, INOUT{{0}, {0}};
// clang-format off
SCALAR(_plus_scalar, "_PlusScalar", "data + scalar.", NAN, x + S, Uses{}, H, -2, 2)
SCALAR(_minus_scalar, "_MinusScalar", "data - scalar.", 0, x - S, Uses{}, H, -2, 2)
SCALAR(_rminus_scalar, "_RMinusScalar", "scalar - data.", NAN, S - x, Uses{}, -H, -2, 2)
SCALAR(_mul_scalar, "_MulScalar", "data * scalar.", 1, x * S, Uses{}, H * S, -2, 2)
SCALAR(_div_scalar, "_DivScalar", "data / scalar.", 1, x / S, Uses{}, H / S, -2, 2)
SCALAR(_rdiv_scalar, "_RDivScalar", "scalar / data.", NAN, S / x, INOUT, -(H * Y / A), 0.3, 3)
SCALAR(_mod_scalar, "_ModScalar", "Remainder of data / scalar, with the sign of scalar.", NAN, mod(x, S), Uses{}, H, 0.1, 1.5)
SCALAR(_rmod_scalar, "_RModScalar", "Remainder of scalar / data, with the sign of data.", NAN, mod(S, x), IN, -(H * f("floor", S / A)), 0.9, 1.4)
SCALAR(_power_scalar, "_PowerScalar", "data to the power of scalar.", 1, S == 2 ? x * x : power(x, S), IN, H * S * power(A, S - 1), 0.3, 2)
SCALAR(_rpower_scalar, "_RPowerScalar", "scalar to the power of data.", NAN, power(S, x), (Uses{{}, {0}}), H * Y * std::log(S), -2, 2)
SCALAR(_maximum_scalar, "_MaximumScalar", "The larger of data and scalar.", NAN, maximum(x, S), IN, H * indicator(A, ">", S), -4, 4)
SCALAR(_minimum_scalar, "_MinimumScalar", "The smaller of data and scalar.", NAN, minimum(x, S), IN, H * indicator(A, "<", S), -4, 4)
// clang-format on

GLUINO_OP(_hypot_scalar, ScalarAttrs) {
  op.doc("sqrt(data^2 + scalar^2).")
      .input("data")
      .same_shape()
      .scalar([](const ScalarAttrs& a, Expr x) { return hypot(x, S); })
      .gradient(INOUT, [](const Gradient& g) -> Tensors { return {H * A / Y}; })
      .sample({{3, 4}}, {.scalar = 1.7});
}

#define SCALAR_COMPARISON(name, alias1, truth_name, text, expression)    \
  GLUINO_OP(name, ScalarAttrs) {                                         \
    op.doc("1 where " text)                                              \
        .alias(alias1)                                                   \
        .input("data")                                                   \
        .dtypes(DTypeSet::any)                                           \
        .same_shape()                                                    \
        .scalar([](const ScalarAttrs& a, Expr x) { return expression; }) \
        .not_differentiable("piecewise constant")                        \
        .sample({index_sample({3, 4}, 3)}, {.scalar = 1});               \
  }                                                                      \
  GLUINO_OP(truth_name, ScalarAttrs) {                                   \
    op.doc("True where " text)                                           \
        .input("data")                                                   \
        .dtypes(DTypeSet::any)                                           \
        .dtype(truth_values<ScalarAttrs>)                                \
        .same_shape()                                                    \
        .scalar([](const ScalarAttrs& a, Expr x) { return expression; }) \
        .not_differentiable("piecewise constant")                        \
        .sample({index_sample({3, 4}, 3)}, {.scalar = 1});               \
  }
SCALAR_COMPARISON(_equal_scalar, "_EqualScalar", _npi_equal_scalar, "data == scalar.", x == S)
SCALAR_COMPARISON(_not_equal_scalar, "_NotEqualScalar", _npi_not_equal_scalar, "data != scalar.", x != S)
SCALAR_COMPARISON(_greater_scalar, "_GreaterScalar", _npi_greater_scalar, "data > scalar.", x > S)
SCALAR_COMPARISON(_greater_equal_scalar, "_GreaterEqualScalar", _npi_greater_equal_scalar, "data >= scalar.", x >= S)
SCALAR_COMPARISON(_lesser_scalar, "_LesserScalar", _npi_less_scalar, "data < scalar.", x < S)
SCALAR_COMPARISON(_lesser_equal_scalar, "_LesserEqualScalar", _npi_less_equal_scalar, "data <= scalar.", x <= S)
SCALAR_COMPARISON(_logical_and_scalar, "_LogicalAndScalar", _npi_logical_and_scalar, "data and scalar are not 0.", logical_and(x, S))
SCALAR_COMPARISON(_logical_or_scalar, "_LogicalOrScalar", _npi_logical_or_scalar, "data or scalar is not 0.", logical_or(x, S))
SCALAR_COMPARISON(_logical_xor_scalar, "_LogicalXorScalar", _npi_logical_xor_scalar, "exactly one of data and scalar is not 0.",
                  logical_xor(x, S))

// ---- three and more

// MXNet also takes a vector condition that picks whole rows.
static bool picks_rows(const Shape& condition, const Shape& x, const Shape& y) {
  return condition.ndim() == 1 && x.ndim() > 1 && x == y && condition[0] == x[0];
}
GLUINO_OP(where, NoAttrs) {
  op.doc("x where condition is not 0, else y.")
      .input("condition")
      .own_dtype()
      .input("x")
      .input("y")
      .dtypes(DTypeSet::any)
      .inplace(1)
      .inplace(2)
      .shape([](const NoAttrs&, std::span<const Shape> in) { return picks_rows(in[0], in[1], in[2]) ? in[1] : broadcast_shapes(in); })
      .scalar([](Expr c, Expr x, Expr y) { return select(c, x, y); })
      .kernel([](const NoAttrs&, KernelContext& k) {
        Tensor condition = k.in(0);
        const Shape& x = k.in(1).shape();
        if (picks_rows(condition.shape(), x, k.in(2).shape())) {
          Shape column = Shape::filled(x.ndim(), 1);
          column[0] = x[0];
          condition = condition.reshape(column);
        }
        Tensor out[] = {k.out()};
        const Tensor in[] = {condition, k.in(1), k.in(2)};
        apply_into(OpRegistry::global().get("_where_broadcast"), in, nullptr, out);
      })
      .gradient({{0}, {}},
                [](const Gradient& g) -> Tensors {
                  const Tensor zero = call("zeros_like", {H});
                  return {Tensor(), g.wants(1) ? reduce_like(call("where", {g.in(0), H, zero}), g.like(1)) : Tensor(),
                          g.wants(2) ? reduce_like(call("where", {g.in(0), zero, H}), g.like(2)) : Tensor()};
                })
      .sample({index_sample({3, 4}, 2), {3, 4}, {3, 4}})
      .sample({index_sample({3}, 2), {3, 4}, {3, 4}});
}
GLUINO_OP(_where_broadcast, NoAttrs) {
  op.doc("x where condition is not 0, else y; all three broadcast.")
      .alias("_npi_where")
      .input("condition")
      .own_dtype()
      .input("x")
      .input("y")
      .dtypes(DTypeSet::any)
      .scalar([](Expr c, Expr x, Expr y) { return select(c, x, y); })
      .gradient({{0}, {}},
                [](const Gradient& g) -> Tensors {
                  const Tensor zero = call("zeros_like", {H});
                  return {Tensor(), reduce_like(call("_where_broadcast", {g.in(0), H, zero}), g.like(1)),
                          reduce_like(call("_where_broadcast", {g.in(0), zero, H}), g.like(2))};
                })
      .sample({index_sample({3, 1}, 2), {3, 4}, {4}});
}

struct NumArgsAttrs {
  int num_args = 0;
  static void fields(AttrFields<NumArgsAttrs>& f) {
    f.field("num_args", &NumArgsAttrs::num_args, "number of inputs; follows from the call");
  }
};
GLUINO_OP(add_n, NumArgsAttrs) {
  op.doc("Sum of all inputs, which have the same shape.")
      .alias("ElementWiseSum", "_sum_n")
      .variadic("args")
      .dtypes(DTypeSet::any)
      .same_shape()
      .kernel([](const NumArgsAttrs&, KernelContext& k) {
        static const OpDef& add = OpRegistry::global().get("elemwise_add");
        Tensor out[] = {k.out()};
        out[0].assign(k.in(0));
        for (int i = 1; i < k.num_inputs(); ++i) {
          const Tensor in[] = {out[0], k.in(i)};
          apply_into(add, in, nullptr, out);
        }
      })
      .inplace(0)
      .gradient({}, [](const Gradient& g) -> Tensors { return Tensors(g.num_inputs(), H); })
      .sample({{3, 4}, {3, 4}, {3, 4}})
      .sample({{2}});
}

}  // namespace
}  // namespace gluino::ops
