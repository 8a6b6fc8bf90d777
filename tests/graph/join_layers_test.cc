// The pass that joins compiled layers: text in, text out.
#include "passes/join_layers.h"

#include "base/format.h"
#include "graph/pass_on_text.h"
#include "passes/compile_layers.h"
#include "support/support.h"

namespace gluino::test {
namespace {

Graph compiled_and_joined(Graph graph, const PassContext& context) {
  return join_layers(compile_layers(std::move(graph), context), context);
}
Graph compiled(Graph graph, const PassContext& context) { return compile_layers(std::move(graph), context); }

// 16 channels are expanded to 96, each with a window of its own, and projected; `end` is what follows.
std::string inverted_residual(int64_t extent, const std::string& end) {
  return fmt::format(
      R"g(graph(x: float32 (1, 16, {0}, {0}), w0: float32 (96, 16, 1, 1), b0: float32 (96,), w1: float32 (96, 1, 3, 3), b1: float32 (96,), w2: float32 (16, 96, 1, 1), b2: float32 (16,)) {{
  e = Convolution(x, w0, b0) {{kernel="(1, 1)", num_filter=96}}
  el = clip(e) {{a_min=0, a_max=6}}
  d = Convolution(el, w1, b1) {{kernel="(3, 3)", pad="(1, 1)", num_filter=96, num_group=96}}
  dl = relu(d)
  p = Convolution(dl, w2, b2) {{kernel="(1, 1)", num_filter=16}}
{1}
}}
)g",
      extent, end);
}

TEST(JoinLayers, AnInvertedResidualIsOneCall) {
  EXPECT_EQ(after(compiled_and_joined, inverted_residual(20, "  y = elemwise_add(p, x)\n  return y")),
            R"g(graph(x, w0, b0, w1, b1, w2, b2) {
  x_blocked = _to_blocked(x)
  e_packed = _pack_convolution_weight(w0) {in_channels=16, kernel="(1, 1)", num_filter=96}
  d_packed = _pack_convolution_weight(w1) {in_channels=96, kernel="(3, 3)", num_filter=96, num_group=96, pad="(1, 1)"}
  p_packed = _pack_convolution_weight(w2) {in_channels=96, kernel="(1, 1)", num_filter=16}
  y = _separable_convolution(x_blocked, e_packed, b0, d_packed, b1, p_packed, b2, x_blocked) {add=True, channels=96, expand=True, in_channels=16, kernel="(3, 3)", limits="(6, inf, -1)", num_filter=16, pad="(1, 1)", project=True}
  y_plain = _from_blocked(y) {channels=16}
  return y_plain
}
)g");
}
TEST(JoinLayers, WhatOthersReadIsNotPassedBetweenLayers) {
  const std::string projection = inverted_residual(20, "  return p, dl"), expansion = inverted_residual(20, "  return p, el");
  const std::string joined = after(compiled_and_joined, projection);
  EXPECT_NE(joined.find("dl = _separable_convolution("), std::string::npos) << joined;
  EXPECT_NE(joined.find("p = _compiled_convolution("), std::string::npos) << joined;
  const std::string other = after(compiled_and_joined, expansion);
  EXPECT_NE(other.find("el = _compiled_convolution("), std::string::npos) << other;
  EXPECT_NE(other.find("p = _separable_convolution(el, "), std::string::npos) << other;
}
TEST(JoinLayers, MoreWeightsThanValuesAreLeftAlone) {
  const std::string text = inverted_residual(3, "  return p");
  EXPECT_EQ(after(compiled_and_joined, text), after(compiled, text));
}

}  // namespace
}  // namespace gluino::test
