// fuse_rows: text in, text out.
#include "passes/fuse_rows.h"

#include "graph/pass_on_text.h"
#include "passes/fuse_elementwise.h"
#include "support/support.h"

namespace gluino::test {
namespace {

Graph both(const Graph& graph, const PassContext& context) { return fuse_rows(fuse_elementwise(graph, context), context); }

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
  y = _fused_rows(x) {program="f32; sum(0) divide; map(0,1) f32 x0 x1 subtract(0,1); map(2) f32 x0 multiply(0,0); sum(3) divide; map(4) f32 x0 sqrt(0); map(2,5) f32 x0 x1 divide(0,1); -> 6"}
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
