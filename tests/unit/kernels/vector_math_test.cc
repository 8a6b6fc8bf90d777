// The vector kernels of every instruction set this CPU has: within the bounds stated in vector_math.h of the exact
// value (double-precision libm); arithmetic is bitwise the same in all of them, functions in all that have fused multiply-add.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include "kernels/isa/primitives.h"
#include "support/support.h"

namespace gluino::kernels {
namespace baseline {
extern const PrimitiveTable kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const PrimitiveTable kTable;
}
namespace avx512 {
extern const PrimitiveTable kTable;
}
#endif
}  // namespace gluino::kernels

namespace gluino::test {
namespace {

using kernels::PrimitiveTable;

std::vector<const PrimitiveTable*> tables() {
  std::vector<const PrimitiveTable*> all{&kernels::baseline::kTable};
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) all.push_back(&kernels::avx2::kTable);
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw"))
    all.push_back(&kernels::avx512::kTable);
#endif
  return all;
}

// Every exponent and sign with many mantissas, special values, and a dense range around where functions bend.
const std::vector<float>& all_magnitudes() {
  static const std::vector<float> values = [] {
    std::vector<float> v;
    std::mt19937 engine(7);
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
      for (uint32_t sign = 0; sign < 2; ++sign)
        for (int i = 0; i < 600; ++i) {
          const uint32_t mantissa = i == 0 ? 0 : i == 1 ? 0x7fffffu : static_cast<uint32_t>(engine()) & 0x7fffffu;
          v.push_back(std::bit_cast<float>((sign << 31) | (exponent << 23) | mantissa));
        }
    std::uniform_real_distribution<float> near(-110, 110), unit(-2, 2);
    for (int i = 0; i < 200000; ++i) v.push_back(near(engine));
    for (int i = 0; i < 200000; ++i) v.push_back(unit(engine));
    return v;
  }();
  return values;
}

std::vector<float> run(const PrimitiveTable& table, ScalarFn fn, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> out(a.size());
  table.scalar[static_cast<int>(fn)][static_cast<int>(ComputeType::f32)](a.data(), b.data(), nullptr, out.data(),
                                                                         static_cast<int64_t>(a.size()));
  return out;
}

// The distance in units of the last place of float32 around the exact value.
double ulps(float got, double exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : HUGE_VAL;
  const auto nearest = static_cast<float>(exact);
  if (got == nearest) return 0;
  if (std::isinf(got) || std::isinf(nearest)) {
    // Overflow half a unit early or late counts as one unit, not as infinitely many.
    const float largest = std::numeric_limits<float>::max();
    const bool at_the_edge = std::abs(std::isinf(got) ? nearest : got) == largest && std::signbit(got) == std::signbit(nearest);
    return at_the_edge ? 1 : HUGE_VAL;
  }
  const int exponent = std::max(std::ilogb(exact == 0 ? 1e-45 : exact), -126);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

// Newton's method on erf from a rough start, without cancellation near 1.
double exact_erfinv(double x) {
  if (!(std::abs(x) < 1)) return std::abs(x) == 1 ? std::copysign(HUGE_VAL, x) : std::nan("");
  if (std::abs(x) < 1e-8) return x * std::sqrt(std::acos(-1.0)) / 2;
  const double l = std::log1p(-x * x), t = 2 / (std::acos(-1.0) * 0.147) + l / 2;
  double y = std::copysign(std::sqrt(std::sqrt(t * t - l / 0.147) - t), x);
  for (int i = 0; i < 4; ++i) {
    const double excess = x < 0 ? std::erfc(-y) - (1 + x) : (1 - x) - std::erfc(y);
    y -= excess * std::sqrt(std::acos(-1.0)) / 2 * std::exp(y * y);
  }
  return y;
}

struct Bound {
  const char* name;
  ScalarFn fn;
  double (*exact)(double);
  double most;
};
const Bound kBounds[] = {
    {"exp", ScalarFn::exp, std::exp, 2},           {"expm1", ScalarFn::expm1, std::expm1, 3},
    {"log", ScalarFn::log, std::log, 2},           {"log1p", ScalarFn::log1p, std::log1p, 3},
    {"tanh", ScalarFn::tanh, std::tanh, 7},        {"erf", ScalarFn::erf, std::erf, 7},
    {"sqrt", ScalarFn::sqrt, std::sqrt, 0.5001},   {"sin", ScalarFn::sin, std::sin, 1},
    {"cos", ScalarFn::cos, std::cos, 1},           {"tan", ScalarFn::tan, std::tan, 1},
    {"arcsin", ScalarFn::arcsin, std::asin, 1},    {"arccos", ScalarFn::arccos, std::acos, 1},
    {"arctan", ScalarFn::arctan, std::atan, 1},    {"sinh", ScalarFn::sinh, std::sinh, 1},
    {"cosh", ScalarFn::cosh, std::cosh, 1},        {"arcsinh", ScalarFn::arcsinh, std::asinh, 1},
    {"arccosh", ScalarFn::arccosh, std::acosh, 1}, {"arctanh", ScalarFn::arctanh, std::atanh, 1},
    {"log2", ScalarFn::log2, std::log2, 1},        {"log10", ScalarFn::log10, std::log10, 1},
    {"cbrt", ScalarFn::cbrt, std::cbrt, 1},        {"erfinv", ScalarFn::erfinv, exact_erfinv, 2},
};
// Of two operands.
struct Bound2 {
  const char* name;
  ScalarFn fn;
  double (*exact)(double, double);
};
const Bound2 kBounds2[] = {
    {"power", ScalarFn::power, std::pow}, {"arctan2", ScalarFn::arctan2, std::atan2}, {"hypot", ScalarFn::hypot, std::hypot}};

TEST(VectorMath, IsWithinItsBounds) {
  for (const PrimitiveTable* table : tables())
    for (const Bound& b : kBounds) {
      const std::vector<float>& x = all_magnitudes();
      const std::vector<float> y = run(*table, b.fn, x, x);
      double worst = 0;
      float where = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double u = ulps(y[i], b.exact(static_cast<double>(x[i])));
        if (u > worst) worst = u, where = x[i];
      }
      // The baseline's are libm's where those of other instruction sets are within 1.
      const bool is_libm = table == &kernels::baseline::kTable && b.most == 1;
      EXPECT_LE(worst, is_libm ? 2 : b.most) << table->name << " " << b.name << " at " << where;
    }
}

TEST(VectorMath, GammaFunctionsOfPositiveNumbersAreWithinOneUnit) {
  std::vector<float> x;
  for (float v : all_magnitudes())
    if (v > 0) x.push_back(v);
  for (int around : {1, 2, 3, 8})
    for (int i = -300; i < 300; ++i) x.push_back(static_cast<float>(around) + static_cast<float>(i) * 1e-7f);
  const std::vector<double> wide(x.begin(), x.end());
  for (const PrimitiveTable* table : tables())
    for (ScalarFn fn : {ScalarFn::gamma, ScalarFn::gammaln, ScalarFn::digamma}) {
      const std::vector<float> y = run(*table, fn, x, x);
      std::vector<double> exact(x.size());
      table->scalar[static_cast<int>(fn)][static_cast<int>(ComputeType::f64)](wide.data(), nullptr, nullptr, exact.data(),
                                                                              static_cast<int64_t>(x.size()));
      double worst = 0;
      float where = 0;
      for (size_t i = 0; i < x.size(); ++i)
        if (const double u = ulps(y[i], exact[i]); u > worst) worst = u, where = x[i];
      const bool is_libm = table == &kernels::baseline::kTable;
      EXPECT_LE(worst, is_libm ? 5 : 1) << table->name << " " << name(fn) << " at " << where;
    }
}

// Remainders are exact, so that all ways to compute them give the same.
TEST(VectorMath, RemaindersAreExactAndHaveTheSignOfTheDivisor) {
  std::vector<float> a = all_magnitudes(), b = a;
  std::shuffle(b.begin(), b.end(), std::mt19937(5));
  std::uniform_real_distribution<float> near(-4, 4);
  std::mt19937 engine(3);
  for (size_t i = 0; i < a.size() / 2; ++i) b[i] = a[i] * near(engine);  // so that blocks without far quotients are among them
  for (const PrimitiveTable* table : tables()) {
    const std::vector<float> y = run(*table, ScalarFn::mod, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      float want = std::fmod(a[i], b[i]);
      if (want != 0 && (want < 0) != (b[i] < 0)) want += b[i];
      ASSERT_TRUE(std::isnan(want) ? std::isnan(y[i]) : std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(y[i]))
          << table->name << ": " << a[i] << " mod " << b[i] << " is " << y[i] << " instead of " << want;
    }
  }
}

TEST(VectorMath, IsWithinOneUnitForTwoOperands) {
  std::vector<float> a = all_magnitudes(), b = a;
  std::shuffle(b.begin(), b.end(), std::mt19937(5));
  // No signalling NaN: libm's power of one to 0 is not 1. Whole exponents, and all pairs of special values.
  for (auto* values : {&a, &b})
    for (float& v : *values) v = std::isnan(v) ? std::nanf("") : v;
  for (size_t i = 0; i < b.size(); i += 5) b[i] = std::nearbyint(b[i] / 16);
  const float inf = HUGE_VALF, special[] = {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, -3.0f, 0.5f, -2.5f, inf, -inf, std::nanf(""), 1e-45f, 3e38f};
  for (const float x : special)
    for (const float y : special) a.push_back(x), b.push_back(y);
  for (const PrimitiveTable* table : tables())
    for (const Bound2& f : kBounds2) {
      const std::vector<float> got = run(*table, f.fn, a, b);
      double worst = 0;
      size_t where = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        const double exact = f.exact(static_cast<double>(a[i]), static_cast<double>(b[i])), u = ulps(got[i], exact);
        if (!(u <= worst)) worst = u, where = i;
        if (exact == 0) {
          ASSERT_EQ(std::signbit(got[i]), std::signbit(exact)) << f.name << " of " << a[i] << ", " << b[i];
        }
      }
      EXPECT_LE(worst, table == &kernels::baseline::kTable ? 2 : 1)
          << table->name << " " << f.name << " of " << a[where] << ", " << b[where];
    }
}

TEST(VectorMath, DoublesAreWithinTwoUnits) {
  std::vector<double> x;
  std::mt19937_64 engine(11);
  for (uint64_t exponent = 0; exponent < 2048; ++exponent)
    for (int i = 0; i < 200; ++i) x.push_back(std::bit_cast<double>((engine() & 0x800fffffffffffff) | exponent << 52));
  std::uniform_real_distribution<double> near(-750, 750), unit(-2, 2);
  for (int i = 0; i < 200000; ++i) x.push_back(near(engine)), x.push_back(unit(engine));
  // Where sin and cos are all but zero, and the sign of zero.
  for (int n = 1; n < 600000; n += 7) x.push_back(n * std::acos(-1.0) / 2);
  x.push_back(-0.0);
  const struct {
    const char* name;
    ScalarFn fn;
    long double (*exact)(long double);
  } functions[] = {{"exp", ScalarFn::exp, std::exp},
                   {"log", ScalarFn::log, std::log},
                   {"sin", ScalarFn::sin, std::sin},
                   {"cos", ScalarFn::cos, std::cos}};
  for (const PrimitiveTable* table : tables())
    for (const auto& f : functions) {
      std::vector<double> y(x.size());
      table->scalar[static_cast<int>(f.fn)][static_cast<int>(ComputeType::f64)](x.data(), nullptr, nullptr, y.data(),
                                                                                static_cast<int64_t>(x.size()));
      double worst = 0, where = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const long double exact = f.exact(static_cast<long double>(x[i]));
        if (std::isnan(exact) || std::isnan(y[i])) {
          ASSERT_EQ(std::isnan(exact), std::isnan(y[i])) << f.name << " of " << x[i];
          continue;
        }
        const auto nearest = static_cast<double>(exact);
        if (y[i] == nearest) {
          ASSERT_EQ(std::signbit(y[i]), std::signbit(nearest)) << f.name << " of " << x[i];
          continue;
        }
        const int exponent = std::max(std::ilogb(nearest), -1022);
        const auto u = static_cast<double>(std::abs(static_cast<long double>(y[i]) - exact) / std::ldexp(1.0L, exponent - 52));
        if (!(u <= worst)) worst = u, where = x[i];
      }
      EXPECT_LE(worst, 2) << table->name << " " << f.name << " at " << where;
    }
}

TEST(VectorMath, KeepsSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<float> x{0.0f, -0.0f, inf, -inf, nan};
  for (const PrimitiveTable* table : tables()) {
    SCOPED_TRACE(table->name);
    EXPECT_EQ(run(*table, ScalarFn::exp, x, x)[3], 0.0f);
    EXPECT_EQ(run(*table, ScalarFn::exp, x, x)[2], inf);
    EXPECT_EQ(run(*table, ScalarFn::log, x, x)[1], -inf);
    EXPECT_EQ(run(*table, ScalarFn::log, x, x)[2], inf);
    EXPECT_EQ(run(*table, ScalarFn::tanh, x, x)[3], -1.0f);
    EXPECT_EQ(run(*table, ScalarFn::erf, x, x)[2], 1.0f);
    EXPECT_EQ(run(*table, ScalarFn::expm1, x, x)[3], -1.0f);
    for (ScalarFn fn :
         {ScalarFn::tanh, ScalarFn::erf, ScalarFn::expm1, ScalarFn::log1p, ScalarFn::sqrt, ScalarFn::sin, ScalarFn::tan, ScalarFn::arcsin,
          ScalarFn::arctan, ScalarFn::sinh, ScalarFn::arcsinh, ScalarFn::arctanh, ScalarFn::cbrt, ScalarFn::erfinv}) {
      const std::vector<float> y = run(*table, fn, x, x);
      EXPECT_FALSE(std::signbit(y[0]));
      EXPECT_TRUE(std::signbit(y[1])) << static_cast<int>(fn);  // odd functions keep the sign of zero
      EXPECT_TRUE(std::isnan(y[4]));
    }
    const std::vector<float> signs = run(*table, ScalarFn::sign, x, x);
    EXPECT_EQ(std::bit_cast<uint32_t>(signs[0]), 0u);
    EXPECT_EQ(std::bit_cast<uint32_t>(signs[1]), 0u);
    EXPECT_EQ(signs[2], 1.0f);
    EXPECT_EQ(signs[3], -1.0f);
    EXPECT_TRUE(std::isnan(signs[4]));
    const std::vector<float> small{1e-45f, -1e-45f};
    EXPECT_EQ(run(*table, ScalarFn::sign, small, small), (std::vector<float>{1.0f, -1.0f}));
    EXPECT_TRUE(std::isnan(run(*table, ScalarFn::exp, x, x)[4]));
    EXPECT_TRUE(std::isnan(run(*table, ScalarFn::log, x, x)[4]));
  }
}

void expect_same_bits(std::span<const ScalarFn> functions, std::span<const PrimitiveTable* const> sets) {
  std::vector<float> a = all_magnitudes(), b = a;
  std::shuffle(b.begin(), b.end(), std::mt19937(3));
  for (ScalarFn fn : functions) {
    const std::vector<float> want = run(*sets[0], fn, a, b);
    for (const PrimitiveTable* table : sets.subspan(1)) {
      const std::vector<float> got = run(*table, fn, a, b);
      for (size_t i = 0; i < a.size(); ++i) {
        if (std::isnan(want[i]) && std::isnan(got[i])) continue;  // the payload of a NaN means nothing
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
            << table->name << ", function " << static_cast<int>(fn) << " of " << a[i] << ", " << b[i];
      }
    }
  }
}

TEST(VectorMath, ArithmeticHasTheSameBitsInEveryInstructionSet) {
  const ScalarFn functions[] = {ScalarFn::add,     ScalarFn::subtract, ScalarFn::multiply, ScalarFn::divide, ScalarFn::sqrt,
                                ScalarFn::maximum, ScalarFn::minimum,  ScalarFn::floor,    ScalarFn::rint};
  expect_same_bits(functions, tables());
}

TEST(VectorMath, FunctionsHaveTheSameBitsWhereMultiplyAddIsFused) {
  const std::vector<const PrimitiveTable*> sets = tables();
  if (sets.size() < 3) GTEST_SKIP() << "this CPU has one instruction set with fused multiply-add, or none";
  const ScalarFn functions[] = {ScalarFn::exp, ScalarFn::log, ScalarFn::tanh, ScalarFn::erf,   ScalarFn::expm1,   ScalarFn::log1p,
                                ScalarFn::sin, ScalarFn::cos, ScalarFn::tan,  ScalarFn::power, ScalarFn::arctan2, ScalarFn::arcsin};
  expect_same_bits(functions, std::span(sets).subspan(1));
}

// Odd lengths and unaligned starts take the kernels' tails.
TEST(VectorMath, LengthsAndAlignmentDoNotMatter) {
  const std::vector<float>& x = all_magnitudes();
  for (const PrimitiveTable* table : tables()) {
    const auto kernel = table->scalar[static_cast<int>(ScalarFn::tanh)][static_cast<int>(ComputeType::f32)];
    const std::vector<float> whole = run(*table, ScalarFn::tanh, x, x);
    for (int64_t n = 0; n < 70; ++n)
      for (int64_t start = 300000; start < 300004; ++start) {
        std::vector<float> out(static_cast<size_t>(n) + 1, 77.0f);
        kernel(x.data() + start, nullptr, nullptr, out.data(), n);
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[i], whole[start + i]);
        ASSERT_EQ(out[n], 77.0f);
      }
  }
}

TEST(VectorMath, HalvesConvertTheSameEverywhere) {
  std::vector<uint16_t> halves(0x10000);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const std::vector<float>& x = all_magnitudes();
  for (const PrimitiveTable* table : tables()) {
    SCOPED_TRACE(table->name);
    std::vector<float> wide(halves.size());
    table->half_to_float(halves.data(), wide.data(), static_cast<int64_t>(halves.size()));
    for (size_t i = 0; i < halves.size(); ++i)
      if (!std::isnan(wide[i])) {
        ASSERT_EQ(wide[i], half_to_float(halves[i]));
      }
    std::vector<uint16_t> narrow(x.size());
    table->float_to_half(x.data(), narrow.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      if (!std::isnan(x[i])) {
        ASSERT_EQ(narrow[i], float_to_half(x[i])) << x[i];
      }
    table->float_to_bfloat(x.data(), narrow.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      if (!std::isnan(x[i])) {
        ASSERT_EQ(narrow[i], bfloat16(x[i]).bits) << x[i];
      }
  }
}

}  // namespace
}  // namespace gluino::test
