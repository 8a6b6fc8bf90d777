// foreach, while_loop and cond: on concrete tensors, in traced programs, and in files give the same.
#include "gluino/control_flow.h"

#include "gluino/autograd.h"
#include "gluino/hybrid.h"
#include "gluino/ops.h"
#include "gluino/random.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Program = std::function<Tensors(const Tensors&)>;

struct Results {
  Tensors outputs, gradients;
};

// Outputs, and gradients of sum(weights * outputs) with respect to the inputs and to `parameters`.
Results run_with_gradients(const Program& program, Tensors inputs, Tensors parameters) {
  Tensors leaves;
  for (Tensor& t : inputs) {
    t = t.copy();
    t.attach_grad();
    leaves.push_back(t);
  }
  for (Tensor& t : parameters) {
    t.attach_grad();
    leaves.push_back(t);
  }
  Results r;
  {
    const auto record = autograd::record();
    r.outputs = program(inputs);
  }
  Tensors heads, head_grads;
  for (size_t i = 0; i < r.outputs.size(); ++i) {
    heads.push_back(r.outputs[i]);
    head_grads.push_back(random_tensor(r.outputs[i].shape(), r.outputs[i].dtype(), 100 + i));
  }
  autograd::backward(heads, head_grads);
  for (const Tensor& t : leaves) r.gradients.push_back(t.grad().copy());
  return r;
}

void expect_same(const Results& got, const Results& want, const char* what) {
  ASSERT_EQ(got.outputs.size(), want.outputs.size()) << what;
  for (size_t i = 0; i < want.outputs.size(); ++i) EXPECT_TRUE(close(got.outputs[i], want.outputs[i])) << what << ", output " << i;
  for (size_t i = 0; i < want.gradients.size(); ++i) EXPECT_TRUE(close(got.gradients[i], want.gradients[i])) << what << ", gradient " << i;
}

// The traced program written as JSON, read back, and run operator by operator.
Program reloaded(const HybridCache& cache, const Tensors& inputs) {
  const Symbol loaded = Symbol::from_json(cache.symbol().to_json());
  EXPECT_EQ(loaded.to_json(), cache.symbol().to_json());
  return [loaded, &cache, count = inputs.size()](const Tensors& in) {
    TensorMap map;
    for (const std::string& name : loaded.list_inputs()) {
      const bool is_input = name.starts_with("data");
      map[name] = is_input ? in[count == 1 ? 0 : std::stoul(name.substr(4))] : cache.captured(name);
    }
    return loaded.eval(map);
  };
}

// Eager, hybridized and loaded from a file, forward and backward.
void expect_same_everywhere(const Program& program, const Tensors& inputs, const Tensors& parameters = {}) {
  const Results eager = run_with_gradients(program, inputs, parameters);
  const auto f = hybrid(program);
  expect_same(run_with_gradients(f, inputs, parameters), eager, "traced");
  expect_same(run_with_gradients(f, inputs, parameters), eager, "cached");
  EXPECT_EQ(f.cache().stats().traces, 1);
  expect_same(run_with_gradients(reloaded(f.cache(), inputs), inputs, parameters), eager, "loaded");
}

Tensor input(const Shape& shape, uint64_t seed) { return random_tensor(shape, DType::float64, seed); }

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
  GLUINO_EXPECT_ERROR(UserError, "in place", updates(ones({2, 3})));
  EXPECT_TRUE(same_bits(outside, ones({3})));
}

// ---- while_loop

TensorsPair powers(const Tensors& in, int64_t max_iterations) {
  return while_loop([](const Tensors& v) { return v[0].sum() < 20; },
                    [&](const Tensors& v) -> TensorsPair {
                      return {{v[0] * in[1]}, {v[0] * 2 + in[1], v[1] + 1}};
                    },
                    {in[0], zeros({1}, {DType::float64})}, max_iterations);
}

TEST(WhileLoop, ExactLengthEagerlyPaddedInAGraph) {
  const Tensors inputs{full({2}, 1.5, {DType::float64}), full({2}, 0.5, {DType::float64})};
  const auto [out, vars] = powers(inputs, 10);
  const auto steps = static_cast<int64_t>(vars[1].item<double>());
  EXPECT_GT(steps, 1);
  EXPECT_LT(steps, 10);
  EXPECT_EQ(out[0].shape().str(), Shape({steps, 2}).str());
  const auto f = hybrid([](const Tensors& in) { return powers(in, 10); });
  const auto [padded, end] = f(inputs);
  EXPECT_EQ(padded[0].shape().str(), Shape({10, 2}).str());
  EXPECT_TRUE(same_bits(padded[0][Slice(0, steps)], out[0]));
  EXPECT_TRUE(same_bits(padded[0][Slice(steps, 10)], zeros({10 - steps, 2}, {DType::float64})));
  EXPECT_TRUE(same_bits(end[0], vars[0]));
  EXPECT_TRUE(same_bits(end[1], vars[1]));
}

TEST(WhileLoop, SameEverywhere) {
  // Outputs summed over the steps: the same with and without padding.
  const Program program = [](const Tensors& in) {
    const auto [out, vars] = powers(in, 10);
    return Tensors{out[0].sum(Shape{0}), vars[0]};
  };
  expect_same_everywhere(program, {full({2}, 1.5, {DType::float64}), full({2}, 0.5, {DType::float64})});
  expect_same_everywhere(program, {full({2}, 0.1, {DType::float64}), full({2}, -0.01, {DType::float64})});
}

TEST(WhileLoop, StopsAtMaxIterationsAndAtOnce) {
  const Tensors inputs{full({2}, 1.5, {DType::float64}), full({2}, 0.5, {DType::float64})};
  EXPECT_EQ(powers(inputs, 2).first[0].extent(0), 2);
  const Tensors large{full({2}, 100, {DType::float64}), inputs[1]};
  const auto [out, vars] = powers(large, 5);
  EXPECT_EQ(out[0].shape().str(), Shape({0, 2}).str());
  EXPECT_TRUE(same_bits(vars[0], large[0]));
  const auto f = hybrid([](const Tensors& in) { return powers(in, 5); });
  EXPECT_TRUE(same_bits(f(large).second[0], large[0]));
  EXPECT_TRUE(same_bits(f(large).first[0], zeros({5, 2}, {DType::float64})));
  EXPECT_TRUE(close(f(inputs).second[0], powers(inputs, 5).second[0]));
  EXPECT_EQ(f.cache().stats().traces, 1);
}

TEST(WhileLoop, SecondOrderThroughAHybridizedCall) {
  Tensors results;
  for (int hybridized = 0; hybridized < 2; ++hybridized) {
    auto program = [](const Tensors& in) { return powers(in, 10).first[0].sum(); };
    const auto f = hybrid(program);
    Tensor a = full({2}, 1.5, {DType::float64}), b = full({2}, 0.5, {DType::float64});
    b.attach_grad();
    Tensor first;
    {
      const auto record = autograd::record();
      const Tensors in{a, b};
      first = autograd::grad({hybridized ? f(in) : program(in)}, {b}, {}, {.create_graph = true})[0];
    }
    first.backward();
    results.push_back(b.grad().copy());
  }
  EXPECT_TRUE(close(results[1], results[0]));
}

TEST(WhileLoop, SaysWhatIsWrong) {
  const auto body = [](const Tensors& v) -> TensorsPair { return {{}, v}; };
  GLUINO_EXPECT_ERROR(UserError, "no loop variable", while_loop([](const Tensors&) { return ones({1}); }, body, {}, 3));
  GLUINO_EXPECT_ERROR(UserError, "cannot be negative", while_loop([](const Tensors&) { return ones({1}); }, body, {ones({1})}, -1));
  auto vector = [&](const Tensor& x) { return while_loop([](const Tensors& v) { return v[0] > 0; }, body, {x}, 3).second[0]; };
  GLUINO_EXPECT_ERROR(ShapeError, "the condition has shape (2,)", vector(ones({2})));
  GLUINO_EXPECT_ERROR(ShapeError, "the condition has shape (2,)", hybrid(vector)(ones({2})));
}

// ---- cond

Tensors choose(const Tensors& in) {
  const Tensor w = exp(in[1]);
  return cond([](const Tensors& x) { return x[0].sum() > 0; },
              [&](const Tensors& x) {
                return Tensors{x[0] * w, x[0]};
              },
              [&](const Tensors& x) {
                return Tensors{x[0] - in[1], w};
              },
              in);
}

TEST(Cond, TakesTheBranchOfTheValue) {
  for (double sign : {1.0, -1.0}) expect_same_everywhere(choose, {full({3}, sign, {DType::float64}), input({3}, 2)});
  const auto f = hybrid(choose);
  for (double sign : {1.0, -1.0, 2.0}) {
    const Tensors in{full({3}, sign, {DType::float64}), input({3}, 2)};
    const Tensors got = f(in), want = choose(in);
    EXPECT_TRUE(close(got[0], want[0]));
    EXPECT_TRUE(close(got[1], want[1]));
  }
  EXPECT_EQ(f.cache().stats().traces, 1);
}

TEST(Cond, OfAValueInsideALoop) {
  expect_same_everywhere(
      [](const Tensors& in) {
        return foreach (
                   [](const Tensors& x, const Tensors& s) -> TensorsPair {
                     const Tensors next = cond(
                         x[0].sum() > 0, [&] { return Tensors{s[0] + x[0]}; }, [&] { return Tensors{s[0] * x[0]}; });
                     return {next, next};
                   },
                   {in[0]}, {in[1]})
            .first;
      },
      {input({6, 2}, 3), input({2}, 4)});
}

TEST(Cond, SaysWhatIsWrong) {
  auto f = hybrid([](const Tensor& x) {
    return cond(
        x.sum(), [&] { return Tensors{x}; }, [&] { return Tensors{x.sum()}; })[0];
  });
  GLUINO_EXPECT_ERROR(ShapeError, "in the first branch", f(ones({2})));
  auto g = hybrid([](const Tensor& x) {
    return cond(
        x.sum(), [&] { return Tensors{x}; }, [] { return Tensors{}; })[0];
  });
  GLUINO_EXPECT_ERROR(UserError, "as many", g(ones({2})));
}

// ---- symbols and files

TEST(ControlFlow, OnSymbols) {
  const Tensor data = sym::var("data"), state = sym::var("state"), w = sym::var("w");
  const auto [out, states] = foreach (
      [&](const Tensors& x, const Tensors& s) -> TensorsPair {
        const Tensor next = fully_connected(x[0], w, {}, {.num_hidden = 3, .no_bias = true}) + s[0];
        return {{next}, {next}};
      },
      {data}, {state});
  const Symbol symbol = sym::group({out[0], states[0]});
  EXPECT_EQ(symbol.list_arguments(), (std::vector<std::string>{"data", "state", "w"}));
  const InferredShapes shapes = symbol.infer_shape({{"data", {5, 2, 4}}, {"state", {2, 3}}});
  EXPECT_EQ(shapes.arguments[2]->str(), Shape({3, 4}).str());
  EXPECT_EQ(shapes.outputs[0]->str(), Shape({5, 2, 3}).str());
  const TensorMap in{
      {"data", random_tensor({5, 2, 4}, DType::float32, 1)}, {"state", zeros({2, 3})}, {"w", random_tensor({3, 4}, DType::float32, 2)}};
  const Tensors got = Symbol::from_json(symbol.to_json()).eval(in), want = symbol.eval(in);
  EXPECT_TRUE(same_bits(got[0], want[0]));
  EXPECT_TRUE(same_bits(got[1], want[1]));
  EXPECT_TRUE(same_bits(got[0][4], got[1]));
}

// Written as MXNet 1.9 writes it: locations in brackets, the body's inputs in the order of its variables.
TEST(ControlFlow, LoadsMxnetsSpelling) {
  const std::string json = R"({"nodes": [
    {"op": "null", "name": "data", "inputs": []}, {"op": "null", "name": "state", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
    {"op": "_foreach", "name": "foreach0", "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]],
     "attrs": {"in_data_locs": "[1]", "in_state_locs": "[0]", "num_args": "4", "num_out_data": "1", "num_outputs": "2", "remain_locs": "[2]"},
     "subgraphs": [{"nodes": [
       {"op": "null", "name": "s", "inputs": []}, {"op": "null", "name": "x", "inputs": []},
       {"op": "elemwise_add", "name": "sum", "inputs": [[0, 0, 0], [1, 0, 0]]}, {"op": "null", "name": "w", "inputs": []},
       {"op": "elemwise_mul", "name": "product", "inputs": [[2, 0, 0], [3, 0, 0]]}],
       "arg_nodes": [0, 1, 3], "node_row_ptr": [0, 1, 2, 3, 4, 5], "heads": [[4, 0, 0], [2, 0, 0]]}]}],
    "arg_nodes": [0, 1, 2], "node_row_ptr": [0, 1, 2, 3, 5], "heads": [[3, 0, 0], [3, 1, 0]], "attrs": {"mxnet_version": ["int", 10901]}})";
  const Tensors out =
      Symbol::from_json(json).eval({{"data", tensor({{1, 2}, {3, 4}})}, {"state", tensor({10, 20})}, {"w", tensor({2, 3})}});
  EXPECT_TRUE(same_bits(out[0], tensor({{22, 66}, {28, 78}})));
  EXPECT_TRUE(same_bits(out[1], tensor({14, 26})));
  std::string wrong = json;
  wrong.replace(wrong.find("\"[2]\""), 5, "\"[7]\"");
  GLUINO_EXPECT_ERROR(UserError, "remain_locs names input 7 of 3",
                      Symbol::from_json(wrong).eval({{"data", ones({2, 2})}, {"state", ones({2})}, {"w", ones({2})}}));
}

TEST(ControlFlow, ValuesOfABodyDoNotLeaveIt) {
  auto f = hybrid([](const Tensor& x) {
    Tensor leaked;
    foreach ([&](const Tensors& r, const Tensors&) -> TensorsPair { return leaked = r[0] * 2, TensorsPair{{leaked}, {}}; }, {x}, {})
      ;
    return leaked + 1;
  });
  GLUINO_EXPECT_ERROR(UserError, "let the body return it", f(ones({2, 3})));
}

}  // namespace
}  // namespace gluino::test
