// Reductions and matrix factorisations beyond what the registry's samples cover: large shapes, threads, exactness.
#include <cmath>

#include "gluino/autograd.h"
#include "gluino/op.h"
#include "support/support.h"

namespace gluino::test {
namespace {

double reference_sum(const Tensor& t) {
  double sum = 0;
  for (double v : t.to_vector<double>()) sum += v;
  return sum;
}

TEST(Reduce, IsExactAndTheSameForEveryNumberOfThreads) {
  const int before = num_threads();
  const Tensor x = random_tensor({64, 33, 517}, DType::float32, 1, 0, 1);
  for (const Shape& axis : {Shape{}, Shape{0}, Shape{1}, Shape{2}, Shape{0, 1}, Shape{1, 2}, Shape{0, 2}}) {
    set_num_threads(1);
    const Tensor one = x.sum(axis), most = x.max(axis);
    set_num_threads(4);
    EXPECT_TRUE(array_equal(one, x.sum(axis))) << axis.str();
    EXPECT_TRUE(array_equal(most, x.max(axis))) << axis.str();
    EXPECT_TRUE(close(one, x.astype(DType::float64).sum(axis).astype(DType::float32), 1e-6, 0)) << axis.str();
    EXPECT_NEAR(reference_sum(one), reference_sum(x), 1e-6 * reference_sum(x)) << axis.str();
  }
  set_num_threads(before);
}

// Over every set of axes, rows longer and shorter than what is read at once, and few outputs, for which the reduction itself is split.
TEST(Reduce, OfComputedElementsHasTheBitsOfTheReductionOfAnArray) {
  const auto fused = [](const std::string& how, const std::string& finish, const Shape& axis, const Shape& result, const Tensor& a,
                        const Tensor& b) {
    const OpDef& op = OpRegistry::global().get("_fused_reduce");
    const std::pair<std::string_view, AttrValue> attrs[] = {
        {"program", "f32 x0 x1 multiply(0,1) x0 add(2,3)"}, {"how", how}, {"finish", finish}, {"axis", axis}, {"shape", result}};
    const Tensor in[] = {a, b};
    return apply_one(op, in, op.make_attrs(attrs));
  };
  for (const Shape& shape : {Shape{64, 33, 517}, Shape{3, 7, 5000}, Shape{300, 2, 3}, Shape{2, 100000, 1}, Shape{1, 3000, 40}}) {
    const Tensor a = random_tensor(shape, DType::float32, 1), b = random_tensor({shape[2]}, DType::float32, 2);
    const Tensor whole = a * b + a;
    for (const Shape& axis : {Shape{0}, Shape{1}, Shape{2}, Shape{0, 1}, Shape{1, 2}, Shape{0, 2}, Shape{0, 1, 2}}) {
      SCOPED_TRACE(shape.str() + " over " + axis.str());
      const Tensor sum = whole.sum(axis), mean = whole.mean(axis), most = whole.max(axis);
      EXPECT_TRUE(array_equal(fused("sum", "none", axis, sum.shape(), a, b), sum));
      EXPECT_TRUE(array_equal(fused("sum", "divide", axis, sum.shape(), a, b), mean));
      EXPECT_TRUE(array_equal(fused("max", "none", axis, sum.shape(), a, b), most));
    }
  }
}

// Numbers without a NaN are compared by a shorter way; rows are as long as several blocks, a block, and less than a vector.
TEST(Reduce, NanAndBothInfinitiesComeThroughInTheLargestAndSmallest) {
  const double inf = INFINITY;
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const int64_t n : {1, 5, 16, 33, 2047, 2048, 2081, 20000})
      for (const int64_t rows : {1, 3, 9})
        for (const int what : {0, 1, 2}) {  // nothing, both infinities, a NaN
          const Tensor x = random_tensor({rows, n}, DType::float64, n, -1, 1).astype(dtype);
          std::vector<double> values = x.to_vector<double>();
          const int64_t row = rows - 1, place = row * n + n / 2, other = row * n + n - 1;
          if (what == 1) values[place] = inf, values[other] = -inf;
          if (what == 2) values[place] = NAN;
          const Tensor y = from_vector(values, Shape{rows, n}).astype(dtype);
          const auto of_row = [&](int64_t r, bool largest) {
            double best = largest ? -inf : inf;
            for (int64_t i = 0; i < n; ++i) {
              const double v = values[r * n + i];
              if (std::isnan(v) || (largest ? v > best : v < best)) best = v;
              if (std::isnan(v)) break;
            }
            return best;
          };
          const std::vector<double> most = y.max({1}).to_vector<double>(), least = y.min({1}).to_vector<double>();
          for (int64_t r = 0; r < rows; ++r)
            for (const bool largest : {true, false}) {
              const double got = (largest ? most : least)[r], wanted = of_row(r, largest);
              ASSERT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted)))
                  << dtype_name(dtype) << " " << n << " " << rows << " " << what << ": " << got << " for " << wanted;
            }
        }
}

// Sums of int32 are made of pairs; the total has 64 bits until it is stored.
TEST(Reduce, SumsOfWholeNumbersWrap) {
  for (const int64_t n : {1, 2, 3, 15, 16, 17, 63, 1001, 4099}) {
    std::vector<int32_t> values(static_cast<size_t>(3 * n));
    uint32_t wanted[3] = {};
    for (size_t i = 0; i < values.size(); ++i) {
      constexpr int32_t kEdges[] = {INT32_MIN, INT32_MAX, -1, 0, 1, -77};
      values[i] = i % 3 ? kEdges[i % 6] : static_cast<int32_t>(static_cast<uint32_t>(i) * 2654435761u);
      wanted[i / n] += static_cast<uint32_t>(values[i]);
    }
    const Tensor x = from_vector(values, Shape{3, n});
    const std::vector<int32_t> sums = x.sum({1}).astype(DType::int32).to_vector<int32_t>();
    for (int r = 0; r < 3; ++r) EXPECT_EQ(static_cast<uint32_t>(sums[r]), wanted[r]) << n;
  }
}

// A row of `data` of shape (2, n, m) along axis 1, and its place in a result of shape (2, m).
template <class F>
void for_rows(int64_t n, int64_t m, F&& f) {
  for (int64_t o = 0; o < 2; ++o)
    for (int64_t c = 0; c < m; ++c) f(o * m + c, [=](int64_t i) { return (o * n + i) * m + c; });
}

TEST(Reduce, OfWholeNumbersIsExactAlongEveryAxis) {
  for (const DType dtype : {DType::int8, DType::uint8, DType::int32, DType::int64})
    for (const auto& [n, m] : {std::pair<int64_t, int64_t>{700, 1}, {70, 45}, {3, 1000}}) {
      const Tensor x = random_tensor({2, n, m}, DType::float64, 1, 0, 100).astype(dtype);
      const auto v = x.to_vector<int64_t>(), sum = x.astype(DType::int64).sum({1}).to_vector<int64_t>();
      const auto most = x.max({1}).to_vector<int64_t>(), least = x.min({1}).to_vector<int64_t>(), narrow = x.sum({1}).to_vector<int64_t>();
      for_rows(n, m, [&, n = n](int64_t r, const auto& at) {
        int64_t total = 0, high = INT64_MIN, low = INT64_MAX;
        for (int64_t i = 0; i < n; ++i) {
          total += v[at(i)];
          high = std::max(high, v[at(i)]);
          low = std::min(low, v[at(i)]);
        }
        EXPECT_EQ(sum[r], total);
        EXPECT_EQ(narrow[r], total);
        EXPECT_EQ(most[r], high);
        EXPECT_EQ(least[r], low);
      });
    }
}

// NaN before all numbers, and of equal elements the first.
TEST(Reduce, PlacesOfExtremaAndRunningSumsAlongEveryAxis) {
  for (const auto& [n, m] : {std::pair<int64_t, int64_t>{700, 1}, {70, 45}, {3, 1000}, {33, 31}}) {
    Tensor x = (random_tensor({2, n, m}, DType::float32, 1) * 40).astype(DType::int32).astype(DType::float32);
    for (int64_t i = 5; i < x.size(); i += 991) x.mutable_data<float>()[i] = NAN;
    const auto v = x.to_vector<float>();
    const auto most = call("_npi_argmax", {x}, {{"axis", int64_t{1}}}).to_vector<int64_t>();
    const auto least = call("argmin", {x}, {{"axis", int64_t{1}}}).to_vector<int64_t>();
    const auto sums = call("cumsum", {x}, {{"axis", int64_t{1}}}).to_vector<float>();
    const auto back = call("_cumsum_backward", {x}, {{"axis", int64_t{1}}}).to_vector<float>();
    for_rows(n, m, [&, n = n](int64_t r, const auto& at) {
      int64_t high = 0, low = 0;
      const auto is_before = [&](int64_t i, int64_t j, bool largest) {
        if (std::isnan(v[at(j)])) return false;
        return std::isnan(v[at(i)]) || (largest ? v[at(i)] > v[at(j)] : v[at(i)] < v[at(j)]);
      };
      double sum = 0, rest = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (is_before(i, high, true)) high = i;
        if (is_before(i, low, false)) low = i;
        const auto is_near = [](float got, double want) { return std::isnan(want) ? std::isnan(got) : got == static_cast<float>(want); };
        ASSERT_TRUE(is_near(sums[at(i)], sum += v[at(i)]));
        ASSERT_TRUE(is_near(back[at(n - 1 - i)], rest += v[at(n - 1 - i)]));
      }
      EXPECT_EQ(most[r], high);
      EXPECT_EQ(least[r], low);
    });
  }
}

TEST(Reduce, AccumulatesHalfPrecisionInMore) {
  const Tensor x = full({100000}, 0.25, {.dtype = DType::float16});
  EXPECT_EQ(x.sum().item<float>(), 24992.0f);  // 25000 as float16
  const Tensor whole = full({300}, 100, {.dtype = DType::int8});
  EXPECT_EQ(call("sum", {whole}).to_vector<int>()[0], static_cast<int8_t>(30000));  // MXNet's operator keeps the dtype
  EXPECT_EQ(whole.sum().to_vector<int>()[0], 30000);
}

TEST(Reduce, GivesOneElementWhereNoAxisIsLeft) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(x.sum().shape().str(), "(1,)");
  EXPECT_EQ(x.sum({}, true).shape().str(), "(1, 1)");
  EXPECT_EQ(x.mean(Shape{0}).shape().str(), "(3,)");
}

TEST(Transpose, AgreesWithIndexing) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::uint8}) {
    const Tensor x = (random_tensor({37, 70, 19}, DType::float32, 3) * 100).astype(DType::int32).astype(dtype);
    const Tensor y = x.transpose({2, 0, 1});
    const std::vector<float> a = x.to_vector(), b = y.to_vector();
    for (int64_t i = 0; i < 37; ++i)
      for (int64_t j = 0; j < 70; ++j)
        for (int64_t k = 0; k < 19; ++k) ASSERT_EQ(a[(i * 70 + j) * 19 + k], b[(k * 37 + i) * 70 + j]);
  }
}

// Rows with a step have loops of their own.
TEST(Softmax, AlongAnyAxisIsThatAlongTheLast) {
  for (const char* name : {"softmax", "log_softmax"})
    for (const Shape& shape : {Shape{2, 5, 150}, Shape{1, 700, 17}, Shape{3, 40, 1}}) {
      Tensor x = random_tensor(shape, DType::float32, 3) * 10, z = x.transpose({0, 2, 1});
      const Tensor head = random_tensor(shape, DType::float32, 4);
      x.attach_grad();
      z.attach_grad();
      Tensor along_middle, along_last;
      {
        const auto record = autograd::record();
        along_middle = call(name, {x}, {{"axis", int64_t{1}}, {"temperature", 2.0}});
        along_last = call(name, {z}, {{"axis", int64_t{2}}, {"temperature", 2.0}});
      }
      EXPECT_TRUE(close(along_middle, along_last.transpose({0, 2, 1}), 1e-5, 1e-6)) << name << " " << shape.str();
      along_middle.backward(head);
      along_last.backward(head.transpose({0, 2, 1}));
      EXPECT_TRUE(close(x.grad(), z.grad().transpose({0, 2, 1}), 1e-5, 1e-6)) << name << " " << shape.str();
    }
}

// d(sum of w * f(B B^T + I)) / dB by central differences.
void check_of_positive_definite(std::string_view op) {
  const Tensor b0 = random_tensor({2, 3, 3}, DType::float64, 4), w = random_tensor({2, 3, 3}, DType::float64, 5);
  auto loss = [&](const Tensor& b) { return (call(op, {call("_linalg_syrk", {b}) + eye(3, 3, 0, {.dtype = DType::float64})}) * w).sum(); };
  Tensor b = b0.copy();
  b.attach_grad();
  Tensor y;
  {
    const auto record = autograd::record();
    y = loss(b);
  }
  y.backward();
  Tensor numeric = zeros({2, 3, 3}, {.dtype = DType::float64});
  for (int64_t i = 0; i < b0.size(); ++i) {
    Tensor up = b0.copy(), down = b0.copy();
    up.mutable_data<double>()[i] += 1e-6;
    down.mutable_data<double>()[i] -= 1e-6;
    numeric.mutable_data<double>()[i] = (loss(up).item<double>() - loss(down).item<double>()) / 2e-6;
  }
  EXPECT_TRUE(close(b.grad(), numeric, 1e-5, 1e-6));
}
TEST(Linalg, CholeskyHasTheNumericGradient) { check_of_positive_definite("_linalg_potrf"); }
TEST(Linalg, InverseHasTheNumericGradient) { check_of_positive_definite("_linalg_inverse"); }
TEST(Linalg, FactorsMultiplyBack) {
  const Tensor b = random_tensor({2, 4, 4}, DType::float64, 6), a = call("_linalg_syrk", {b}) + eye(4, 4, 0, {.dtype = DType::float64});
  const Tensor l = call("_linalg_potrf", {a});
  EXPECT_TRUE(close(call("_linalg_syrk", {l}), a, 1e-10, 1e-10));
  EXPECT_TRUE(close(call("_linalg_potri", {l}), call("_linalg_inverse", {a}), 1e-8, 1e-10));
  const Tensor in[] = {a};
  const Tensors ul = call_all("_linalg_syevd", in);
  EXPECT_TRUE(close(call("batch_dot", {call("batch_dot", {ul[0], call("_linalg_makediag", {ul[1]})}, {{"transpose_a", true}}), ul[0]}), a,
                    1e-9, 1e-9));
  const Tensor wide[] = {random_tensor({2, 3, 5}, DType::float64, 7)};
  const Tensors ql = call_all("_linalg_gelqf", wide);
  EXPECT_TRUE(close(call("batch_dot", {ql[1], ql[0]}), wide[0], 1e-10, 1e-10));
}
TEST(Linalg, SaysWhatIsWrong) {
  GLUINO_EXPECT_ERROR(UserError, "not positive definite", call("_linalg_potrf", {full({2, 2}, -1)}));
  GLUINO_EXPECT_ERROR(UserError, "singular", call("_linalg_inverse", {zeros({2, 2})}));
  GLUINO_EXPECT_ERROR(ShapeError, "cannot be multiplied", call("dot", {ones({2, 3}), ones({2, 3})}));
}

}  // namespace
}  // namespace gluino::test
