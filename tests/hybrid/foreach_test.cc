// foreach: on concrete tensors, in traced programs, and in files gives the same.
#include "gluino/control_flow.h"
#include "gluino/random.h"
#include "hybrid/loops_in_every_mode.h"

namespace gluino::test {
namespace {

TEST(Foreach, CumulatesStates) {
  expect_same_everywhere(
      [](const Tensors& in) {
        auto [out, states] = foreach (
            [](const Tensors& x, const Tensors& s) -> TensorsPair {
              const Tensor next = tanh(s[0] * x[0] + s[1]);
              return {{next * 2, x[0]}, {next, s[0]}};
            },
            {in[0]}, {in[1], in[2]});
        out.insert(out.end(), states.begin(), states.end());
        return out;
      },
      {input({5, 2, 3}, 1), input({2, 3}, 2), input({2, 3}, 3)});
}

TEST(Foreach, ReadsParametersAndOuterValues) {
  const Tensor w = input({3, 3}, 4);
  expect_same_everywhere(
      [&](const Tensors& in) {
        const Tensor scale = exp(in[1]);
        return foreach (
                   [&](const Tensors& x, const Tensors& s) -> TensorsPair {
                     const Tensor next = tanh(dot(s[0], w) + x[0] * scale);
                     return {{next}, {next}};
                   },
                   {in[0]}, {zeros({2, 3}, {DType::float64})})
            .first;
      },
      {input({4, 2, 3}, 5), input({3}, 6)}, {w});
}

TEST(Foreach, SeveralDataVectorsAndUnusedParts) {
  expect_same_everywhere(
      [](const Tensors& in) {
        auto [out, states] = foreach (
            [](const Tensors& x, const Tensors& s) -> TensorsPair {
              return {{x[0] * 3}, {s[1], s[0] * x[0]}};
            },
            {in[0], in[1]}, {in[2], in[3]});
        out.insert(out.end(), states.begin(), states.end());
        return out;
      },
      {input({4}, 1), input({4, 2}, 2), input({}, 3), input({}, 4)});
}

TEST(Foreach, Nested) {
  const Tensor w = input({3}, 9);
  expect_same_everywhere(
      [&](const Tensors& in) {
        return foreach (
                   [&](const Tensors& row, const Tensors& s) -> TensorsPair {
                     auto [inner, last] = foreach (
                         [&](const Tensors& x, const Tensors& t) -> TensorsPair {
                           const Tensor next = t[0] + sin(x[0]) * w * s[0];
                           return {{next}, {next}};
                         },
                         {row[0]}, {s[0]});
                     return {{inner[0]}, {last[0] * 0.5}};
                   },
                   {in[0]}, {in[1]})
            .first;
      },
      {input({3, 4, 3}, 7), input({3}, 8)}, {w});
}

TEST(Foreach, AnotherLengthNeedsNoNewTrace) {
  auto program = [](const Tensor& x) {
    return foreach (
               [](const Tensors& r, const Tensors& s) -> TensorsPair {
                 return {{r[0] + s[0]}, {r[0] + s[0]}};
               },
               {x}, {zeros({2})})
        .first[0];
  };
  auto f = hybrid(program);
  for (int64_t length : {3, 7, 1}) {
    const Tensor x = random_tensor({length, 2}, DType::float32, 1);
    EXPECT_TRUE(same_bits(f(x), program(x)));
  }
  EXPECT_EQ(f.cache().stats().traces, 1);
}

TEST(Foreach, ExtentsReadByTheBodyAreGuarded) {
  auto program = [](const Tensor& x) {
    return foreach (
               [](const Tensors& r, const Tensors&) -> TensorsPair {
                 return {{r[0] * static_cast<double>(r[0].extent(0))}, {}};
               },
               {x}, {})
        .first[0];
  };
  auto f = hybrid(program);
  for (const Shape& shape : {Shape{3, 2}, Shape{4, 2}, Shape{3, 5}}) {
    const Tensor x = random_tensor(shape, DType::float32, 1);
    EXPECT_TRUE(same_bits(f(x), program(x))) << shape.str();
  }
  EXPECT_EQ(f.cache().stats().traces, 2);
}

TEST(Foreach, NoStepAtAll) {
  const Program program = [](const Tensors& in) {
    auto [out, states] = foreach (
        [](const Tensors& x, const Tensors& s) -> TensorsPair {
          return {{x[0] * s[0]}, {s[0] + 1}};
        },
        {in[0]}, {in[1]});
    return Tensors{out[0], states[0]};
  };
  const Tensors inputs{zeros({0, 3}), input({3}, 1).astype(DType::float32)};
  const Tensors eager = program(inputs), compiled = hybrid(program)(inputs);
  EXPECT_EQ(eager[0].shape().str(), Shape({0, 3}).str());
  EXPECT_EQ(compiled[0].shape().str(), Shape({0, 3}).str());
  EXPECT_TRUE(same_bits(eager[1], inputs[1]));
  EXPECT_TRUE(same_bits(compiled[1], inputs[1]));
}

TEST(Foreach, DrawsTheSameRandomNumbersInEveryMode) {
  const Program program = [](const Tensors& in) {
    return foreach (
               [](const Tensors& x, const Tensors& s) -> TensorsPair {
                 return {{dropout(x[0] + s[0])}, {s[0] * 2}};
               },
               {in[0]}, {in[1]})
        .first;
  };
  const Tensors inputs{input({4, 6}, 1), input({6}, 2)};
  const auto f = hybrid(program);
  seed(7);
  const Results eager = run_with_gradients(program, inputs, {});
  const Tensor next = random::uniform(0, 1, {3});
  for (int round = 0; round < 2; ++round) {
    seed(7);
    expect_same(run_with_gradients(f, inputs, {}), eager, "traced");
    EXPECT_TRUE(same_bits(random::uniform(0, 1, {3}), next)) << "the generator went on from another place";
  }
}

TEST(Foreach, SecondOrderThroughAHybridizedCall) {
  auto program = [](const Tensor& x) {
    return foreach (
               [](const Tensors& r, const Tensors& s) -> TensorsPair {
                 return {{}, {s[0] * r[0]}};
               },
               {x}, {ones({1}, {DType::float64})})
        .second[0];
  };
  Tensors results;
  for (int hybridized = 0; hybridized < 2; ++hybridized) {
    const auto f = hybrid(program);
    Tensor x = input({3, 1}, 5);
    x.attach_grad();
    Tensor first;
    {
      const auto record = autograd::record();
      first = autograd::grad({hybridized ? f(x) : program(x)}, {x}, {}, {.create_graph = true})[0];
    }
    first.backward();
    results.push_back(x.grad().copy());
  }
  EXPECT_TRUE(close(results[1], results[0]));
  EXPECT_GT(results[0].to_vector<double>()[0] * results[0].to_vector<double>()[0], 1e-8);
}

TEST(Foreach, MovingStatisticsAreUpdatedOncePerStep) {
  auto run = [](bool hybridized) {
    Tensor gamma = ones({2}), beta = zeros({2}), mean = zeros({2}), var = ones({2});
    auto program = [&](const Tensor& x) {
      return foreach (
                 [&](const Tensors& r, const Tensors&) -> TensorsPair {
                   return {{batch_norm(r[0], gamma, beta, mean, var, {.fix_gamma = false})}, {}};
                 },
                 {x}, {})
          .first[0];
    };
    const auto f = hybrid(program);
    Tensor x = random_tensor({3, 4, 2}, DType::float32, 3);
    x.attach_grad();
    gamma.attach_grad();
    {
      const auto record = autograd::record();
      const Tensor y = hybridized ? f(x) : program(x);
      (y * y * y).backward();
    }
    return Tensors{mean, var, x.grad(), gamma.grad()};
  };
  const Tensors eager = run(false), compiled = run(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(close(compiled[i], eager[i], 1e-4, 1e-5)) << i;
}

TEST(Foreach, ABodyThatReadsValuesStillWorks) {
  auto program = [](const Tensor& x) {
    return foreach (
               [](const Tensors& r, const Tensors& s) -> TensorsPair {
                 const Tensor next = r[0].sum() > 0 ? s[0] + r[0] : s[0] * 2;
                 return {{next}, {next}};
               },
               {x}, {ones({2})})
        .first[0];
  };
  auto f = hybrid(program);
  for (uint64_t k : {1, 2, 3, 1}) {
    const Tensor x = random_tensor({3, 2}, DType::float32, k);
    EXPECT_TRUE(same_bits(f(x), program(x)));
  }
  auto strict = hybrid(program, {.strict = true});
  GLUINO_EXPECT_ERROR(UserError, "strict", strict(ones({3, 2})));
}

TEST(Foreach, SaysWhatIsWrong) {
  auto grows = [](const Tensors& x, const Tensors& s) -> TensorsPair { return {{x[0]}, {stack({s[0], s[0]})}}; };
  auto keeps = [](const Tensors& x, const Tensors& s) -> TensorsPair { return {{x[0]}, s}; };
  auto forgets = [](const Tensors& x, const Tensors&) -> TensorsPair { return {{x[0]}, {}}; };
  auto converts = [](const Tensors& x, const Tensors& s) -> TensorsPair { return {{x[0]}, {s[0].astype(DType::float64)}}; };
  for (bool traced : {false, true}) {
    auto call = [&](const ForeachBody& body, const Tensors& data, const Tensors& states) {
      Program p = [&](const Tensors& in) {
        return foreach (body, Tensors(in.begin(), in.begin() + static_cast<long>(data.size())),
                        Tensors(in.begin() + static_cast<long>(data.size()), in.end()))
            .first;
      };
      Tensors all = data;
      all.insert(all.end(), states.begin(), states.end());
      if (traced)
        hybrid(p)(all);
      else
        p(all);
    };
    GLUINO_EXPECT_ERROR(ShapeError, "state 0 has shape (3,), but the body returns shape (2, 3)", call(grows, {ones({2, 3})}, {ones({3})}));
    GLUINO_EXPECT_ERROR(UserError, "returns 0 states, but it was given 1", call(forgets, {ones({2, 3})}, {ones({3})}));
    GLUINO_EXPECT_ERROR(DTypeError, "state 0 is float32, but the body returns float64", call(converts, {ones({2, 3})}, {ones({3})}));
    GLUINO_EXPECT_ERROR(ShapeError, "positions", call(keeps, {ones({2, 3}), ones({3, 3})}, {}));
    GLUINO_EXPECT_ERROR(ShapeError, "is a scalar", call(keeps, {ones({})}, {}));
  }
}

// No program does that; the function runs as it is.
TEST(Foreach, BodyThatUpdatesATensorFromOutside) {
  Tensor outside = ones({3});
  auto updates = hybrid([&](const Tensor& x) {
    return foreach (
               [&](const Tensors& r, const Tensors&) -> TensorsPair {
                 outside += r[0];
                 return {{r[0]}, {}};
               },
               {x}, {})
        .first[0];
  });
  for (const double after : {3.0, 5.0}) {
    updates(ones({2, 3}));
    EXPECT_TRUE(same_bits(outside, full({3}, after)));
  }
}

}  // namespace
}  // namespace gluino::test
