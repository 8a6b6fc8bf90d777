// Losses as training programs: what is elementwise, a reduction or a function of rows is computed in a few sweeps.
#include <regex>

#include "base/format.h"
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

// The graph of forward and backward after all passes; names, which count all nodes ever made, are made short.
template <class L>
std::string training_plan(L loss, const Tensors& given) {
  Tensors in = given;
  in[0] = in[0].copy();
  in[0].attach_grad();
  loss.hybridize();
  Tensor out;
  {
    const auto record = autograd::record();
    out = loss(in).at(0);
  }
  out.backward();
  const std::string text = loss.explain(), title = "after the passes:\n";
  const size_t begin = text.find(title) + title.size();
  std::string plan = text.substr(begin, text.find("}\n", begin) + 2 - begin);
  const std::regex definition("\\n  ([a-z_0-9]+) = ");
  std::smatch found;
  for (int number = 0; std::regex_search(plan, found, definition); ++number)
    plan = std::regex_replace(plan, std::regex(fmt::format("\\b{}\\b", found[1].str())), fmt::format("V{}", number));
  return plan;
}

const Shape kShape{8, 100};
Tensor prediction() { return random_tensor(kShape, DType::float32, 1, -2, 2); }
Tensor target() { return random_tensor(kShape, DType::float32, 2, 0.1, 0.9); }
Tensor labels() { return random_tensor({8}, DType::float32, 3, 0, 100).astype(DType::int32); }

TEST(Losses, SoftmaxCrossEntropy) {
  EXPECT_EQ(training_plan(loss::SoftmaxCrossEntropyLoss(), {prediction(), labels()}),
            R"g(graph(data0: float32 (8, 100), data1: int32 (8,); head0: float32 (8,)) {
  V0 = _contrib_check_index(data1, data0): int32 (8,)
  V1 = _fused_rows(data0, V0) {program="f32; log_softmax(0) 1; pick(2,1) 0; map(3) f32 x0 negative(0); -> 4,3,2"}: float32 (8, 1)
  V2 = mean(V1[0]) {axis="(0,)", exclude=True}: float32 (8,)
  V3 = Reshape(head0) {shape="(8, 1)"}: float32 (8, 1)
  V4 = _divide_by_reduced(V3, V1[1]): float32 (8, 1)
  V5 = _fused_rows(V4, V0, V1[2]) {program="f32; map(0) f32 x0 negative(0); pick_grad(3,1) 0; log_softmax_grad(4,2) 1; -> 5"}: float32 (8, 100)
  return V2, V5
}
)g");
  EXPECT_EQ(training_plan(loss::SoftmaxCrossEntropyLoss({.sparse_label = false}), {prediction(), target()}),
            R"g(graph(data0: float32 (8, 100), data1: float32 (8, 100); head0: float32 (8,)) {
  V0 = _fused_rows(data0, data1) {program="f32; log_softmax(0) 1; map(2,1) f32 x0 x1 multiply(0,1); sum(3) none; map(4) f32 x0 negative(0); -> 5,4,2"}: float32 (8, 1)
  V1 = mean(V0[0]) {axis="(0,)", exclude=True}: float32 (8,)
  V2 = Reshape(head0) {shape="(8, 1)"}: float32 (8, 1)
  V3 = _divide_by_reduced(V2, V0[1]): float32 (8, 1)
  V4 = _fused_rows(V3, data1, V0[2]) {program="f32; map(0) f32 x0 negative(0); map(3,1) f32 x0 x1 multiply(0,1); log_softmax_grad(4,2) 1; -> 5"}: float32 (8, 100)
  return V1, V4
}
)g");
}
TEST(Losses, SquaredDistance) {
  EXPECT_EQ(training_plan(loss::L2Loss(), {prediction(), target()}),
            R"g(graph(data0: float32 (8, 100), data1: float32 (8, 100); head0: float32 (8,)) {
  V0 = _fused_reduce(data1, data0) {axis="(1,)", finish=divide, program="f32 x0 x1 subtract(0,1) multiply(2,2) 0.5 multiply(3,4) -> 5,2", shape="(8,)"}: float32 (8,)
  V1 = Reshape(head0) {shape="(8, 1)"}: float32 (8, 1)
  V2 = _divide_by_reduced(V1, data1): float32 (8, 1)
  V3 = _fused(V2, V0[1]) {program="f32 x0 x1 0.5 multiply(0,2) 2 multiply(3,4) multiply(5,1) negative(6)"}: float32 (8, 100)
  return V0[0], V3
}
)g");
}
TEST(Losses, LogisticCrossEntropy) {
  EXPECT_EQ(training_plan(loss::SigmoidBinaryCrossEntropyLoss(), {prediction(), target()}),
            R"g(graph(data0: float32 (8, 100), data1: float32 (8, 100); head0: float32 (8,)) {
  V0 = _fused_reduce(data0, data1) {axis="(1,)", finish=divide, program="f32 x0 x1 abs(0) negative(2) abs(3) negative(4) exp(5) log1p(6) 0 maximum(3,8) add(9,7) multiply(0,1) 0 maximum(0,12) subtract(13,11) add(14,10) -> 15,10,13", shape="(8,)"}: float32 (8,)
  V1 = Reshape(head0) {shape="(8, 1)"}: float32 (8, 1)
  V2 = _divide_by_reduced(V1, data0): float32 (8, 1)
  V3 = _fused(V2, V0[2], data1, V0[1], data0) {program="f32 x0 x1 x2 x3 x4 negative(0) 0 greater(1,6) multiply(0,7) multiply(5,2) add(8,9) negative(3) expm1(11) negative(12) multiply(0,13) negative(14) sign(4) multiply(15,16) add(10,17)"}: float32 (8, 100)
  return V0[0], V3
}
)g");
}
TEST(Losses, KullbackLeibler) {
  EXPECT_EQ(training_plan(loss::KLDivLoss({.from_logits = false}), {prediction(), target()}),
            R"g(graph(data0: float32 (8, 100), data1: float32 (8, 100); head0: float32 (8,)) {
  V0 = _fused_rows(data0, data1) {flat="(0,)", program="f32; log_softmax(0) 1; map(1,2) f32 x0 x1 1e-12 add(0,2) log(3) subtract(4,1) multiply(0,5); sum(3) divide; -> 4,2"}: float32 (8,)
  V1 = Reshape(head0) {shape="(8, 1)"}: float32 (8, 1)
  V2 = _divide_by_reduced(V1, data1): float32 (8, 1)
  V3 = _fused_rows(V2, data1, V0[1]) {program="f32; map(0,1) f32 x0 x1 multiply(0,1) negative(2); log_softmax_grad(3,2) 1; -> 4"}: float32 (8, 100)
  return V0[0], V3
}
)g");
}
TEST(Losses, Huber) {
  EXPECT_EQ(training_plan(loss::HuberLoss(), {prediction(), target()}),
            R"g(graph(data0: float32 (8, 100), data1: float32 (8, 100); head0: float32 (8,)) {
  V0 = _fused_reduce(data1, data0) {axis="(1,)", finish=divide, program="f32 x0 x1 subtract(0,1) abs(2) 1 greater(3,4) to_bool(5) 0.5 subtract(3,7) multiply(3,3) 0.5 multiply(9,10) select(6,8,11) -> 12,2,3,6", shape="(8,)"}: float32 (8,)
  V1 = Reshape(head0) {shape="(8, 1)"}: float32 (8, 1)
  V2 = _divide_by_reduced(V1, data1): float32 (8, 1)
  V3 = _fused(V2, V0[3], V0[2], V0[1]) {program="f32 x0 x1 x2 x3 0 select(1,0,4) select(1,4,0) 0.5 multiply(6,7) 2 multiply(8,9) multiply(10,2) add(11,5) sign(3) multiply(12,13) negative(14)"}: float32 (8, 100)
  return V0[0], V3
}
)g");
}

}  // namespace
}  // namespace gluino::test
