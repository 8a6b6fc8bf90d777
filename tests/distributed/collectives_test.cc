// What every rank must see. Run alone, and by mpirun with 2 and 4 ranks: each test is the same program on all of them.
#include "gluino/distributed.h"

#include "gluino/autograd.h"
#include "gluino/block.h"
#include "gluino/hybrid.h"
#include "gluino/ops.h"
#include "gluino/random.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace dist = gluino::distributed;

double ranks() { return dist::size(); }
double sum_of_ranks() { return ranks() * (ranks() - 1) / 2; }

TEST(Collectives, AllReduceAddsUpInEveryDType) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::boolean) continue;
    SCOPED_TRACE(dtype_name(dtype));
    const Tensor x = full({3, 5}, dist::rank() + 1.0, dtype);
    EXPECT_TRUE(same_bits(dist::all_reduce(x), full({3, 5}, sum_of_ranks() + ranks(), dtype)));
    EXPECT_TRUE(same_bits(dist::all_reduce(x, dist::Reduce::max), full({3, 5}, ranks(), dtype)));
    EXPECT_TRUE(same_bits(dist::all_reduce(x, dist::Reduce::min), full({3, 5}, 1, dtype)));
  }
  EXPECT_DOUBLE_EQ(dist::all_reduce(full({}, dist::rank(), DType::float64), dist::Reduce::mean).item<double>(), sum_of_ranks() / ranks());
}

// Sixteen bits would lose the ones beside 2048: the sum is formed in float32 and rounded once.
TEST(Collectives, NarrowFloatsAreAddedUpInFloat32) {
  const double own = dist::rank() == 0 ? 2048 : 1;
  const double want = 2048 + ranks() - 1;
  EXPECT_TRUE(same_bits(dist::all_reduce(full({7}, own, DType::float16)), full({7}, want, DType::float16)));
}

// Large tensors travel in parts, with several chunks on their way; uneven ends.
TEST(Collectives, LargeTensorsAreTheSumInTheOrderOfRanks) {
  for (const int64_t count : {int64_t{2049}, int64_t{1} << 20, (int64_t{5} << 19) + 3}) {
    Tensors all;
    for (int r = 0; r < dist::size(); ++r) {
      seed(100 + r);
      all.push_back(random::normal(0, 1, {count}));
    }
    Tensor want = all[0];
    for (int r = 1; r < dist::size(); ++r) want = want + all[r];
    EXPECT_TRUE(same_bits(dist::all_reduce(all[dist::rank()]), want)) << count;
    if (count % dist::size() == 0) {
      const int64_t part = count / dist::size();
      EXPECT_TRUE(same_bits(dist::reduce_scatter(all[dist::rank()]),
                            slice_axis(want, {.axis = 0, .begin = part * dist::rank(), .end = part * (dist::rank() + 1)})));
    }
    EXPECT_TRUE(same_bits(dist::all_gather(all[dist::rank()]), concat(all, {.dim = 0})));
    EXPECT_TRUE(same_bits(dist::broadcast(all[dist::rank()], dist::size() - 1), all.back()));
  }
}

TEST(Collectives, EmptyAndUnevenRows) {
  EXPECT_EQ(dist::all_gather(zeros({0, 3})).shape().str(), Shape({0, 3}).str());
  const Tensor gathered = dist::all_gather_rows(full({dist::rank(), 2}, dist::rank()));
  ASSERT_EQ(gathered.shape().str(), Shape({static_cast<int64_t>(sum_of_ranks()), 2}).str());
  int64_t row = 0;
  for (int r = 0; r < dist::size(); ++r)
    for (int k = 0; k < r; ++k) EXPECT_EQ(gathered.to_vector<double>()[2 * row++], r);
}

TEST(Collectives, WrongInputIsNamed) {
  EXPECT_THROW(dist::all_reduce(zeros({2}, DType::boolean)), DTypeError);
  EXPECT_THROW(dist::all_gather(full({}, 1)), ShapeError);
  EXPECT_THROW(dist::broadcast(zeros({2}), dist::size()), AttrError);
  EXPECT_THROW(dist::set_timeout(0), UserError);
  if (dist::size() > 1) {
    EXPECT_THROW(dist::reduce_scatter(zeros({dist::size() + 1, 2})), ShapeError);
  }
}

// The gradient of the sum over ranks of weight_r * f(x): each by a rule that is another collective.
TEST(Collectives, Gradients) {
  const double own = dist::rank() + 1.0, total = sum_of_ranks() + ranks();
  const auto gradient_of = [&](const auto& f, const Shape& shape) {
    Tensor x = full(shape, own);
    x.attach_grad();
    {
      const auto scope = autograd::record();
      const Tensor y = f(x) * own;
      autograd::backward({y});
    }
    return x.grad();
  };
  const Shape s{2 * dist::size(), 3};
  EXPECT_TRUE(same_bits(gradient_of([](const Tensor& x) { return dist::all_reduce(x); }, s), full(s, total)));
  EXPECT_TRUE(
      close(gradient_of([](const Tensor& x) { return dist::all_reduce(x, dist::Reduce::mean); }, s), full(s, total / ranks()), 1e-6, 1e-6));
  EXPECT_TRUE(same_bits(gradient_of([](const Tensor& x) { return dist::all_gather(x); }, s), full(s, total)));
  EXPECT_TRUE(same_bits(gradient_of([](const Tensor& x) { return dist::broadcast(x, 0); }, s), full(s, dist::rank() == 0 ? total : 0)));
  EXPECT_TRUE(same_bits(gradient_of([](const Tensor& x) { return dist::reduce(x, 0); }, s), full(s, 1)));
  // Each rank's part of the sum is weighted with that rank's own number.
  const Tensor scattered = gradient_of([](const Tensor& x) { return dist::reduce_scatter(x); }, s);
  for (int r = 0; r < dist::size(); ++r) EXPECT_EQ(scattered.to_vector<double>()[static_cast<size_t>(6 * r)], r + 1.0);
}

// Hybridized: the same numbers and gradients; nothing is merged, left out or reordered, also where ranks differ in what they use.
TEST(Collectives, HybridizedProgramsAreTheEagerOnes) {
  const auto f = [](const Tensor& x) {
    const Tensor unused_by_most = dist::all_reduce(x * 3);
    const Tensor twice = dist::all_reduce(x) + dist::all_reduce(x);
    Tensor y = dist::broadcast(twice, dist::size() - 1) * x;
    if (dist::rank() == 0) y = y + unused_by_most.detach() * 0;  // nothing flows back, as on the others
    return y + dist::all_gather(x).sum() * 0.5;
  };
  const auto run = [&](const auto& g, int times) {
    Tensor x = full({4}, dist::rank() + 1.0), y;
    x.attach_grad();
    for (int i = 0; i < times; ++i) {
      {
        const auto scope = autograd::record();
        y = g(x);
      }
      autograd::backward({y});
    }
    return Tensors{y, x.grad()};
  };
  const Tensors eager = run(f, 1), compiled = run(hybrid(f), 3);
  EXPECT_TRUE(same_bits(eager[0], compiled[0]));
  EXPECT_TRUE(close(eager[1], compiled[1], 1e-6, 1e-6));
  dist::barrier();
}

TEST(Collectives, ManyInARow) {
  double total = 0;
  for (int i = 0; i < 200; ++i) total += dist::all_reduce(full({i % 7 + 1}, 1)).to_vector<double>()[0];
  EXPECT_EQ(total, 200 * ranks());
}

}  // namespace
}  // namespace gluino::test
