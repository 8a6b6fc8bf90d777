// Each pass is fed a graph as text and its result is compared as text.
#include "exec/pipeline.h"
#include "graph/pass_on_text.h"
#include "passes/eliminate_common.h"
#include "passes/eliminate_dead.h"
#include "passes/fold_constants.h"
#include "passes/raise_shape_reads.h"
#include "passes/simplify.h"
#include "support/support.h"

namespace gluino::test {
namespace {

TEST(TextForm, RoundTrips) {
  const std::string text =
      "graph(data: float32 (2, 3), \"odd name\": float64 (4,) {__lr_mult__=2}) {\n"
      "  parts = SliceChannel(data) {num_outputs=3}\n"
      "  r = Activation(parts[1]) {act_type=tanh}\n"
      "  return r, parts[0], \"odd name\"\n"
      "}\n";
  EXPECT_EQ(Graph::parse(text).str(), text);
  EXPECT_EQ(Graph::parse("graph(x) {\n  y = _plus_scalar(x) {scalar=-1e-05}\n  return y\n}\n").str(),
            "graph(x) {\n  y = _plus_scalar(x) {scalar=-1e-05}\n  return y\n}\n");
  GLUINO_EXPECT_ERROR(UserError, "'y' is not", Graph::parse("graph(x) {\n  return y\n}\n"));
}

TEST(TextForm, HoldsTheBodiesOfLoops) {
  const std::string text =
      "graph(data, s) {\n"
      "  loop = _foreach(data, s) {in_data_locs=\"(1,)\", in_state_locs=\"(0,)\", num_args=3, num_out_data=1, num_outputs=2, "
      "remain_locs=\"()\"} with graph(t, x) {\n"
      "    sum = elemwise_add(t, x)\n"
      "    copy = _copy(sum)\n"
      "    return sum, copy\n"
      "  }\n"
      "  return loop[0]\n"
      "}\n";
  EXPECT_EQ(Graph::parse(text).str(), text);
  EXPECT_EQ(Symbol::parse(text).str(), text);
}

TEST(Pipeline, LeavesOutPassesByTheirWholeNames) {
  const Graph g = Graph::parse("graph(x: float32 (2,)) {\n  r = relu(x)\n  return r\n}\n");
  const auto stages = [&] {
    std::vector<std::string> names;
    for (const StageTime& s : compile(g, {.wanted_gradients = {"x"}}).stages) names.push_back(s.stage);
    return names;
  };
  const auto with = [&](const std::string& stage) {
    const auto names = stages();
    return std::find(names.begin(), names.end(), stage) != names.end();
  };
  EXPECT_TRUE(with("simplify") && with("simplify (joint)") && with("fuse_rows"));
  const SkippedPasses skipped("simplify (joint),fuse_rows_of_another_kind,fuse_elementwise");
  EXPECT_TRUE(with("simplify") && with("fuse_rows"));
  EXPECT_FALSE(with("simplify (joint)") || with("fuse_elementwise"));
}

TEST(Simplify, LeavesOutWhatChangesNothing) {
  EXPECT_EQ(after(simplify, R"g(graph(x: float32 (2, 3)) {
  copy = _copy(x)
  cast = Cast(copy) {dtype=float32}
  shape = Reshape(cast) {shape="(2, 3)"}
  order = transpose(shape) {axes="(0, 1)"}
  product = _mul_scalar(order) {scalar=1}
  quotient = _div_scalar(product) {scalar=1}
  wide = broadcast_to(quotient) {shape="(2, 3)"}
  narrow = _sum_like(wide, x)
  whole = slice(narrow) {begin="(0, None)", end="(2, None)"}
  r = relu(whole)
  return r
}
)g"),
            "graph(x) {\n  r = relu(x)\n  return r\n}\n");
}

TEST(Simplify, KeepsWhatChangesSomething) {
  const std::string text = R"g(graph(x: float32 (3, 3)) {
  cast = Cast(x) {dtype=float64}
  order = transpose(x)
  product = _mul_scalar(x) {scalar=2}
  sum = _plus_scalar(x)
  back = slice(x) {begin="(None,)", end="(None,)", step="(-1,)"}
  r1 = relu(cast)
  r2 = relu(order)
  r3 = relu(product)
  r4 = relu(back)
  r5 = relu(sum)
  return r1, r2, r3, r4, r5
}
)g";
  const std::string result = after(simplify, text);
  for (const char* name : {"cast =", "order =", "product =", "back =", "sum ="}) EXPECT_NE(result.find(name), std::string::npos) << result;
}

TEST(Simplify, ACopyThatIsAResultStays) {
  const std::string text = "graph(x) {\n  c = _copy(x)\n  return c\n}\n";
  EXPECT_EQ(after(simplify, "graph(x: float32 (2,)) {\n  c = _copy(x)\n  return c\n}\n"), text);
}

TEST(Simplify, AResultThatIsMadeHereNeedsNoCopy) {
  EXPECT_EQ(after(simplify, "graph(x: float32 (2,)) {\n  r = relu(x)\n  c = _copy(r)\n  return c\n}\n"),
            "graph(x) {\n  r = relu(x)\n  return r\n}\n");
  // Two results must not share their memory.
  EXPECT_EQ(after(simplify, "graph(x: float32 (2,)) {\n  r = relu(x)\n  c = _copy(r)\n  d = _copy(r)\n  return c, d\n}\n"),
            "graph(x) {\n  r = relu(x)\n  d = _copy(r)\n  return r, d\n}\n");
}

TEST(Simplify, DropoutDependsOnTheMode) {
  const std::string text = "graph(x: float32 (2, 3)) {\n  d = Dropout(x)\n  r = relu(d[0])\n  return r\n}\n";
  EXPECT_EQ(after(simplify, text, false), "graph(x) {\n  r = relu(x)\n  return r\n}\n");
  EXPECT_EQ(after(simplify, text, true), "graph(x) {\n  d = Dropout(x)\n  r = relu(d[0])\n  return r\n}\n");
  const std::string always = "graph(x: float32 (2, 3)) {\n  d = Dropout(x) {mode=always}\n  r = relu(d[0])\n  return r\n}\n";
  EXPECT_NE(after(simplify, always, false).find("Dropout"), std::string::npos);
}

TEST(EliminateCommon, MergesEqualCalls) {
  EXPECT_EQ(after(eliminate_common, R"g(graph(x: float32 (2, 3)) {
  a = tanh(x)
  b = tanh(x)
  c = _mul_scalar(a) {scalar=2}
  d = _mul_scalar(b) {scalar=2}
  e = _mul_scalar(b) {scalar=3}
  s = elemwise_add(c, d)
  t = elemwise_add(s, e)
  return t
}
)g"),
            R"g(graph(x) {
  a = tanh(x)
  c = _mul_scalar(a) {scalar=2}
  e = _mul_scalar(a) {scalar=3}
  s = elemwise_add(c, c)
  t = elemwise_add(s, e)
  return t
}
)g");
}

TEST(EliminateCommon, RandomNumbersAndStatesAreNotShared) {
  const std::string random = R"g(graph() {
  a = _random_uniform() {shape="(3,)"}
  b = _random_uniform() {shape="(3,)"}
  s = elemwise_add(a, b)
  return s
}
)g";
  EXPECT_EQ(after(eliminate_common, random), random);
  const std::string rnn = R"g(graph(x: float32 (3, 2, 2), w: float32 (45,), h: float32 (2, 2, 3)) {
  a = RNN(x, w, h) {mode=rnn_tanh, num_layers=2, p=0.5, state_size=3}
  b = RNN(x, w, h) {mode=rnn_tanh, num_layers=2, p=0.5, state_size=3}
  c = RNN(x, w, h) {mode=rnn_tanh, num_layers=2, state_size=3}
  d = RNN(x, w, h) {mode=rnn_tanh, num_layers=2, state_size=3}
  s = elemwise_add(a[0], b[0])
  t = elemwise_add(c[0], d[0])
  return s, t
}
)g";
  const std::string result = after(eliminate_common, rnn, true);
  EXPECT_NE(result.find("s = elemwise_add(a[0], b[0])"), std::string::npos) << result;
  EXPECT_NE(result.find("t = elemwise_add(c[0], c[0])"), std::string::npos) << result;
}

TEST(EliminateCommon, TwoResultsStayTwo) {
  const std::string two = R"g(graph(x) {
  a = exp(x)
  b = exp(x)
  c = Reshape(b) {shape="(12,)"}
  return a, c
}
)g";
  EXPECT_EQ(after(eliminate_common, two), two);
  const std::string result = after(eliminate_common, R"g(graph(x: float32 (3, 4)) {
  a = exp(x)
  b = exp(x)
  c = elemwise_add(a, x)
  return b, c
}
)g");
  EXPECT_NE(result.find("return a, c"), std::string::npos) << result;
}

TEST(Simplify, ACopyThatIsAResultStaysOne) {
  const std::string copies = R"g(graph(x) {
  h = exp(x)
  r = Reshape(h) {shape="(12,)"}
  a = _copy(h)
  b = _copy(x)
  c = Reshape(b) {shape="(12,)"}
  return r, a, c
}
)g";
  EXPECT_EQ(after(simplify, copies), copies);
}

TEST(RaiseShapeReads, TakesAShapeFromAsFarUpAsItGoes) {
  EXPECT_EQ(after(raise_shape_reads, R"g(graph(x: float32 (2, 3), b: float32 (3,)) {
  y = broadcast_add(b, x)
  z = tanh(y)
  l = _sum_like(z, b)
  o = broadcast_like(l, z)
  c = Cast(z) {dtype=float64}
  p = broadcast_like(l, c)
  return o, p
}
)g"),
            R"g(graph(x, b) {
  y = broadcast_add(b, x)
  z = tanh(y)
  l = _sum_like(z, b)
  o = broadcast_like(l, x)
  c = Cast(z) {dtype=float64}
  p = broadcast_like(l, c)
  return o, p
}
)g");
}
TEST(EliminateDead, KeepsVariablesAndEffects) {
  EXPECT_EQ(
      after(
          eliminate_dead,
          R"g(graph(x: float32 (2, 3), unused: float32 (5,), gamma: float32 (3,), beta: float32 (3,), mean: float32 (3,), var: float32 (3,)) {
  dead = tanh(x)
  deader = exp(dead)
  drawn = _random_normal() {shape="(2,)"}
  norm = BatchNorm(x, gamma, beta, mean, var)
  r = relu(x)
  return r
}
)g"),
      R"g(graph(x, unused, gamma, beta, mean, var) {
  drawn = _random_normal() {shape="(2,)"}
  norm = BatchNorm(x, gamma, beta, mean, var)
  r = relu(x)
  return r
}
)g");
}

TEST(FoldConstants, ComputesWhatDependsOnNothing) {
  Graph g = Graph::parse(R"g(graph(x: float32 (2, 3)) {
  ones = _ones() {shape="(2, 3)"}
  three = _mul_scalar(ones) {scalar=3}
  sum = elemwise_add(x, three)
  drawn = _random_uniform() {shape="(2, 3)"}
  r = elemwise_add(sum, drawn)
  result = _mul_scalar(three) {scalar=2}
  return r, result
}
)g");
  infer_graph(g, {}, {});
  const Graph folded = fold_constants(g, {});
  verify(folded);
  int constants = 0, operators = 0;
  for (const auto& n : folded.nodes) {
    operators += n.op != nullptr;
    if (!n.is_constant()) continue;
    ++constants;
    EXPECT_TRUE(n.is_folded);
    if (n.name == "three") {
      EXPECT_TRUE(same_bits(n.constant, full({2, 3}, 3)));
    }
  }
  EXPECT_EQ(constants, 2);  // ones, three
  EXPECT_EQ(operators, 4);  // the sums, the random numbers, and what the caller gets for his own
}

TEST(FoldConstants, CapturedTensorsMayChange) {
  Graph g = Graph::parse("graph(w: float32 (2,)) {\n  d = _mul_scalar(w) {scalar=2}\n  r = tanh(d)\n  return r\n}\n");
  g.nodes[0].constant = ones({2});
  infer_graph(g, {}, {});
  EXPECT_EQ(fold_constants(g, {}).nodes.size(), g.nodes.size());
  EXPECT_NE(fold_constants(g, {}).nodes[1].op, nullptr);
}

}  // namespace
}  // namespace gluino::test
