// What exporters leave in their files, recognised by its structure.
#include "graph/pass_on_text.h"
#include "passes/absorb_transposes.h"
#include "passes/compile_layers.h"
#include "passes/fuse_attention.h"
#include "passes/number_shapes.h"
#include "support/support.h"

namespace gluino::test {
namespace {

TEST(NumberShapes, ViewsLeaveWhatOnlyLentItsShape) {
  EXPECT_EQ(after(number_shapes, R"g(graph(x: float32 (6, 4), y: float32 (2, 3, 5), e: float32 (0, 4), f: float32 (2, 0, 4)) {
  r = reshape_like(x, y) {lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2}
  s = reshape_like(e, f)
  return r, s
}
)g"),
            R"g(graph(x, y, e, f) {
  r = Reshape(x) {shape="(2, 3, 4)"}
  s = reshape_like(e, f)
  return r, s
}
)g");
}

TEST(AbsorbTransposes, ProductsReadTheFactorAsItLies) {
  EXPECT_EQ(after(absorb_transposes, R"g(graph(q: float32 (2, 3, 4), k: float32 (2, 5, 4)) {
  t = transpose(k) {axes="(0, 2, 1)"}
  s = batch_dot(q, t)
  return s
}
)g"),
            R"g(graph(q, k) {
  s = batch_dot(q, k) {transpose_b=True}
  return s
}
)g");
}
TEST(AbsorbTransposes, HeadsStayInFront) {
  EXPECT_EQ(after(absorb_transposes, R"g(graph(q: float32 (6, 3, 4), k: float32 (2, 5, 3, 4)) {
  t = transpose(k) {axes="(0, 2, 3, 1)"}
  m = Reshape(t) {shape="(-3, 0, 0)"}
  s = batch_dot(q, m)
  return s
}
)g"),
            R"g(graph(q, k) {
  t_rows = transpose(k) {axes="(0, 2, 1, 3)"}
  t_matrices = Reshape(t_rows) {shape="(6, 5, 4)"}
  s = batch_dot(q, t_matrices) {transpose_b=True}
  return s
}
)g");
}
TEST(AbsorbTransposes, LeavesOtherOrdersAndStatesThatChange) {
  for (const char* text : {
           R"g(graph(q: float32 (2, 3, 4), k: float32 (4, 2, 5)) {
  t = transpose(k) {axes="(1, 0, 2)"}
  s = batch_dot(q, t)
  return s
}
)g",
           R"g(graph(q: float32 (2, 3, 4), k: float32 (2, 5, 4), g: float32 (2, 5, 4), w: float32 (2, 5, 4)) {
  t = transpose(k) {axes="(0, 2, 1)"}
  stepped = sgd_mom_update(w, g, k) {lr=0.1}
  s = batch_dot(q, t)
  return s, stepped
}
)g"})
    EXPECT_EQ(after(absorb_transposes, text).find("transpose_b"), std::string::npos) << text;
}

TEST(FuseAttention, TakesHeadsBehindTime) {
  EXPECT_EQ(after(fuse_attention, R"g(graph(x: float32 (3, 6, 4), z: float32 (5, 6, 4)) {
  q = transpose(x) {axes="(1, 0, 2)"}
  k = transpose(z) {axes="(1, 0, 2)"}
  scaled = _div_scalar(q) {scalar=2}
  s = batch_dot(scaled, k) {transpose_b=True}
  w = softmax(s)
  y = batch_dot(w, k)
  r = transpose(y) {axes="(1, 0, 2)"}
  return r
}
)g"),
            R"g(graph(x, z) {
  x_view = Reshape(x) {shape="(1, 3, 24)"}
  z_view = Reshape(z) {shape="(1, 5, 24)"}
  z_view#2 = Reshape(z) {shape="(1, 5, 24)"}
  r_attention = _fused_attention(x_view, z_view, z_view#2) {heads=6, query_scale=0.5}
  r_attention_view = Reshape(r_attention) {shape="(3, 6, 4)"}
  return r_attention_view
}
)g");
}

TEST(CompileLayers, WhatIsBroadcastOverBlocksComesAlong) {
  const std::string text = after(
      compile_layers, R"g(graph(x: float32 (2, 8, 4, 4), w: float32 (12, 8, 1, 1), slope: float32 (12, 1, 1), gate: float32 (2, 12, 1, 1)) {
  y = Convolution(x, w) {kernel="(1, 1)", no_bias=True, num_filter=12}
  m = broadcast_mul(y, slope)
  g = broadcast_mul(m, gate)
  z = broadcast_add(g, gate)
  return z
}
)g");
  EXPECT_NE(text.find("m = broadcast_mul(y, slope_blocked)"), std::string::npos) << text;
  EXPECT_NE(text.find("g = broadcast_mul(m, gate_blocked)"), std::string::npos) << text;
  EXPECT_NE(text.find("z = broadcast_add(g, gate_blocked)"), std::string::npos) << text;
  EXPECT_NE(text.find("z_plain = _from_blocked(z) {channels=12}"), std::string::npos) << text;
}
// One number for all channels would be added to the padding of the last block too.
TEST(CompileLayers, PaddingOfABlockStaysZero) {
  const std::string text = after(compile_layers, R"g(graph(x: float32 (2, 8, 4, 4), w: float32 (12, 8, 1, 1), map: float32 (2, 1, 4, 4)) {
  y = Convolution(x, w) {kernel="(1, 1)", no_bias=True, num_filter=12}
  m = broadcast_add(y, map)
  return m
}
)g");
  EXPECT_NE(text.find("m = broadcast_add(y_plain, map)"), std::string::npos) << text;
}
TEST(CompileLayers, OneMapForAllChannelsOfFullBlocks) {
  const std::string text = after(compile_layers, R"g(graph(x: float32 (2, 8, 4, 4), w: float32 (16, 8, 1, 1), map: float32 (2, 1, 4, 4)) {
  y = Convolution(x, w) {kernel="(1, 1)", no_bias=True, num_filter=16}
  m = broadcast_add(y, map)
  return m
}
)g");
  EXPECT_NE(text.find("map_aligned = Reshape(map) {shape=\"(2, 1, 4, 4, 1)\"}"), std::string::npos) << text;
  EXPECT_NE(text.find("m = broadcast_add(y, map_aligned)"), std::string::npos) << text;
}
TEST(CompileLayers, BlocksAreJoinedAndChosenWhole) {
  const std::string text =
      after(compile_layers, R"g(graph(x: float32 (2, 8, 4, 4), w: float32 (16, 8, 1, 1), v: float32 (4, 8, 1, 1), i: int64 (8,)) {
  a = Convolution(x, w) {kernel="(1, 1)", no_bias=True, num_filter=16}
  b = Convolution(x, v) {kernel="(1, 1)", no_bias=True, num_filter=4}
  c = Concat(a, b) {dim=1, num_args=2}
  t = take(c, i) {axis=3}
  return t
}
)g");
  EXPECT_NE(text.find("c = Concat(a, b)"), std::string::npos) << text;
  EXPECT_NE(text.find("t = take(c, i)"), std::string::npos) << text;
  EXPECT_NE(text.find("t_plain = _from_blocked(t) {channels=20}"), std::string::npos) << text;
}
TEST(CompileLayers, BlocksThatAreNotFullAreJoinedInThePlainLayout) {
  const std::string text = after(compile_layers, R"g(graph(x: float32 (2, 8, 4, 4), w: float32 (16, 8, 1, 1), v: float32 (4, 8, 1, 1)) {
  a = Convolution(x, w) {kernel="(1, 1)", no_bias=True, num_filter=16}
  b = Convolution(x, v) {kernel="(1, 1)", no_bias=True, num_filter=4}
  c = Concat(b, a) {dim=1, num_args=2}
  return c
}
)g");
  EXPECT_NE(text.find("c = Concat(b_plain, a_plain)"), std::string::npos) << text;
}

}  // namespace
}  // namespace gluino::test
