// hybridize() never changes an answer: errors that depend on values. They are raised where eager code raises them, whether anything needs
// the result or not, and what stands behind them is not done.
#include "hybrid/every_mode.h"

namespace gluino::test {
namespace {

// Calls that refuse some values: `bad` decides, as a value of a tensor, so that nothing else can tell.
struct Refusing {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& bad)> call;
};
Tensor index_of(const Tensor& bad) { return (bad * 99).astype(DType::int64); }
const Refusing kRefusing[] = {
    {"indexing", [](const Tensor& x, const Tensor& bad) { return x[index_of(bad)]; }},
    {"take",
     [](const Tensor& x, const Tensor& bad) {
       return call("take", {x, index_of(bad)}, {{"mode", std::string("raise")}});
     }},
    {"gather_nd",
     [](const Tensor& x, const Tensor& bad) {
       return call("gather_nd", {x, index_of(bad).reshape({1, 1})});
     }},
    {"embedding",
     [](const Tensor& x, const Tensor& bad) {
       return call("Embedding", {index_of(bad), x.reshape({3, 1})},
                   {{"input_dim", int64_t{3}}, {"output_dim", int64_t{1}}, {"__out_of_range__", std::string("raise")}});
     }},
    {"cholesky",
     [](const Tensor& x, const Tensor& bad) {
       return call("linalg_potrf", {(x[Slice(0, 1)] - bad * 99).reshape({1, 1})});
     }},
    {"solve",
     [](const Tensor& x, const Tensor& bad) {
       return call("_npi_solve", {(1 - bad).reshape({1, 1}), x[Slice(0, 1)].reshape({1, 1})});
     }},
    {"in a body",
     [](const Tensor& x, const Tensor& bad) {
       const auto body = [&](const Tensors& row, const Tensors& state) { return TensorsPair{row, {state[0] + x[index_of(bad)]}}; };
       return foreach (body, {x}, {zeros({1})}).second[0];
     }},
};

// A program's message may name another operator than eager indexing does.
const char* kind_of(const UserError& e) { return dynamic_cast<const IndexError*>(&e) ? "an index\n" : "a value\n"; }

enum class Use { nothing, result, caught };
struct Case {
  const Refusing& refusing;
  Use use;
  bool recorded, draws, fails_first;
};

void run_case(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.refusing.name
                                  << (c.use == Use::nothing  ? ", not needed"
                                      : c.use == Use::caught ? ", caught"
                                                             : "")
                                  << (c.recorded ? ", recorded" : "") << (c.draws ? ", draws" : "")
                                  << (c.fails_first ? ", fails first" : ""));
  expect_same([&](auto mode, std::ostream& out) {
    Tensor before = zeros({3}), after = zeros({3}), state = zeros({3}), bad = zeros({1}), w = leaf({3});
    auto f = mode([&](const Tensor& x) {
      before = x * 2;
      state += x;
      Tensor y = x * w;
      if (c.draws) y = y + random::uniform(0, 1, {3});
      if (c.use == Use::caught) {
        try {
          y = y + c.refusing.call(y, bad).sum();
        } catch (const UserError&) {
          y = y * 3;
        }
      } else {
        const Tensor refused = c.refusing.call(y, bad);
        if (c.use == Use::result) y = y + refused.sum();
      }
      after = x;  // a tensor that was there before, and
      before = y * 2;
      state += 1;
      return y;
    });
    for (int i = 0; i < 5; ++i) {
      bad.assign((i + (c.fails_first ? 1 : 0)) % 3 == 1 ? 1.0 : 0.0);
      const Tensor x = numbers({3}) + i;
      try {
        const autograd::Scope scope(c.recorded, std::nullopt);
        const Tensor y = f(x);
        if (c.recorded) y.backward();
        show(out, y), show(out, w.grad());
      } catch (const UserError& e) {
        out << kind_of(e);
      }
      show(out, before), show(out, after), show(out, state), show(out, random::uniform(0, 1, {1}));
    }
  });
}

TEST(PromiseErrors, AreRaisedWhereTheyStand) {
  for (const Refusing& refusing : kRefusing)
    for (Use use : {Use::nothing, Use::result, Use::caught})
      for (bool recorded : {false, true})
        for (bool draws : {false, true})
          for (bool fails_first : {false, true}) run_case({refusing, use, recorded, draws, fails_first});
}

// Where nothing is put anywhere a program is kept and run; it must not have lost the call.
TEST(PromiseErrors, OfWhatNothingNeedsAreRaisedByPrograms) {
  for (const Refusing& refusing : kRefusing)
    for (bool recorded : {false, true}) {
      SCOPED_TRACE(refusing.name);
      Tensor w = leaf({3});
      auto f = hybrid([&](const Tensor& x, const Tensor& bad) {
        refusing.call(x, bad);
        return x * w;
      });
      const autograd::Scope scope(recorded, std::nullopt);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(f(numbers({3}), zeros({1})).shape(), Shape({3}));
        EXPECT_THROW(f(numbers({3}), ones({1})), UserError);
      }
      EXPECT_EQ(f.cache().stats().traces, 1);
    }
}

// The layers before it are not run twice where they do more than compute.
struct Normalised : nn::HybridBlock {
  nn::BatchNorm norm;
  Tensor at = zeros({1}, {DType::int64});
  int64_t forwards = 0;
  Normalised() { GLUINO_CHILDREN(norm); }
  Tensor forward(const Tensor& x) override {
    const Tensor y = norm(x);
    return y + y[at];
  }
};
TEST(PromiseErrors, StatesAreUpdatedOnceInTheFirstRun) {
  for (bool fails_first : {false, true})
    expect_same([&](auto mode, std::ostream& out) {
      Normalised net;
      net.initialize();
      mode.block(net);
      for (int i = 0; i < 4; ++i) {
        net.at.assign((i + (fails_first ? 1 : 0)) % 3 == 1 ? 9.0 : 0.0);
        try {
          const auto record = autograd::record();
          const Tensor y = net(numbers({2, 3}) * (i + 1));
          y.backward();
          show(out, y);
        } catch (const UserError& e) {
          out << kind_of(e);
        }
        if (i == 0 || !fails_first)
          for (const auto& [name, p] : net.collect_params()) show(out, p->data());
      }
    });
}

}  // namespace
}  // namespace gluino::test
