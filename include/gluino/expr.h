// Scalar expressions: what an elementwise operator does to one element, written once.
// The eager kernels run the recorded Program block by block; a compiler lowers the same Program to machine code.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace gluino {

// The types arithmetic is done in. Narrow types are widened on load and narrowed on store.
enum class ComputeType : uint8_t { f32, f64, i32, i64 };

// One line per entry reads best.
// clang-format off
// X(name, arity). `input` and `constant` are leaves. to_<dtype>: the value as an array of that dtype
// would keep it; widen: the same value, to be kept in the compute type.
#define GLUINO_SCALAR_FUNCTIONS(X)                                                                                   \
  X(input, 0) X(constant, 0)                                                                                         \
  X(negative, 1) X(abs, 1) X(sign, 1) X(round, 1) X(rint, 1) X(ceil, 1) X(floor, 1) X(trunc, 1) X(sqrt, 1) X(cbrt, 1) \
  X(exp, 1) X(expm1, 1) X(log, 1) X(log2, 1) X(log10, 1) X(log1p, 1)                                                 \
  X(sin, 1) X(cos, 1) X(tan, 1) X(arcsin, 1) X(arccos, 1) X(arctan, 1)                                               \
  X(sinh, 1) X(cosh, 1) X(tanh, 1) X(arcsinh, 1) X(arccosh, 1) X(arctanh, 1)                                         \
  X(erf, 1) X(erfinv, 1) X(gamma, 1) X(gammaln, 1) X(digamma, 1) X(logical_not, 1) X(isnan, 1) X(isinf, 1)           \
  X(to_float16, 1) X(to_bfloat16, 1) X(to_bool, 1) X(widen, 1)                                                       \
  X(add, 2) X(subtract, 2) X(multiply, 2) X(divide, 2) X(mod, 2) X(power, 2) X(maximum, 2) X(minimum, 2)             \
  X(hypot, 2) X(arctan2, 2)                                                                                          \
  X(equal, 2) X(not_equal, 2) X(greater, 2) X(greater_equal, 2) X(lesser, 2) X(lesser_equal, 2)                      \
  X(logical_and, 2) X(logical_or, 2) X(logical_xor, 2)                                                               \
  X(select, 3)

// clang-format on

enum class ScalarFn : uint8_t {
#define GLUINO_X(name, arity) name,
  GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef GLUINO_X
};
#define GLUINO_X(name, arity) +1
inline constexpr int kScalarFunctions = 0 GLUINO_SCALAR_FUNCTIONS(GLUINO_X);
#undef GLUINO_X
int arity(ScalarFn fn);
const char* name(ScalarFn fn);

struct Instruction {
  ScalarFn fn;
  uint8_t args[3];  // earlier instructions; for `input` args[0] is the input's number
  double value;     // for `constant`
};

// A straight line of instructions in one compute type; the last one is the result, unless others are named.
class Program {
 public:
  static constexpr int kMaxInstructions = 96, kMaxResults = 8;
  explicit Program(ComputeType type) : type_(type) {}
  ComputeType type() const { return type_; }
  int size() const { return size_; }
  const Instruction& operator[](int i) const { return code_[i]; }
  int append(const Instruction& instruction);
  int num_results() const { return named_results_ ? named_results_ : 1; }
  int result(int i) const { return named_results_ ? results_[i] : size_ - 1; }  // a position
  bool is_result(int position) const;
  void add_result(int position);  // the first one takes the place of the last instruction
  std::string str() const;        // "add(x0, multiply(x1, 2))"

 private:
  ComputeType type_;
  int size_ = 0, named_results_ = 0;
  std::array<uint8_t, kMaxResults> results_;
  std::array<Instruction, kMaxInstructions> code_;
};

// A value inside a Program under construction. Operators on Exprs append instructions.
class Expr {
 public:
  static Expr input(Program& p, int number);
  static Expr constant(Program& p, double value);
  static Expr call(ScalarFn fn, Expr a);
  static Expr call(ScalarFn fn, Expr a, Expr b);
  static Expr call(ScalarFn fn, Expr a, Expr b, Expr c);
  Program& program() const { return *program_; }
  int position() const { return position_; }
  bool is_integer() const { return program_->type() == ComputeType::i32 || program_->type() == ComputeType::i64; }

 private:
  Expr(Program& p, int position) : program_(&p), position_(position) {}
  Program* program_;
  int position_;
};

// clang-format off
#define GLUINO_EXPR_BINARY(symbol, fn)                                                                              \
  inline Expr operator symbol(Expr a, Expr b) { return Expr::call(ScalarFn::fn, a, b); }                            \
  inline Expr operator symbol(Expr a, double b) { return a symbol Expr::constant(a.program(), b); }                 \
  inline Expr operator symbol(double a, Expr b) { return Expr::constant(b.program(), a) symbol b; }
GLUINO_EXPR_BINARY(+, add)
GLUINO_EXPR_BINARY(-, subtract)
GLUINO_EXPR_BINARY(*, multiply)
GLUINO_EXPR_BINARY(/, divide)
GLUINO_EXPR_BINARY(==, equal)
GLUINO_EXPR_BINARY(!=, not_equal)
GLUINO_EXPR_BINARY(>, greater)
GLUINO_EXPR_BINARY(>=, greater_equal)
GLUINO_EXPR_BINARY(<, lesser)
GLUINO_EXPR_BINARY(<=, lesser_equal)
#undef GLUINO_EXPR_BINARY
inline Expr operator-(Expr a) { return Expr::call(ScalarFn::negative, a); }

#define GLUINO_EXPR_UNARY(fn) \
  inline Expr fn(Expr a) { return Expr::call(ScalarFn::fn, a); }
GLUINO_EXPR_UNARY(abs) GLUINO_EXPR_UNARY(sign) GLUINO_EXPR_UNARY(round) GLUINO_EXPR_UNARY(rint) GLUINO_EXPR_UNARY(ceil)
GLUINO_EXPR_UNARY(floor) GLUINO_EXPR_UNARY(trunc) GLUINO_EXPR_UNARY(sqrt) GLUINO_EXPR_UNARY(cbrt) GLUINO_EXPR_UNARY(exp)
GLUINO_EXPR_UNARY(expm1) GLUINO_EXPR_UNARY(log) GLUINO_EXPR_UNARY(log2) GLUINO_EXPR_UNARY(log10) GLUINO_EXPR_UNARY(log1p)
GLUINO_EXPR_UNARY(sin) GLUINO_EXPR_UNARY(cos) GLUINO_EXPR_UNARY(tan) GLUINO_EXPR_UNARY(arcsin) GLUINO_EXPR_UNARY(arccos)
GLUINO_EXPR_UNARY(arctan) GLUINO_EXPR_UNARY(sinh) GLUINO_EXPR_UNARY(cosh) GLUINO_EXPR_UNARY(tanh)
GLUINO_EXPR_UNARY(arcsinh) GLUINO_EXPR_UNARY(arccosh) GLUINO_EXPR_UNARY(arctanh) GLUINO_EXPR_UNARY(erf)
GLUINO_EXPR_UNARY(erfinv) GLUINO_EXPR_UNARY(gamma) GLUINO_EXPR_UNARY(gammaln) GLUINO_EXPR_UNARY(digamma)
GLUINO_EXPR_UNARY(logical_not) GLUINO_EXPR_UNARY(isnan) GLUINO_EXPR_UNARY(isinf) GLUINO_EXPR_UNARY(to_float16)
GLUINO_EXPR_UNARY(to_bfloat16) GLUINO_EXPR_UNARY(to_bool) GLUINO_EXPR_UNARY(widen)
#undef GLUINO_EXPR_UNARY

#define GLUINO_EXPR_BINARY(fn)                                                                                       \
  inline Expr fn(Expr a, Expr b) { return Expr::call(ScalarFn::fn, a, b); }                                          \
  inline Expr fn(Expr a, double b) { return fn(a, Expr::constant(a.program(), b)); }                                 \
  inline Expr fn(double a, Expr b) { return fn(Expr::constant(b.program(), a), b); }
GLUINO_EXPR_BINARY(mod) GLUINO_EXPR_BINARY(power) GLUINO_EXPR_BINARY(maximum) GLUINO_EXPR_BINARY(minimum)
GLUINO_EXPR_BINARY(hypot) GLUINO_EXPR_BINARY(arctan2) GLUINO_EXPR_BINARY(logical_and) GLUINO_EXPR_BINARY(logical_or)
GLUINO_EXPR_BINARY(logical_xor)
#undef GLUINO_EXPR_BINARY

    // clang-format on

    // c != 0 ? a : b
    inline Expr select(Expr c, Expr a, Expr b) {
  return Expr::call(ScalarFn::select, c, a, b);
}
inline Expr select(Expr c, Expr a, double b) { return select(c, a, Expr::constant(c.program(), b)); }
inline Expr select(Expr c, double a, Expr b) { return select(c, Expr::constant(c.program(), a), b); }
inline Expr select(Expr c, double a, double b) { return select(c, Expr::constant(c.program(), a), b); }

}  // namespace gluino
