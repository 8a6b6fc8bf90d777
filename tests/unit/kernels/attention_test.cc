// Attention in one operator against its parts: the same bits.
#include "gluino/gluino.h"
#include "gluino/op.h"
#include "support/support.h"

namespace gluino::test {
namespace {

Tensor values(Shape shape) { return random::uniform(-2, 2, std::move(shape)); }

TEST(Attention, HasTheBitsOfItsParts) {
  for (const auto& [queries, keys, depth, value_depth] : std::vector<std::array<int64_t, 4>>{
           {1, 1, 1, 1}, {3, 5, 4, 6}, {7, 16, 8, 16}, {50, 49, 17, 33}, {128, 128, 64, 64}, {5, 700, 300, 20}}) {
    const Tensor q = values({3, queries, depth}), k = values({3, keys, depth}), v = values({3, keys, value_depth});
    const Tensor scores = call("batch_dot", {q * 0.3, k}, {{"transpose_b", true}});
    const Tensor plain = call("batch_dot", {call("softmax", {scores}, {{"temperature", 1.5}}), v});
    EXPECT_PRED2(same_bits, call("_fused_attention", {q, k, v}, {{"query_scale", 0.3}, {"score_scale", 1 / 1.5}}), plain);
  }
}
TEST(Attention, MasksBroadcastToTheScores) {
  const int64_t batch = 2, heads = 3, queries = 7, keys = 51, depth = 5;
  const Tensor q = values({batch, queries, heads * depth}), k = values({batch, keys, heads * depth}),
               v = values({batch, keys, heads * depth});
  const auto split = [&](const Tensor& x) { return x.reshape({0, 0, -4, heads, -1}).transpose({0, 2, 1, 3}).reshape({-3, 0, 0}); };
  const Tensor scores = call("batch_dot", {split(q), split(k)}, {{"transpose_b", true}}).reshape({batch, heads, queries, keys});
  for (const Shape& mask_shape : {Shape{batch, heads, queries, keys}, Shape{batch, 1, queries, keys}, Shape{batch, 1, 1, keys},
                                  Shape{queries, keys}, Shape{heads, 1, 1}, Shape{keys}, Shape{queries, 1}, Shape{1}}) {
    const Tensor mask = values(mask_shape);
    const Tensor masked = call("broadcast_mul", {scores, mask}).reshape({-3, 0, 0});
    const Tensor plain = call("batch_dot", {call("softmax", {masked}), split(v)})
                             .reshape({batch, heads, queries, depth})
                             .transpose({0, 2, 1, 3})
                             .reshape({0, 0, -3});
    const Tensor fused =
        call("_fused_attention", {q, k, v, mask},
             {{"heads", heads}, {"program", std::string("f32 x0 x1 multiply(0,1)")}, {"scores", Shape{batch, heads, queries, keys}}});
    EXPECT_PRED2(same_bits, fused, plain);
  }
}
TEST(Attention, OfNoKeysIsZero) {
  const Tensor y = call("_fused_attention", {values({2, 3, 4}), values({2, 0, 4}), values({2, 0, 5})});
  EXPECT_PRED2(same_bits, y, zeros({2, 3, 5}));
}
TEST(Attention, NamesOperandsThatDoNotFit) {
  const Tensor q = values({2, 3, 4}), k = values({2, 5, 4}), v = values({2, 5, 6});
  EXPECT_THROW(call("_fused_attention", {q, k}), ShapeError);
  EXPECT_THROW(call("_fused_attention", {q, v, k}), ShapeError);
  EXPECT_THROW(call("_fused_attention", {q, k, v}, {{"heads", int64_t{3}}}), ShapeError);
}

}  // namespace
}  // namespace gluino::test
