// Autograd: gradient requests, heads, retained and second-order graphs, custom functions, scopes, memory, long tapes.
#include "gluino/autograd.h"

#include <thread>

#include "gluino/symbol.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Numbers = std::vector<float>;
Numbers values(const Tensor& t) { return t.to_vector<float>(); }

// A leaf with a gradient.
Tensor leaf(std::initializer_list<NestedList> v, GradReq req = GradReq::write, DType dtype = DType::float32) {
  Tensor t = tensor(v, {dtype});
  t.attach_grad(req);
  return t;
}

TEST(Backward, WritesAddsOrLeavesAlone) {
  for (GradReq req : {GradReq::write, GradReq::add, GradReq::null}) {
    Tensor x = leaf({1, 2, 3}, req);
    EXPECT_EQ(x.grad_req(), req);
    Tensor other = leaf({1, 1, 1});
    for (int i = 0; i < 2; ++i) {
      Tensor y;
      {
        const auto record = autograd::record();
        y = x * x + other;
      }
      y.backward();
    }
    if (req == GradReq::null) {
      EXPECT_FALSE(x.grad().defined());
    } else {
      EXPECT_EQ(values(x.grad()), req == GradReq::add ? (Numbers{4, 8, 12}) : (Numbers{2, 4, 6}));
    }
    EXPECT_EQ(values(other.grad()), (Numbers{1, 1, 1}));
  }
}

TEST(Backward, GradHandleStaysTheSameAndCanBeZeroed) {
  Tensor x = leaf({1, 2});
  const Tensor handle = x.grad();
  EXPECT_EQ(values(handle), (Numbers{0, 0}));
  for (int i = 0; i < 3; ++i) {
    Tensor y;
    {
      const auto record = autograd::record();
      y = x * 3.0;
    }
    y.backward();
    EXPECT_EQ(values(handle), (Numbers{3, 3}));
  }
  x.zero_grad();
  EXPECT_EQ(values(handle), (Numbers{0, 0}));
}

TEST(Backward, TakesHeadGradients) {
  Tensor x = leaf({1, 2});
  Tensor y, z;
  {
    const auto record = autograd::record();
    y = x * 2.0;
    z = x * x;
  }
  autograd::backward({y, z}, {tensor({1, 10}), Tensor()});
  EXPECT_EQ(values(x.grad()), (Numbers{2 + 2, 20 + 4}));
  GLUINO_EXPECT_ERROR(UserError, "1 head gradients were given for 2 heads", autograd::backward({y, z}, {tensor({1, 1})}));
  GLUINO_EXPECT_ERROR(ShapeError, "(3,)", y.backward(tensor({1, 1, 1})));
}

TEST(Backward, AddsAllPathsAndAllUses) {
  Tensor x = leaf({3});
  Tensor y;
  {
    const auto record = autograd::record();
    const Tensor a = x * x;
    y = a * x + a + x;
  }
  y.backward();
  EXPECT_EQ(x.grad().item(), 3 * 9 + 2 * 3 + 1);
}

TEST(Backward, ReleasedTapeIsAnErrorAndRetainedIsNot) {
  Tensor x = leaf({2});
  Tensor y;
  {
    const auto record = autograd::record();
    y = x * x;
  }
  y.backward({}, true);
  y.backward({}, false);
  EXPECT_EQ(x.grad().item(), 4);
  GLUINO_EXPECT_ERROR(UserError, "retain_graph", y.backward());
}

TEST(Backward, NeedsARecordedHead) {
  Tensor x = leaf({2});
  const Tensor y = x * x;
  GLUINO_EXPECT_ERROR(UserError, "was not computed inside autograd::record()", y.backward());
  GLUINO_EXPECT_ERROR(UserError, "no head", autograd::backward({}));
}

TEST(Backward, OfWholeNumbersIsInWholeNumbers) {
  Tensor whole = tensor({1, 2}, {DType::int32});
  whole.attach_grad();
  Tensor y;
  {
    const auto record = autograd::record();
    y = whole * whole * 3;
  }
  y.backward();
  EXPECT_EQ(whole.grad().dtype(), DType::int32);
  EXPECT_EQ(whole.grad().to_vector<int64_t>(), (std::vector<int64_t>{6, 12}));
}

TEST(Backward, ThroughViewsIndicesAndInPlaceUpdates) {
  Tensor x = leaf({{1, 2}, {3, 4}});
  Tensor y;
  {
    const auto record = autograd::record();
    Tensor a = x.reshape({4}) * 2.0;
    a += x[{kEllipsis, 1}].reshape({2, 1}).reshape({-1}).sum();
    a[Slice(0, 1)] = x[{0, Slice(1, 2)}] * 10.0;
    y = a.sum();
  }
  y.backward();
  // d/dx: a = 2 x + (x01 + x11), a[0] replaced by 10 x01.
  EXPECT_EQ(values(x.grad()), (Numbers{0, 2 + 3 + 10, 2, 2 + 3}));
}

TEST(Backward, ThroughCasts) {
  Tensor x = leaf({1, 2});
  Tensor y;
  {
    const auto record = autograd::record();
    y = x.astype(DType::float16) * x.astype(DType::float64);
  }
  y.backward();
  EXPECT_EQ(x.grad().dtype(), DType::float32);
  EXPECT_EQ(values(x.grad()), (Numbers{2, 4}));
}

TEST(Grad, ReturnsGradientsAndWritesNone) {
  Tensor x = leaf({1, 2}), unused = leaf({5});
  Tensors g;
  Tensor middle;
  {
    const auto record = autograd::record();
    middle = x * 3.0;
    const Tensor y = middle * middle;
    g = autograd::grad({y}, {x, middle, unused});
  }
  EXPECT_EQ(values(g[0]), (Numbers{18, 36}));
  EXPECT_EQ(values(g[1]), (Numbers{6, 12}));
  EXPECT_EQ(values(g[2]), (Numbers{0}));
  EXPECT_EQ(values(x.grad()), (Numbers{0, 0}));
  GLUINO_EXPECT_ERROR(UserError, "variable 0 was neither recorded", autograd::grad({middle}, {tensor({1})}));
  GLUINO_EXPECT_ERROR(UserError, "no variable", autograd::grad({middle}, {}));
}

// The derivative of sum(weights * first gradient), against central differences of the first gradient.
void check_second_order(const std::string& op, std::initializer_list<NestedList> at) {
  SCOPED_TRACE(op);
  Tensor x = leaf(at, GradReq::write, DType::float64);
  const Tensor weights = random_tensor(x.shape(), DType::float64, 5);
  auto first = [&](const Tensor& v) {
    Tensor copy = v.copy();
    copy.attach_grad();
    const auto record = autograd::record();
    return autograd::grad({call(op, {copy}).sum()}, {copy})[0];
  };
  Tensor scaled;
  {
    const auto record = autograd::record();
    const Tensor g = autograd::grad({call(op, {x}).sum()}, {x}, {}, {.create_graph = true})[0];
    scaled = (g * weights).sum();
  }
  scaled.backward();
  const double h = 1e-5;
  Tensor want = zeros(x.shape(), {DType::float64});
  for (int64_t i = 0; i < x.size(); ++i) {
    Tensor up = x.copy(), down = x.copy();
    up.mutable_data<double>()[i] += h;
    down.mutable_data<double>()[i] -= h;
    want.mutable_data<double>()[i] = ((first(up) - first(down)) * weights).sum().item<double>() / (2 * h);
  }
  EXPECT_TRUE(close(x.grad(), want, 1e-5, 1e-7));
}

TEST(SecondOrder, OfASampleOfOperators) {
  for (const char* op : {"exp", "sin", "cos", "tanh", "sigmoid", "erf", "square", "arctan", "sinh", "softrelu", "log_softmax", "softmax"})
    check_second_order(op, {{0.3, -0.7, 0.9}, {0.1, 0.5, -0.2}});
  for (const char* op : {"log", "sqrt", "rsqrt", "reciprocal", "log1p", "cbrt"}) check_second_order(op, {{0.3, 0.7, 0.9}, {1.1, 0.5, 2.2}});
}

TEST(SecondOrder, ThirdDerivative) {
  Tensor x = leaf({2}, GradReq::write, DType::float64);
  Tensor third;
  {
    const auto record = autograd::record();
    const Tensor y = x * x * x * x;
    const Tensor first = autograd::grad({y}, {x}, {}, {.create_graph = true})[0];
    const Tensor second = autograd::grad({first}, {x}, {}, {.create_graph = true})[0];
    third = autograd::grad({second}, {x})[0];
  }
  EXPECT_EQ(third.item<double>(), 48.0);
}

TEST(SecondOrder, ThroughMatrixProducts) {
  Tensor a = leaf({{1, 2}, {3, 4}}, GradReq::write, DType::float64), b = leaf({{0.5, -1}, {2, 1}}, GradReq::write, DType::float64);
  Tensor penalty;
  {
    const auto record = autograd::record();
    const Tensor y = call("dot", {a, b});
    const Tensors g = autograd::grad({(y * y).sum()}, {a, b}, {}, {.create_graph = true});
    penalty = (g[0] * g[0]).sum();
  }
  penalty.backward();
  // g0 = 2 a b b^T, so d|g0|^2/da = 2 (2 b b^T)(g0) = 8 a (b b^T)^2.
  const Tensor bbt = call("dot", {b, b}, {{"transpose_b", true}});
  EXPECT_TRUE(close(a.grad(), call("dot", {a, call("dot", {bbt, bbt})}) * 8.0, 1e-12, 0));
}

class Cube : public autograd::Function {
 public:
  Tensors forward(const Tensors& in) override {
    EXPECT_FALSE(autograd::is_recording());
    save_for_backward({in[0]});
    ++forwards;
    return {in[0] * in[0] * in[0]};
  }
  Tensors backward(const Tensors& heads) override {
    ++backwards;
    return {heads[0] * saved()[0] * saved()[0] * 30.0, Tensor()};  // ten times the true one, to tell them apart
  }
  int forwards = 0, backwards = 0;
};

TEST(CustomFunction, UsesItsOwnGradient) {
  Tensor x = leaf({2}), y = leaf({5});
  const auto cube = std::make_shared<Cube>();
  Tensor z;
  {
    const auto record = autograd::record();
    z = autograd::call(cube, {x, y})[0] * 2.0;
  }
  EXPECT_EQ(z.item(), 16);
  z.backward();
  EXPECT_EQ(x.grad().item(), 240);
  EXPECT_EQ(y.grad().item(), 0);
  EXPECT_EQ(cube->forwards, 1);
  EXPECT_EQ(cube->backwards, 1);
  EXPECT_EQ(autograd::call(cube, {tensor({3}), tensor({1})})[0].item(), 27);
}

class Same : public autograd::Function {
 public:
  Tensors forward(const Tensors& in) override { return {in[0]}; }
  Tensors backward(const Tensors& heads) override { return {-heads[0]}; }
};

TEST(CustomFunction, MayReturnItsInput) {
  Tensor x = leaf({2});
  Tensor y;
  {
    const auto record = autograd::record();
    y = autograd::call(std::make_shared<Same>(), {x})[0] + x;
  }
  y.backward();
  EXPECT_EQ(x.grad().item(), 0);
  EXPECT_TRUE(x.grad().defined());
}

TEST(Detach, StopsTheGradient) {
  Tensor x = leaf({3});
  Tensor y;
  {
    const auto record = autograd::record();
    y = x * x.detach() + call("BlockGrad", {x * x});
  }
  EXPECT_EQ(y.item(), 18);
  y.backward();
  EXPECT_EQ(x.grad().item(), 3);
  EXPECT_EQ(x.detach().data<float>(), x.data<float>());
}

TEST(Scopes, NestAndRestore) {
  EXPECT_FALSE(autograd::is_recording());
  EXPECT_FALSE(autograd::is_training());
  {
    const auto record = autograd::record();
    EXPECT_TRUE(autograd::is_recording() && autograd::is_training());
    {
      const auto pause = autograd::pause();
      EXPECT_FALSE(autograd::is_recording() || autograd::is_training());
      const auto train = autograd::train_mode();
      EXPECT_TRUE(autograd::is_training() && !autograd::is_recording());
    }
    {
      const auto predict = autograd::predict_mode();
      EXPECT_TRUE(autograd::is_recording() && !autograd::is_training());
    }
    EXPECT_TRUE(autograd::is_recording() && autograd::is_training());
    std::thread([] { EXPECT_FALSE(autograd::is_recording()); }).join();  // of this thread only
    const auto again = autograd::record(false);
    EXPECT_FALSE(autograd::is_training());
  }
  EXPECT_FALSE(autograd::is_recording() || autograd::is_training());
  try {
    const auto record = autograd::record();
    zeros({2}) + zeros({3});
  } catch (const UserError&) {}
  EXPECT_FALSE(autograd::is_recording());
}

TEST(Scopes, PausedCallsAreNotOnTheTape) {
  Tensor x = leaf({2});
  Tensor y;
  {
    const auto record = autograd::record();
    y = x * x;
    const auto pause = autograd::pause();
    y = y * 10.0;
  }
  GLUINO_EXPECT_ERROR(UserError, "was not computed inside", y.backward());
}

TEST(Scopes, DropoutFollowsTheTrainingMode) {
  const Tensor x = ones({1000});
  EXPECT_TRUE(same_bits(call("Dropout", {x}, {{"p", 0.5}}), x));
  const auto train = autograd::train_mode();
  EXPECT_FALSE(all_close(call("Dropout", {x}, {{"p", 0.5}}), x));
}

TEST(Memory, OfTheTapeIsReleasedAsBackwardGoes) {
  const Device device = cpu(8);
  Tensor x = random_tensor({1000}, DType::float32, 1).to(device);
  x.attach_grad();
  const int64_t before = memory_stats(device).live;
  const int64_t block = 4000;
  Tensor y;
  {
    const auto record = autograd::record();
    y = x;
    for (int i = 0; i < 50; ++i) y = call("sin", {y});
  }
  EXPECT_GE(memory_stats(device).live, before + 49 * block);  // what the gradients read
  reset_peak(device);
  const int64_t recorded = memory_stats(device).live;
  y.backward();
  // Gradients are made while saved values go: never much more than the tape held.
  EXPECT_LE(memory_stats(device).peak, recorded + 6 * block);
  EXPECT_LE(memory_stats(device).live, before + block);  // y itself
  y = Tensor();
  EXPECT_EQ(memory_stats(device).live, before);
}

TEST(Memory, OfATapeThatIsNeverWalked) {
  const Device device = cpu(9);
  Tensor x = ones({100}, {DType::float32, device});
  x.attach_grad();
  const int64_t before = memory_stats(device).live;
  for (int i = 0; i < 10; ++i) {
    const auto record = autograd::record();
    const Tensor y = call("exp", {x * x});
  }
  EXPECT_EQ(memory_stats(device).live, before);
}

TEST(Memory, SecondOrderLeavesNoCycle) {
  const Device device = cpu(10);
  const int64_t before = memory_stats(device).live;
  {
    Tensor x = ones({100}, {DType::float32, device});
    x.attach_grad();
    const auto record = autograd::record();
    const Tensor g = autograd::grad({call("exp", {x}).sum()}, {x}, {}, {.create_graph = true})[0];
    (g * g).sum().backward();
  }
  EXPECT_EQ(memory_stats(device).live, before);
}

TEST(Backward, GivesZeroWhereNothingFlows) {
  Tensor x = leaf({1, 2}), y = leaf({3, 4}), sum = leaf({5, 6}, GradReq::add);
  for (bool blocked : {false, true}) {
    Tensor z;
    {
      const auto record = autograd::record();
      const Tensor product = (x * 2.0) * sum;
      z = (blocked ? call("BlockGrad", {product}) : product) + y;
    }
    for (const Tensor& t : {x, y, sum}) autograd::set_fresh_grad(t, false);
    z.backward();
    for (const Tensor& t : {x, y, sum}) EXPECT_TRUE(autograd::has_fresh_grad(t));
    EXPECT_EQ(values(x.grad()), blocked ? Numbers({0, 0}) : Numbers({10, 12}));
    EXPECT_EQ(values(y.grad()), Numbers({1, 1}));
    EXPECT_EQ(values(sum.grad()), Numbers({2, 4})) << "added to";
  }
}

TEST(RecordedSymbol, ComputesWhatWasRecorded) {
  const Tensor x = leaf({1, 2}), w = tensor({3, 4});
  Tensor y;
  {
    const auto record = autograd::record();
    const Tensor h = x * w + x;
    y = call("tanh", {h}) * h;
  }
  const Symbol s = autograd::get_symbol(y);
  const std::vector<std::string> names = s.list_arguments();
  ASSERT_EQ(names.size(), 2u) << "one variable for x, which is used twice, and one for w";
  EXPECT_EQ(values(s.eval({{names[0], x}, {names[1], w}})[0]), values(y));
  EXPECT_EQ(values(Symbol::from_json(s.to_json()).eval({{names[0], x}, {names[1], w}})[0]), values(y));
  EXPECT_EQ(autograd::get_symbol(x).list_outputs().size(), 1u);
  GLUINO_EXPECT_ERROR(UserError, "was not recorded", autograd::get_symbol(w));
}

TEST(LongTape, DoesNotOverflowTheStack) {
  for (bool walk : {true, false}) {
    Tensor x = leaf({1});
    {
      Tensor y;
      const auto record = autograd::record();
      y = x;
      for (int i = 0; i < 100000; ++i) y = y * 1.0;  // reads nothing back
      Tensor z = x;
      for (int i = 0; i < 100000; ++i) z = call("square", {z});  // keeps its input
      if (walk) autograd::backward({y, z});
    }
    EXPECT_EQ(x.grad().item(), walk ? 1 + std::numeric_limits<float>::infinity() : 0);
  }
}

// A leaf's gradient is written in its place only where nobody will read what stood there.
TEST(Autograd, AGradientThatACallHasKeptIsNotOverwrittenBeforeItIsRead) {
  Tensor x = test::random_tensor({5000}, DType::float32, 1), w = test::random_tensor({5000}, DType::float32, 2);
  x.attach_grad();
  w.attach_grad();
  for (int times = 0; times < 2; ++times) {
    Tensor y;
    {
      const auto record = autograd::record();
      y = x * 2;
    }
    y.backward();
    {
      const auto record = autograd::record();
      y = w * x.grad() * x;
    }
    y.backward();
    EXPECT_TRUE(test::same_bits(w.grad(), x * 2));
    EXPECT_TRUE(test::same_bits(x.grad(), w * 2));
  }
}

// The solution's gradient comes from the factors that the solution left, and so does the gradient of that one.
TEST(Autograd, SolutionsOfEquationsAreDifferentiatedTwice) {
  const auto slope = [](const Tensor& a, const Tensor& b, const Tensor& weight, bool keep) {
    const auto record = autograd::record();
    const Tensor x = call("_npi_solve", {a, b});
    return autograd::grad({x}, {a}, {weight}, {.retain_graph = keep, .create_graph = keep})[0];
  };
  Tensor a = test::random_tensor({3, 3}, DType::float64, 1) + 3 * call("_eye", {}, {{"N", int64_t{3}}, {"dtype", std::string("float64")}});
  const Tensor b = test::random_tensor({3, 2}, DType::float64, 2), weight = test::random_tensor({3, 2}, DType::float64, 3);
  const Tensor direction = test::random_tensor({3, 3}, DType::float64, 4);
  a.attach_grad();
  {
    const auto record = autograd::record();
    slope(a, b, weight, true).backward(direction);
  }
  // The second derivative is symmetric: what flows back is how the slope changes along the direction.
  const double step = 1e-5;
  const auto at = [&](double distance) {
    Tensor moved = (a + direction * distance).copy();
    moved.attach_grad();
    return slope(moved, b, weight, false);
  };
  EXPECT_TRUE(test::close(a.grad(), (at(step) - at(-step)) / (2 * step), 1e-6, 1e-8));
}

}  // namespace
}  // namespace gluino::test
