// fuse_rows: text in, text out.
#include "passes/fuse_rows.h"

#include "graph/pass_on_text.h"
#include "passes/fuse_elementwise.h"
#include "support/support.h"

namespace gluino::test {
namespace {

Graph both(Graph graph, const PassContext& context) { return fuse_rows(fuse_elementwise(std::move(graph), context), context); }

TEST(FuseRows, ScalesAndMasksInTheSweepOfSoftmax) {
  EXPECT_EQ(after(both, R"g(graph(x: float32 (2, 3, 8), mask: float32 (2, 1, 8)) {
  y = _mul_scalar(x) {scalar=0.125}
  z = broadcast_add(y, mask)
  s = softmax(z)
  t = _mul_scalar(s) {scalar=3}
  return t
}
)g"),
            R"g(graph(x, mask) {
  t = _fused_rows(x, mask) {program="f32; map(0,1) f32 x0 x1 0.125 multiply(0,2) add(3,1); softmax(2) 1; map(3) f32 x0 3 multiply(0,1); -> 4"}
  return t
}
)g");
}
TEST(FuseRows, AddsAndNormalizesInOneSweep) {
  EXPECT_EQ(after(both, R"g(graph(x: float32 (4, 8), y: float32 (4, 8), gamma: float32 (8,), beta: float32 (8,)) {
  sum = elemwise_add(x, y)
  n = LayerNorm(sum, gamma, beta) {eps=0.5}
  return n, sum, n[1]
}
)g"),
            R"g(graph(x, y, gamma, beta) {
  n = _fused_rows(x, y, gamma, beta) {program="f32; map(0,1) f32 x0 x1 add(0,1); layer_norm(4,2,3) 0.5; -> 5,6,4"}
  return n[0], n[2], n[1]
}
)g");
}
TEST(FuseRows, SpreadsAReductionOverItsRow) {
  EXPECT_EQ(after(both, R"g(graph(x: float32 (4, 8)) {
  m = mean(x) {axis="(-1,)", keepdims=True}
  d = broadcast_sub(x, m)
  q = square(d)
  v = mean(q) {axis="(-1,)", keepdims=True}
  s = sqrt(v)
  y = broadcast_div(d, s)
  return y
}
)g"),
            R"g(graph(x) {
  y = _fused_rows(x) {program="f32; sum(0) divide; map(0,1) f32 x0 x1 subtract(0,1) multiply(2,2) -> 3,2; sum(2) divide; map(4) f32 x0 sqrt(0); map(3,5) f32 x0 x1 divide(0,1); -> 6"}
  return y
}
)g");
}
TEST(FuseRows, TakesInWhatIsAroundAGradient) {
  EXPECT_EQ(after(both, R"g(graph(head: float32 (4, 8), y: float32 (4, 8)) {
  h = _mul_scalar(head) {scalar=3}
  g = _softmax_grad(h, y)
  s = _mul_scalar(g) {scalar=0.125}
  return s
}
)g"),
            R"g(graph(head, y) {
  s = _fused_rows(head, y) {program="f32; map(0) f32 x0 3 multiply(0,1); softmax_grad(2,1) 1; map(3) f32 x0 0.125 multiply(0,1); -> 4"}
  return s
}
)g");
}
TEST(FuseRows, GradientOfLayerNormWithSumsOverRows) {
  EXPECT_EQ(
      after(
          both,
          R"g(graph(a: float32 (4, 8), b: float32 (4, 8), x: float32 (4, 8), gamma: float32 (8,), mean: float32 (4, 1), std: float32 (4, 1)) {
  head = elemwise_add(a, b)
  g = _layer_norm_grad(head, x, gamma, mean, std)
  sum = elemwise_add(g[0], b)
  return sum, g[1], g[2]
}
)g"),
      R"g(graph(a, b, x, gamma, mean, std) {
  sum = _fused_rows(a, b, x, gamma, mean, std) {program="f32; map(0,1) f32 x0 x1 add(0,1); layer_norm_grad(6,2,3,4,5) 0; map(7,1) f32 x0 x1 add(0,1); -> 10,8,9"}
  return sum[0], sum[1], sum[2]
}
)g");
}
TEST(FuseRows, RoundsSumsOverRows) {
  EXPECT_EQ(after(both, R"g(graph(h: float16 (4, 8), x: float16 (4, 8), gamma: float16 (8,), mean: float16 (4, 1), std: float16 (4, 1)) {
  n = negative(h)
  g = _layer_norm_grad(n, x, gamma, mean, std)
  return g[0], g[2]
}
)g"),
            R"g(graph(h, x, gamma, mean, std) {
  g = _fused_rows(h, x, gamma, mean, std) {program="f32; map(0) f32 x0 negative(0) to_float16(1); map(1) f32 x0; map(2) f32 x0; map(3) f32 x0; map(4) f32 x0; layer_norm_grad(5,6,7,8,9) 0 float16; map(10) f32 x0 to_float16(0); -> 13,12"}
  return g[0], g[1]
}
)g");
}
TEST(FuseRows, SumsOverRowsAreReadAfterTheGroup) {
  EXPECT_EQ(after(both, R"g(graph(head: float32 (1, 8), x: float32 (1, 8), gamma: float32 (8,), mean: float32 (1, 1), std: float32 (1, 1)) {
  h = _mul_scalar(head) {scalar=2}
  g = _layer_norm_grad(h, x, gamma, mean, std)
  sum = broadcast_add(g[0], g[1])
  return sum
}
)g"),
            R"g(graph(head, x, gamma, mean, std) {
  g = _fused_rows(head, x, gamma, mean, std) {program="f32; map(0) f32 x0 2 multiply(0,1); layer_norm_grad(5,1,2,3,4) 0; -> 6,7"}
  sum = broadcast_add(g[0], g[1])
  return sum
}
)g");
}
TEST(FuseRows, PicksFromRowsAndPutsBack) {
  EXPECT_EQ(after(both, R"g(graph(x: float32 (4, 8), label: int32 (4,)) {
  y = log_softmax(x)
  p = pick(y, label) {keepdims=True}
  n = negative(p)
  return n
}
)g"),
            R"g(graph(x, label) {
  n = _fused_rows(x, label) {program="f32; log_softmax(0) 1; pick(2,1) 0; map(3) f32 x0 negative(0); -> 4"}
  return n
}
)g");
  EXPECT_EQ(after(both, R"g(graph(head: float32 (4, 1), label: int32 (4,), y: float32 (4, 8), like: float32 (4, 8)) {
  h = negative(head)
  p = _pick_backward(h, label, like) {keepdims=True}
  g = _log_softmax_grad(p, y)
  return g
}
)g"),
            R"g(graph(head, label, y, like) {
  g = _fused_rows(head, label, y) {program="f32; map(0) f32 x0 negative(0); pick_grad(3,1) 0; log_softmax_grad(4,2) 1; -> 5"}
  return g
}
)g");
}
TEST(FuseRows, RoundsHalves) {
  EXPECT_EQ(after(both, R"g(graph(x: float16 (4, 8)) {
  y = tanh(x)
  s = softmax(y) {temperature=2}
  return s
}
)g"),
            R"g(graph(x) {
  s = _fused_rows(x) {program="f32; map(0) f32 x0 tanh(0) to_float16(1); softmax(1) 0.5; map(2) f32 x0 to_float16(0); -> 3"}
  return s
}
)g");
}
TEST(FuseRows, ReducesHalves) {
  EXPECT_EQ(after(both, R"g(graph(x: bfloat16 (4, 8)) {
  m = mean(x) {axis="(-1,)", keepdims=True}
  d = broadcast_sub(x, m)
  return d, m
}
)g"),
            R"g(graph(x) {
  d = _fused_rows(x) {program="f32; map(0) f32 x0; sum(1) divide bfloat16; map(0,2) f32 x0 x1 subtract(0,1) to_bfloat16(2); -> 3,2"}
  return d[0], d[1]
}
)g");
}
TEST(FuseRows, GivesNumbersWithoutTheAxesOfARow) {
  EXPECT_EQ(after(both, R"g(graph(x: float32 (2, 3, 8), label: int32 (2, 3, 1)) {
  y = log_softmax(x)
  p = pick(y, label)
  q = elemwise_mul(x, y)
  m = mean(q) {axis="(2,)"}
  return m, p
}
)g"),
            R"g(graph(x, label) {
  m = _fused_rows(x, label) {flat="(0, 1)", program="f32; log_softmax(0) 1; pick(2,1) 0; map(0,2) f32 x0 x1 multiply(0,1); sum(4) divide; -> 5,3"}
  return m[0], m[1]
}
)g");
  EXPECT_EQ(after(both, R"g(graph(head: float32 (4,), label: int32 (4,), y: float32 (4, 8)) {
  p = _pick_backward(head, label, y)
  g = _softmax_grad(p, y)
  return g
}
)g"),
            R"g(graph(head, label, y) {
  g = _fused_rows(head, label, y) {program="f32; pick_grad(0,1) 0; softmax_grad(3,2) 1; -> 4"}
  return g
}
)g");
}
TEST(FuseRows, TakesInACopyOfOneOfSeveralInputs) {
  EXPECT_EQ(after(both, R"g(graph(m: float32 (4, 1), x: float32 (4, 8), y: float32 (4, 8)) {
  b = broadcast_like(m, x)
  g = _softmax_grad(b, y)
  return g
}
)g"),
            R"g(graph(m, x, y) {
  g = _fused_rows(m, x, y) {program="f32; map(0,1) f32 x0 x1 -> 0; softmax_grad(3,2) 1; -> 4"}
  return g
}
)g");
}
TEST(FuseRows, RowsOfSeveralAxes) {
  EXPECT_EQ(after(both, R"g(graph(x: float32 (4, 8, 3), b: float32 (8, 1)) {
  m = max(x) {axis="(1, 2)", keepdims=True}
  d = broadcast_sub(x, m)
  e = broadcast_mul(d, b)
  return e
}
)g"),
            R"g(graph(x, b) {
  e = _fused_rows(x, b) {axes=2, program="f32; max(0) none; map(0,2,1) f32 x0 x1 x2 subtract(0,1) multiply(3,2); -> 3"}
  return e
}
)g");
}
TEST(FuseRows, LeavesWhatDoesNotFit) {
  const char* const kTexts[] = {
      // another axis
      "graph(x: float32 (4, 8)) {\n  y = tanh(x)\n  s = softmax(y) {axis=0}\n  return s\n}\n",
      // nothing to take in
      "graph(x: float32 (4, 8)) {\n  s = softmax(x)\n  return s\n}\n",
      // a reduction that is not spread again
      "graph(x: float32 (4, 8)) {\n  y = tanh(x)\n  s = sum(y) {axis=\"(1,)\", keepdims=True}\n  return s\n}\n",
      // lengths of rows
      "graph(x: float32 (4, 8), l: int32 (4,)) {\n  y = tanh(x)\n  s = softmax(y, l) {use_length=True}\n  return s\n}\n",
      // indices that wrap; nothing of the rows' shape but the input; nothing that says what the rows are
      "graph(x: float32 (4, 8), i: int32 (4,)) {\n  y = softmax(x)\n  p = pick(y, i) {keepdims=True, mode=wrap}\n  return p\n}\n",
      "graph(x: float32 (4, 8), i: int32 (4,)) {\n  p = pick(x, i) {keepdims=True}\n  n = negative(p)\n  return n\n}\n",
      "graph(h: float32 (4, 1), i: int32 (4,), x: float32 (4, 8)) {\n  n = negative(h)\n  p = _pick_backward(n, i, x) {keepdims=True}\n"
      "  y = tanh(p)\n  return y\n}\n",
      // an index that does not broadcast, and is read as a number, too
      "graph(x: float32 (4, 4), i: float32 (4,)) {\n  y = broadcast_add(x, i)\n  p = pick(y, i) {keepdims=True}\n  return p\n}\n",
      // few long rows
      "graph(x: float32 (2, 20000)) {\n  y = tanh(x)\n  s = softmax(y)\n  return s\n}\n"};
  for (const char* text : kTexts) EXPECT_EQ(after(both, text).find("_fused_rows"), std::string::npos) << text;
}
TEST(FuseRows, LeavesWhatIsReadOnTheWay) {
  EXPECT_EQ(after(both, R"g(graph(x: float32 (4, 8), w: float32 (8, 8)) {
  y = tanh(x)
  p = dot(y, w)
  z = elemwise_add(p, y)
  s = softmax(z)
  return s
}
)g"),
            R"g(graph(x, w) {
  y = tanh(x)
  p = dot(y, w)
  s = _fused_rows(p, y) {program="f32; map(0,1) f32 x0 x1 add(0,1); softmax(2) 1; -> 3"}
  return s
}
)g");
}

}  // namespace
}  // namespace gluino::test
