// The passes that go from operators to kernels: text in, text out.
#include "graph/pass_on_text.h"
#include "passes/compile_layers.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_elementwise.h"
#include "passes/fuse_reductions.h"
#include "support/support.h"

namespace gluino::test {
namespace {

TEST(FuseElementwise, ComputesAChainInOneSweep) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: float32 (2, 3), b: float32 (3,)) {
  y = _mul_scalar(x) {scalar=2}
  z = broadcast_add(y, b)
  r = Activation(z) {act_type=tanh}
  return r
}
)g"),
            R"g(graph(x, b) {
  r = _fused(x, b) {program="f32 x0 x1 2 multiply(0,2) add(3,1) tanh(4)"}
  return r
}
)g");
}
TEST(FuseElementwise, GivesWhatOthersReadAsFurtherResults) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: float32 (2, 3), b: float32 (3,)) {
  y = _mul_scalar(x) {scalar=2}
  z = broadcast_add(y, b)
  r = Activation(z) {act_type=tanh}
  s = softmax(z)
  return r, y, s
}
)g"),
            R"g(graph(x, b) {
  r = _fused(x, b) {program="f32 x0 x1 2 multiply(0,2) add(3,1) tanh(4) -> 5,3,4"}
  s = softmax(r[2])
  return r[0], r[1], s
}
)g");
}
TEST(FuseElementwise, LeavesWhatIsReadOnTheWayAndOtherShapes) {
  const std::string text = R"g(graph(x: float32 (2, 3), b: float32 (3,)) {
  small = tanh(b)
  y = _mul_scalar(x) {scalar=2}
  s = softmax(y)
  z = broadcast_add(y, small)
  t = elemwise_add(z, s)
  return t
}
)g";
  EXPECT_EQ(after(fuse_elementwise, text), R"g(graph(x, b) {
  small = tanh(b)
  y = _mul_scalar(x) {scalar=2}
  s = softmax(y)
  t = _fused(y, small, s) {program="f32 x0 x1 x2 add(0,1) add(3,2)"}
  return t
}
)g");
}
TEST(FuseElementwise, FurtherResultsWhereAReductionReadsOne) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: float32 (2, 3), b: float32 (3,)) {
  d = broadcast_sub(x, b)
  q = square(d)
  s = sum(q) {axis="(1,)"}
  return s, d
}
)g"),
            R"g(graph(x, b) {
  q = _fused(x, b) {program="f32 x0 x1 subtract(0,1) multiply(2,2) -> 3,2"}
  s = sum(q[0]) {axis="(1,)"}
  return s, q[1]
}
)g");
}
TEST(FuseElementwise, ComparesWholeNumbersAmongFloats) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: float32 (2, 3), k: int32 (2, 3), m: uint8 (2, 3), n: uint8 (3,)) {
  p = _greater_scalar(k) {scalar=0}
  e = broadcast_equal(m, n)
  both = broadcast_logical_and(p, e)
  z = zeros_like(x)
  y = where(both, x, z)
  return y
}
)g"),
            R"g(graph(x, k, m, n) {
  y = _fused(k, m, n, x) {program="f32 x0 x1 x2 x3 0 greater(0,4) equal(1,2) logical_and(5,6) 0 select(7,3,8)"}
  return y
}
)g");
}
TEST(FuseElementwise, LeavesComparisonsThatRoundingWouldChange) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: float32 (2, 3), k: int32 (2, 3), l: int32 (2, 3)) {
  p = _equal_scalar(k) {scalar=16777217}
  q = broadcast_equal(k, l)
  r = _greater_scalar(k) {scalar=3}
  y = where(p, x, x)
  z = where(q, y, x)
  w = where(r, z, x)
  return w, r
}
)g"),
            R"g(graph(x, k, l) {
  p = _equal_scalar(k) {scalar=16777217}
  q = broadcast_equal(k, l)
  r = _greater_scalar(k) {scalar=3}
  w = _fused(p, x, q, r) {program="f32 x0 x1 x2 x3 select(0,1,1) select(2,4,1) select(3,5,1)"}
  return w, r
}
)g");
}
TEST(FuseElementwise, LeavesConditionsThatPickRows) {
  const std::string text =
      "graph(c: float32 (3,), x: float32 (3, 3)) {\n  y = tanh(x)\n  z = where(c, x, y)\n  e = exp(z)\n  return e\n}\n";
  EXPECT_EQ(after(fuse_elementwise, text).find("_fused"), std::string::npos);
}
TEST(FuseElementwise, RoundsHalvesAfterEveryOperator) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: float16 (2, 3), w: bfloat16 (2, 3)) {
  y = _mul_scalar(x) {scalar=2}
  z = tanh(y)
  u = exp(w)
  v = abs(u)
  return z, v
}
)g"),
            R"g(graph(x, w) {
  z = _fused(x) {program="f32 x0 2 multiply(0,1) to_float16(2) tanh(3) to_float16(4)"}
  v = _fused(w) {program="f32 x0 exp(0) to_bfloat16(1) abs(2) to_bfloat16(3)"}
  return z, v
}
)g");
}
TEST(FuseElementwise, TakesInCasts) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: float16 (2, 3), k: int32 (2, 3), b: float32 (3,)) {
  f = Cast(k) {dtype=float32}
  w = Cast(x) {dtype=float32}
  y = broadcast_add(w, b)
  z = elemwise_mul(y, f)
  h = Cast(z) {dtype=float16}
  e = exp(h)
  g = Cast(h) {dtype=float32}
  return e, g
}
)g"),
            R"g(graph(x, k, b) {
  e = _fused(k, x, b) {program="f32 x0 x1 x2 add(1,2) multiply(3,0) to_float16(4) exp(5) to_float16(6) -> 7,5"}
  g = Cast(e[1]) {dtype=float32}
  return e[0], g
}
)g");
}
TEST(FuseElementwise, TakesInWhatBroadcasts) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: float32 (2, 3), m: float32 (2, 1), l: float32 (3, 5)) {
  a = broadcast_like(m, x)
  o = ones_like(x)
  y = elemwise_mul(x, a)
  z = elemwise_add(y, o)
  b = broadcast_like(m, l) {lhs_axes="(1,)", rhs_axes="(0,)"}
  e = elemwise_sub(z, b)
  return e
}
)g"),
            R"g(graph(x, m, l) {
  e = _fused(m, x) {program="f32 x0 x1 1 multiply(1,0) add(3,2) subtract(4,0)"}
  return e
}
)g");
}
TEST(FuseElementwise, LeavesWhatAloneHasTheShape) {
  const std::string text = "graph(m: float32 (2, 1)) {\n  a = broadcast_to(m) {shape=\"(2, 3)\"}\n  e = exp(a)\n  return e\n}\n";
  EXPECT_EQ(after(fuse_elementwise, text).find("_fused"), std::string::npos);
}
TEST(FuseElementwise, ComputesInWholeNumbers) {
  EXPECT_EQ(after(fuse_elementwise, R"g(graph(x: int32 (2, 3), n: int8 (2, 3)) {
  y = _mul_scalar(x) {scalar=2}
  z = abs(y)
  m = abs(n)
  o = negative(m)
  return z, o
}
)g"),
            R"g(graph(x, n) {
  z = _fused(x) {program="i32 x0 2 multiply(0,1) abs(2)"}
  m = abs(n)
  o = negative(m)
  return z, o
}
)g");
}
TEST(FuseElementwise, DoesNotMixForwardAndBackward) {
  const std::string text = R"g(graph(x: float32 (2, 3); head0: float32 (2, 3)) {
  z = _mul_scalar(head0) {scalar=2}
  g = elemwise_mul(z, x)
  return g
}
)g";
  EXPECT_NE(after(fuse_elementwise, text).find("_fused(head0, x)"), std::string::npos);
}

TEST(FuseReductions, SumsWhatIsNeverWrittenDown) {
  EXPECT_EQ(after(fuse_reductions, R"g(graph(x: float32 (2, 3, 4), y: float32 (4,)) {
  d = broadcast_sub(x, y)
  m = mean(d) {axis="(-1,)"}
  s = square(x)
  t = sum(s) {axis="(0, 1)", keepdims=True}
  return m, t
}
)g"),
            R"g(graph(x, y) {
  m = _fused_reduce(x, y) {axis="(2,)", finish=divide, program="f32 x0 x1 subtract(0,1)", shape="(2, 3)"}
  t = _fused_reduce(x) {axis="(0, 1)", program="f32 x0 multiply(0,0)", shape="(1, 1, 4)"}
  return m, t
}
)g");
}
TEST(FuseReductions, SumsHalvesAndWholeNumbers) {
  EXPECT_EQ(after(fuse_reductions, R"g(graph(x: float16 (2, 3), k: int32 (2, 3)) {
  d = tanh(x)
  m = mean(d) {axis="(-1,)"}
  e = abs(k)
  s = sum(e) {axis="(-1,)"}
  return m, s
}
)g"),
            R"g(graph(x, k) {
  m = _fused_reduce(x) {axis="(1,)", finish=divide, program="f32 x0 tanh(0) to_float16(1)", shape="(2,)"}
  s = _fused_reduce(k) {axis="(1,)", program="i32 x0 abs(0)", shape="(2,)"}
  return m, s
}
)g");
}
TEST(FuseReductions, TakesAnyResultOfAFusedNode) {
  EXPECT_EQ(after(fuse_reductions, R"g(graph(x: float32 (2, 3)) {
  f = _fused(x) {program="f32 x0 tanh(0) exp(1) 2 multiply(2,3) -> 4,1,2"}
  m = max(f[2]) {axis="(0,)"}
  return m, f[1], f[0]
}
)g"),
            R"g(graph(x) {
  m = _fused_reduce(x) {axis="(0,)", how=max, program="f32 x0 tanh(0) exp(1) 2 multiply(2,3) -> 2,4,1", shape="(3,)"}
  return m[0], m[2], m[1]
}
)g");
}
TEST(FuseReductions, LeavesWhatOthersReadAndOtherTypes) {
  const std::string text = R"g(graph(x: float32 (2, 3), k: int8 (2, 3)) {
  d = tanh(x)
  m = mean(d) {axis="(-1,)"}
  e = abs(k)
  s = sum(e) {axis="(-1,)"}
  f = exp(x)
  g = _sum_like(f, x)
  return m, d, s, g
}
)g";
  EXPECT_EQ(after(fuse_reductions, text).find("_fused_reduce"), std::string::npos);
}

TEST(FuseAttention, TakesProductsAndSoftmax) {
  EXPECT_EQ(after(fuse_attention, R"g(graph(q: float32 (2, 3, 4), k: float32 (2, 5, 4), v: float32 (2, 5, 6)) {
  s = batch_dot(q, k) {transpose_b=True}
  w = softmax(s) {temperature=2}
  y = batch_dot(w, v)
  return y
}
)g"),
            R"g(graph(q, k, v) {
  y = _fused_attention(q, k, v) {score_scale=0.5}
  return y
}
)g");
}
TEST(FuseAttention, TakesScaleMaskAndHeads) {
  EXPECT_EQ(after(fuse_attention, R"g(graph(x: float32 (2, 3, 4), z: float32 (2, 5, 4), mask: float32 (2, 1, 3, 5)) {
  q0 = Reshape(x) {shape="(0, 0, -4, 2, -1)"}
  q1 = transpose(q0) {axes="(0, 2, 1, 3)"}
  q2 = Reshape(q1) {shape="(-3, 0, 0)"}
  k0 = Reshape(z) {shape="(0, 0, -4, 2, -1)"}
  k1 = SwapAxis(k0) {dim1=1, dim2=2}
  k2 = Reshape(k1) {shape="(-3, 0, 0)"}
  scaled = _mul_scalar(q2) {scalar=0.5}
  s = batch_dot(scaled, k2) {transpose_b=True}
  s4 = Reshape(s) {shape="(-4, -1, 2, 0, 0)"}
  masked = broadcast_add(mask, s4)
  s3 = Reshape(masked) {shape="(-3, 0, 0)"}
  w = softmax(s3)
  y = batch_dot(w, k2)
  y4 = Reshape(y) {shape="(-4, -1, 2, 0, 0)"}
  joined = transpose(y4) {axes="(0, 2, 1, 3)"}
  r = Reshape(joined) {shape="(0, 0, -3)"}
  return r
}
)g"),
            R"g(graph(x, z, mask) {
  r = _fused_attention(x, z, z, mask) {heads=2, program="f32 x1 x0 add(0,1)", query_scale=0.5, scores="(2, 2, 3, 5)"}
  return r
}
)g");
}
TEST(FuseAttention, LeavesWhatOthersReadAndOtherProducts) {
  for (const char* text : {
           R"g(graph(q: float32 (2, 3, 4), k: float32 (2, 5, 4), v: float32 (2, 5, 6)) {
  s = batch_dot(q, k) {transpose_b=True}
  w = softmax(s)
  y = batch_dot(w, v)
  return y, w
}
)g",
           R"g(graph(q: float32 (2, 3, 4), k: float32 (2, 5, 4), v: float32 (2, 5, 6)) {
  s = batch_dot(q, k) {transpose_b=True}
  w = softmax(s) {axis=1}
  y = batch_dot(w, v)
  return y
}
)g",
           R"g(graph(q: float32 (2, 3, 4), k: float32 (2, 4, 5), v: float32 (2, 5, 6)) {
  s = batch_dot(q, k)
  w = softmax(s)
  y = batch_dot(w, v)
  return y
}
)g",
           R"g(graph(q: float32 (2, 3, 4), k: float32 (2, 5, 4), v: float32 (2, 5, 6), g: float32 (2, 5, 4), m: float32 (2, 5, 4)) {
  s = batch_dot(q, k) {transpose_b=True}
  stepped = sgd_mom_update(m, g, k) {lr=0.1}
  w = softmax(s)
  y = batch_dot(w, v)
  return y, stepped
}
)g",
           R"g(graph(q: float64 (2, 3, 4), k: float64 (2, 5, 4), v: float64 (2, 5, 6)) {
  s = batch_dot(q, k) {transpose_b=True}
  w = softmax(s)
  y = batch_dot(w, v)
  return y
}
)g"})
    EXPECT_EQ(after(fuse_attention, text).find("_fused_attention"), std::string::npos) << text;
}

TEST(CompileLayers, RecurrentLayersReadRearrangedParameters) {
  EXPECT_EQ(after(compile_layers, R"g(graph(x: float32 (3, 2, 2), w: float32 (48,), h: float32 (1, 2, 2), c: float32 (1, 2, 2)) {
  r = RNN(x, w, h, c) {num_layers=1, state_outputs=True, state_size=2}
  return r, r[2]
}
)g"),
            R"g(graph(x, w, h, c) {
  r_packed = _pack_rnn_parameters(w) {features=2, num_layers=1, state_size=2}
  r = _compiled_rnn(x, r_packed, h, c) {features=2, num_layers=1, state_size=2}
  return r[0], r[2]
}
)g");
  const std::string reserve_is_read = R"g(graph(x: float32 (3, 2, 2), w: float32 (48,), h: float32 (1, 2, 2), c: float32 (1, 2, 2)) {
  r = RNN(x, w, h, c) {num_layers=1, state_outputs=True, state_size=2}
  return r[3]
}
)g";
  EXPECT_EQ(after(compile_layers, reserve_is_read).find("_compiled_rnn"), std::string::npos);
}

TEST(CompileLayers, TakesOverWhatFollowsADenseLayer) {
  EXPECT_EQ(after(compile_layers, R"g(graph(x: float32 (4, 6), w: float32 (8, 6), b: float32 (8,)) {
  d = FullyConnected(x, w, b) {num_hidden=8}
  r = Activation(d) {act_type=relu}
  return r
}
)g"),
            R"g(graph(x, w, b) {
  d_packed = _pack_dense_weight(w) {features=6, num_hidden=8}
  r = _compiled_dense(x, d_packed, b) {features=6, num_hidden=8, relu=True}
  return r
}
)g");
}
TEST(CompileLayers, KeepsActivationsBlockedBetweenConvolutions) {
  EXPECT_EQ(after(compile_layers, R"g(graph(x: float32 (1, 3, 8, 8), v: float32 (8, 3, 3, 3), w: float32 (8, 8, 3, 3)) {
  first = Convolution(x, v) {kernel="(3, 3)", no_bias=True, num_filter=8, pad="(1, 1)"}
  r = Activation(first) {act_type=relu}
  second = Convolution(r, w) {kernel="(3, 3)", no_bias=True, num_filter=8, pad="(1, 1)"}
  sum = elemwise_add(second, r)
  out = Activation(sum) {act_type=relu}
  pooled = Pooling(out) {kernel="(2, 2)", stride="(2, 2)"}
  return pooled
}
)g"),
            R"g(graph(x, v, w) {
  first_packed = _pack_convolution_weight(v) {algorithm=narrow, in_channels=3, kernel="(3, 3)", no_bias=True, num_filter=8, pad="(1, 1)"}
  r = _compiled_convolution(x, first_packed) {algorithm=narrow, in_channels=3, kernel="(3, 3)", no_bias=True, num_filter=8, pad="(1, 1)", relu=True}
  second_packed = _pack_convolution_weight(w) {algorithm=narrow, in_channels=8, kernel="(3, 3)", no_bias=True, num_filter=8, pad="(1, 1)"}
  out = _compiled_convolution(r, second_packed, r) {add=True, algorithm=narrow, in_channels=8, kernel="(3, 3)", no_bias=True, num_filter=8, pad="(1, 1)", relu=True}
  pooled = _blocked_pooling(out) {kernel="(2, 2)", stride="(2, 2)"}
  pooled_plain = _from_blocked(pooled) {channels=8}
  return pooled_plain
}
)g");
}
TEST(CompileLayers, TakesRowsForImagesOfHeightOne) {
  EXPECT_EQ(after(compile_layers, R"g(graph(x: float32 (1, 3, 20), v: float32 (8, 3, 5), w: float32 (12, 8, 3)) {
  first = Convolution(x, v) {kernel="(5,)", no_bias=True, num_filter=8, pad="(2,)", stride="(2,)"}
  r = Activation(first) {act_type=relu}
  pooled = Pooling(r) {kernel="(2,)", stride="(2,)"}
  second = Convolution(pooled, w) {dilate="(2,)", kernel="(3,)", no_bias=True, num_filter=12}
  out = Activation(second) {act_type=tanh}
  return out
}
)g"),
            R"g(graph(x, v, w) {
  first_packed = _pack_convolution_weight(v) {in_channels=3, kernel="(1, 5)", no_bias=True, num_filter=8, pad="(0, 2)", stride="(1, 2)"}
  r = _compiled_convolution(x, first_packed) {in_channels=3, kernel="(1, 5)", no_bias=True, num_filter=8, pad="(0, 2)", relu=True, stride="(1, 2)"}
  pooled = _blocked_pooling(r) {kernel="(1, 2)", stride="(1, 2)"}
  second_packed = _pack_convolution_weight(w) {algorithm=narrow, dilate="(1, 2)", in_channels=8, kernel="(1, 3)", no_bias=True, num_filter=12}
  second = _compiled_convolution(pooled, second_packed) {algorithm=narrow, dilate="(1, 2)", in_channels=8, kernel="(1, 3)", no_bias=True, num_filter=12}
  out = Activation(second) {act_type=tanh}
  out_plain = _from_blocked(out) {channels=12, rows=True}
  return out_plain
}
)g");
}
TEST(CompileLayers, ChoosesAnAlgorithm) {
  const auto algorithm_of = [](const std::string& data, int channels, const std::string& more) {
    const std::string n = std::to_string(channels);
    const std::string text =
        after(compile_layers, "graph(x: float32 " + data + ", w: float32 (" + n + ", " + n +
                                  ", 3, 3)) {\n  c = Convolution(x, w) {kernel=\"(3, 3)\", no_bias=True, num_filter=" + n +
                                  ", pad=\"(1, 1)\"" + more + "}\n  return c\n}\n");
    const size_t at = text.find("algorithm=");
    return at == std::string::npos ? "direct" : text.substr(at + 10, text.find(',', at) - at - 10);
  };
  EXPECT_EQ(algorithm_of("(1, 64, 56, 56)", 64, ""), "winograd4");
  EXPECT_EQ(algorithm_of("(1, 512, 7, 7)", 512, ""), "winograd2") << "larger tiles have larger weights";
  EXPECT_EQ(algorithm_of("(1, 64, 56, 56)", 64, ", stride=\"(2, 2)\""), "direct");
  EXPECT_EQ(algorithm_of("(4, 6, 12, 12)", 6, ""), "narrow");
}
TEST(CompileLayers, TakesOverAReluWithALimit) {
  const std::string text = after(compile_layers, R"g(graph(x: float32 (1, 8, 8, 8), w: float32 (16, 8, 1, 1)) {
  c = Convolution(x, w) {kernel="(1, 1)", no_bias=True, num_filter=16}
  r = clip(c) {a_max=6, a_min=0}
  return r
}
)g");
  EXPECT_NE(text.find("limit=6"), std::string::npos) << text;
  EXPECT_EQ(text.find("clip"), std::string::npos) << text;
}
TEST(CompileLayers, LeavesTrainingAlone) {
  const std::string text =
      "graph(x: float32 (4, 6), w: float32 (8, 6)) {\n  d = FullyConnected(x, w) {no_bias=True, num_hidden=8}\n  return d\n}\n";
  EXPECT_EQ(after(compile_layers, text, true).find("_compiled"), std::string::npos);
  EXPECT_NE(after(compile_layers, text, false).find("_compiled"), std::string::npos);
}

}  // namespace
}  // namespace gluino::test
