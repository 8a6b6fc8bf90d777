// Functions made of several operators, against results computed by their definitions; eager, hybridized, and their gradients.
#include <algorithm>
#include <cmath>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Numbers = std::vector<double>;
Numbers values(const Tensor& t) { return t.to_vector<double>(); }

TEST(TensorFunctions, PowersAndExtremes) {
  const Tensor x = tensor({1, 2, 3});
  EXPECT_EQ(values(pow(x, 2)), (Numbers{1, 4, 9}));
  EXPECT_EQ(values(pow(2, x)), (Numbers{2, 4, 8}));
  EXPECT_EQ(values(pow(x, x)), (Numbers{1, 4, 27}));
  EXPECT_EQ(values(x.pow(3)), (Numbers{1, 8, 27}));
  EXPECT_EQ(values(maximum(x, 2)), (Numbers{2, 2, 3}));
  EXPECT_EQ(values(minimum(x, tensor({2, 1, 5}))), (Numbers{1, 1, 3}));
  const Tensor whole = tensor({1, 4}, DType::int32);
  EXPECT_EQ(pow(whole, 2).dtype(), DType::int32);
  EXPECT_EQ(values(pow(whole, 0.5)), (Numbers{1, 2}));
  EXPECT_EQ(values(maximum(whole, 2.5)), (Numbers{2.5, 4}));
}

// The definition, over all leading axes.
TEST(TensorFunctions, ProductsOfMatricesBroadcast) {
  const Tensor m = random_tensor({3, 4}, DType::float64, 1), n = random_tensor({4, 2}, DType::float64, 2);
  const Tensor batch = random_tensor({2, 1, 3, 4}, DType::float64, 3), other = random_tensor({5, 4, 2}, DType::float64, 4);
  EXPECT_TRUE(all_close(matmul(m, n), dot(m, n), 1e-12, 1e-12));
  EXPECT_TRUE(all_close(matmul(m[0], n), dot(m, n)[0], 1e-12, 1e-12));
  EXPECT_EQ(matmul(m, n[{Slice(), 0}]).shape(), Shape{3});
  EXPECT_EQ(matmul(m[0], m[1]).shape(), Shape{});
  const Tensor product = matmul(batch, other);
  ASSERT_EQ(product.shape(), (Shape{2, 5, 3, 2}));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 5; ++j) EXPECT_TRUE(all_close(product[{i, j}], dot(batch[{i, 0}], other[j]), 1e-12, 1e-12));
  EXPECT_EQ(values(outer(tensor({1, 2}), tensor({3, 4}))), (Numbers{3, 4, 6, 8}));
  GLUINO_EXPECT_ERROR(ShapeError, "at least one axis", matmul(tensor({1}), full({}, 1)));
}

TEST(TensorFunctions, PartsOfMatrices) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(values(tril(x)), (Numbers{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(values(triu(x, 1)), (Numbers{0, 2, 3, 0, 0, 6}));
  EXPECT_EQ(values(roll(x, 1, 1)), (Numbers{3, 1, 2, 6, 4, 5}));
  EXPECT_EQ(values(roll(x, -4)), (Numbers{5, 6, 1, 2, 3, 4}));
  EXPECT_EQ(values(roll(x, 6, 0)), values(x));
  const Tensors grids = meshgrid({tensor({1, 2}), tensor({3, 4, 5})});
  EXPECT_EQ(values(grids[0]), (Numbers{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(values(grids[1]), (Numbers{3, 4, 5, 3, 4, 5}));
}

TEST(TensorFunctions, AreMethodsWherePyTorchHasThem) {
  const Tensor x = tensor({{1, 2, 2}, {0, 5, 1}});
  EXPECT_EQ(values(x.tril()), values(tril(x)));
  EXPECT_EQ(values(x.triu(1)), values(triu(x, 1)));
  EXPECT_EQ(values(x.roll(1, 1)), values(roll(x, 1, 1)));
  EXPECT_EQ(values(x.roll(2)), values(roll(x, 2)));
  EXPECT_EQ(values(x.maximum(2)), (Numbers{2, 2, 2, 2, 5, 2}));
  EXPECT_EQ(values(x.minimum(tensor({1, 3, 1}))), (Numbers{1, 2, 1, 0, 3, 1}));
  EXPECT_EQ(values(x.unique()), (Numbers{0, 1, 2, 5}));
  EXPECT_EQ(values((x / x).isnan()), (Numbers{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(values(x[1].nonzero()), (Numbers{1, 2}));
}

TEST(TensorFunctions, MomentsFollowTheirDefinition) {
  const Tensor x = random_tensor({3, 5}, DType::float64, 1);
  const Numbers all = values(x);
  double mean = 0, squares = 0;
  for (double v : all) mean += v / 15;
  for (double v : all) squares += (v - mean) * (v - mean);
  EXPECT_NEAR(x.var().item<double>(), squares / 15, 1e-12);
  EXPECT_NEAR(x.var({}, false, 1).item<double>(), squares / 14, 1e-12);
  EXPECT_NEAR(x.std().item<double>(), std::sqrt(squares / 15), 1e-12);
  EXPECT_EQ(x.var(1).shape(), Shape{3});
  EXPECT_EQ(x.std({0, 1}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(values(tensor({{1, 2}, {3, 4}}).prod(0)), (Numbers{3, 8}));
}

TEST(TensorFunctions, QuestionsAndValues) {
  const double nan = std::nan(""), inf = INFINITY;
  const Tensor x = tensor({1, nan, inf, 0});
  EXPECT_EQ(values(isnan(x)), (Numbers{0, 1, 0, 0}));
  EXPECT_EQ(values(isinf(x)), (Numbers{0, 0, 1, 0}));
  EXPECT_EQ(values(isfinite(x)), (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(any(x).dtype(), DType::boolean);
  EXPECT_EQ(values(any(tensor({{0, 0}, {0, 1}}), 1)), (Numbers{0, 1}));
  EXPECT_EQ(values(all(tensor({{1, 0}, {2, 1}}), 1)), (Numbers{0, 1}));
  EXPECT_EQ(values(nonzero(tensor({{0, 7}, {8, 0}}))), (Numbers{0, 1, 1, 0}));
  EXPECT_EQ(nonzero(zeros({2, 3})).shape(), (Shape{0, 2}));
  EXPECT_EQ(values(unique(tensor({3, 1, 3, 2}, DType::int64))), (Numbers{1, 2, 3}));
  EXPECT_EQ(values(unique(tensor({1, 0, 1}) > 0)), (Numbers{0, 1}));
}

TEST(TensorFunctions, Decompositions) {
  const Tensor x = random_tensor({5, 3}, DType::float64, 1);
  const Svd s = svd(x);
  EXPECT_TRUE(all_close(matmul(s.u * s.s, s.vt), x, 1e-10, 1e-10));
  const Qr q = qr(x);
  EXPECT_TRUE(all_close(matmul(q.q, q.r), x, 1e-10, 1e-10));
  EXPECT_TRUE(all_close(matmul(q.q.transpose(), q.q), eye(3, 3, 0, {DType::float64}), 1e-10, 1e-10));
  EXPECT_TRUE(all_close(tril(q.r, -1), zeros_like(q.r), 0, 1e-12));
}

TEST(TensorFunctions, HybridizedWithGradients) {
  const auto program = [](const Tensor& a, const Tensor& b) {
    return matmul(tril(matmul(a, b), 0), roll(triu(b), 1, 0)).var(0) + pow(maximum(a.mean(), 0.1), 1.5);
  };
  const auto compiled = hybrid(program);
  Tensors gradients[2];
  for (int mode = 0; mode < 2; ++mode) {
    Tensor a = random_tensor({4, 4}, DType::float64, 1), b = random_tensor({4, 4}, DType::float64, 2);
    a.attach_grad();
    b.attach_grad();
    Tensor y;
    {
      const auto record = autograd::record();
      y = mode ? compiled(a, b) : program(a, b);
    }
    y.backward();
    gradients[mode] = {y.detach(), a.grad(), b.grad()};
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(all_close(gradients[0][i], gradients[1][i], 1e-10, 1e-12)) << i;
}

}  // namespace
}  // namespace gluino::test
