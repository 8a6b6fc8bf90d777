// while_loop, cond, and loops in symbols and files: the same in every mode.
#include "gluino/control_flow.h"
#include "gluino/random.h"
#include "hybrid/loops_in_every_mode.h"

namespace gluino::test {
namespace {

// ---- while_loop

TensorsPair powers(const Tensors& in, int64_t max_iterations) {
  return while_loop([](const Tensors& v) { return v[0].sum() < 20; },
                    [&](const Tensors& v) -> TensorsPair {
                      return {{v[0] * in[1]}, {v[0] * 2 + in[1], v[1] + 1}};
                    },
                    {in[0], zeros({1}, {DType::float64})}, max_iterations);
}

TEST(WhileLoop, AsManyRowsAsStepsInEveryModeAndAllOfThemInAGraph) {
  const Tensors inputs{full({2}, 1.5, {DType::float64}), full({2}, 0.5, {DType::float64})};
  const auto [out, vars] = powers(inputs, 10);
  const auto steps = static_cast<int64_t>(vars[1].item<double>());
  EXPECT_GT(steps, 1);
  EXPECT_LT(steps, 10);
  EXPECT_EQ(out[0].shape().str(), Shape({steps, 2}).str());
  for (bool verify : {false, true}) {
    const auto f = hybrid([](const Tensors& in) { return powers(in, 10); }, {.verify = verify});
    for (double first : {1.5, 0.25, 30.0, 1.5, 0.25}) {
      const Tensors in{full({2}, first, {DType::float64}), inputs[1]};
      const auto [want, want_vars] = powers(in, 10);
      const auto [rows, end] = f(in);
      EXPECT_TRUE(same_bits(rows[0], want[0])) << rows[0] << want[0];
      EXPECT_TRUE(same_bits(end[1], want_vars[1]));
    }
  }
  const auto strict = hybrid([](const Tensors& in) { return powers(in, 10); }, {.strict = true});
  const Tensor padded = strict(inputs).first[0];
  EXPECT_EQ(padded.shape().str(), Shape({10, 2}).str());
  EXPECT_TRUE(same_bits(padded[Slice(0, steps)], out[0]));
  EXPECT_TRUE(same_bits(padded[Slice(steps, 10)], zeros({10 - steps, 2}, {DType::float64})));
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
  EXPECT_TRUE(same_bits(f(large).first[0], zeros({0, 2}, {DType::float64})));
  EXPECT_TRUE(close(f(inputs).second[0], powers(inputs, 5).second[0]));
  EXPECT_EQ(f.cache().stats().traces, 2);  // another number of rows is another branch
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

// A graph cannot have branches of other shapes or numbers: such a cond is a branch of the program.
TEST(Cond, BranchesMayDifferWhereValuesAreThere) {
  auto f = hybrid([](const Tensor& x) {
    return cond(
        x.sum(), [&] { return Tensors{x}; }, [&] { return Tensors{x.sum()}; })[0];
  });
  for (double value : {1.0, 0.0, 1.0}) EXPECT_TRUE(same_bits(f(full({2}, value)), value > 0 ? ones({2}) : zeros({2}).sum())) << value;
  auto g = hybrid([](const Tensor& x) {
    return cond(
        x.sum(), [&] { return Tensors{x}; }, [] { return Tensors{}; })[0];
  });
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(g(ones({2})), ones({2})));
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

// No graph does that; the function runs as it is.
TEST(ControlFlow, ABodyMayKeepItsValues) {
  auto program = [](const Tensor& x) {
    Tensor kept;
    Tensors all;
    foreach (
        [&](const Tensors& r, const Tensors&) -> TensorsPair {
          kept = r[0] * 2;
          all.push_back(r[0]);
          return {{kept + 1}, {}};
        },
        {x}, {})
      ;
    return kept + all[0] * static_cast<double>(all.size());
  };
  auto f = hybrid(program);
  for (const int64_t rows : {2, 3, 2}) EXPECT_TRUE(same_bits(f(input({rows, 3}, 1)), program(input({rows, 3}, 1))));
}

}  // namespace
}  // namespace gluino::test
