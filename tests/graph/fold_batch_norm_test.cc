// fold_batch_norm: which graphs it changes, and that the numbers stay.
#include "passes/fold_batch_norm.h"

#include "gluino/hybrid.h"
#include "gluino/ops.h"
#include "graph/interpret.h"
#include "passes/eliminate_dead.h"
#include "support/support.h"

namespace gluino::test {
namespace {

constexpr const char* kParameters = "g: float64 (6,), b: float64 (6,), m: float64 (6,), v: float64 (6,)";

int count(const Graph& g, std::string_view op) {
  return static_cast<int>(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Graph::Node& n) { return n.op && n.op->name == op; }));
}

// Folds, compares the numbers, and returns how many norms are left.
int norms_after(const std::string& text) {
  Graph g = Graph::parse(text);
  infer_graph(g, {}, {});
  const Graph folded = fold_batch_norm(g, {});
  verify(folded);
  EXPECT_EQ(folded.outputs.size(), g.outputs.size());
  auto run = [](const Graph& graph) {
    std::vector<Tensor> values(graph.nodes.size());
    for (size_t i = 0; i < values.size(); ++i)
      if (graph.nodes[i].is_variable())
        values[i] = random_tensor(*graph.nodes[i].outputs[0].shape, *graph.nodes[i].outputs[0].dtype,
                                  std::hash<std::string>()(graph.nodes[i].name), 0.2, 2);
    return interpret(graph, values);
  };
  const Tensors want = run(g), got = run(folded);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close(got[i], want[i])) << folded.str();
  return count(folded, "BatchNorm");
}
std::string layer_then_norm(const std::string& inputs, const std::string& layer, const std::string& norm_attrs = "{fix_gamma=False}",
                            const std::string& results = "r") {
  return "graph(" + inputs + ", " + kParameters + ") {\n  l = " + layer + "\n  n = BatchNorm(l, g, b, m, v) " + norm_attrs +
         "\n  r = relu(n[0])\n  return " + results + "\n}\n";
}

TEST(FoldBatchNorm, IntoEveryKindOfLayer) {
  EXPECT_EQ(norms_after(layer_then_norm("x: float64 (2, 3, 12, 12), w: float64 (6, 3, 3, 3)",
                                        "Convolution(x, w) {kernel=\"(3, 3)\", num_filter=6, no_bias=True}")),
            0);
  EXPECT_EQ(norms_after(layer_then_norm("x: float64 (2, 4, 12, 12), w: float64 (6, 2, 3, 3), c: float64 (6,)",
                                        "Convolution(x, w, c) {kernel=\"(3, 3)\", num_filter=6, num_group=2}", "{}")),
            0);
  EXPECT_EQ(norms_after(layer_then_norm("x: float64 (2, 12, 12, 3), w: float64 (6, 3, 3, 3), c: float64 (6,)",
                                        "Convolution(x, w, c) {kernel=\"(3, 3)\", num_filter=6, layout=NHWC}", "{axis=\"-1\"}")),
            0);
  EXPECT_EQ(norms_after(layer_then_norm("x: float64 (2, 3, 12, 12), w: float64 (3, 6, 3, 3)",
                                        "Deconvolution(x, w) {kernel=\"(3, 3)\", num_filter=6}")),
            0);
  EXPECT_EQ(
      norms_after(layer_then_norm("x: float64 (50, 4), w: float64 (6, 4), c: float64 (6,)", "FullyConnected(x, w, c) {num_hidden=6}")), 0);
  EXPECT_EQ(norms_after(layer_then_norm("x: float64 (20, 6, 4), w: float64 (6, 4)",
                                        "FullyConnected(x, w) {num_hidden=6, no_bias=True, flatten=False}", "{axis=2}")),
            0);
}

TEST(FoldBatchNorm, NotWhereItDoesNotFit) {
  const std::string convolution = "Convolution(x, w) {kernel=\"(3, 3)\", num_filter=6, no_bias=True}",
                    image = "x: float64 (2, 3, 12, 12), w: float64 (6, 3, 3, 3)";
  EXPECT_EQ(norms_after(layer_then_norm(image, convolution, "{}", "r, l")), 1);     // somebody else needs the layer's output
  EXPECT_EQ(norms_after(layer_then_norm(image, convolution, "{}", "r, n[1]")), 1);  // or the norm's statistics
  // Channels on another axis than the layer's.
  EXPECT_EQ(norms_after(layer_then_norm("x: float64 (20, 6, 4), w: float64 (6, 4)",
                                        "FullyConnected(x, w) {num_hidden=6, no_bias=True, flatten=False}", "{axis=1}")),
            1);
  EXPECT_EQ(norms_after(layer_then_norm("x: float64 (2, 4, 12, 12), w: float64 (4, 3, 3, 3)",
                                        "Deconvolution(x, w) {kernel=\"(3, 3)\", num_filter=6, num_group=2}")),
            1);
  Graph g = Graph::parse(layer_then_norm(image, convolution));
  infer_graph(g, {}, {});
  EXPECT_EQ(count(fold_batch_norm(g, {.training = true}), "BatchNorm"), 1);
}

TEST(FoldBatchNorm, FollowsTheParameters) {
  Tensor w = random_tensor({6, 3, 3, 3}, DType::float32, 1), gamma = ones({6}), beta = zeros({6}), mean = zeros({6}), var = ones({6});
  auto net = [&](const Tensor& x) {
    return batch_norm(convolution(x, w, {.kernel = Shape{3, 3}, .num_filter = 6, .no_bias = true}), gamma, beta, mean, var,
                      {.fix_gamma = false});
  };
  const auto f = hybrid(net);
  const Tensor x = random_tensor({2, 3, 12, 12}, DType::float32, 2);
  EXPECT_TRUE(close(f(x), net(x), 1e-4, 1e-5));
  EXPECT_EQ(f.explain().find("BatchNorm", f.explain().find("after the passes")), std::string::npos);
  gamma *= full({6}, 3);
  mean += full({6}, 0.5);
  w *= full({1}, 2);
  EXPECT_TRUE(close(f(x), net(x), 1e-4, 1e-5));
}

}  // namespace
}  // namespace gluino::test
