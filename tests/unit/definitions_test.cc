// Rules of operators' definitions: optional inputs, dtypes, hidden outputs, and names of older files.
#include "gluino/op.h"

#include "gluino/ops.h"
#include "gluino/random.h"
#include "gluino/symbol.h"
#include "support/support.h"

namespace gluino::test {
namespace {

TEST(Definitions, InputsAfterAnAbsentOneKeepTheirRules) {
  const OpDef& op = OpRegistry::global().get("RNN");
  const Attrs gru = op.parse_attrs({{"mode", "gru"}, {"state_size", "2"}, {"num_layers", "1"}, {"use_sequence_length", "True"}});
  EXPECT_EQ(op.input_spec(gru, 3).name, "sequence_length");
  EXPECT_TRUE(op.input_spec(gru, 3).own_dtype);
  const Attrs lstm = op.parse_attrs({{"mode", "lstm"}, {"state_size", "2"}, {"num_layers", "1"}, {"use_sequence_length", "True"}});
  EXPECT_EQ(op.input_spec(lstm, 3).name, "state_cell");
  EXPECT_FALSE(op.input_spec(lstm, 3).own_dtype);
  // int32 lengths take no part in promotion, and are no floating dtype that gru would need.
  const Tensors out = apply(op,
                            Tensors{random_tensor({3, 2, 2}, DType::float32, 1), random_tensor({36}, DType::float32, 2), zeros({1, 2, 2}),
                                    from_vector(std::vector<int32_t>{1, 3})},
                            gru);
  EXPECT_EQ(out[0].dtype(), DType::float32);
  EXPECT_TRUE(same_bits(out[0][{1, 0}], zeros({2})));
  // A cell state of another dtype is promoted like any input.
  const Tensors wide = apply(op,
                             Tensors{random_tensor({3, 2, 2}, DType::float32, 1), random_tensor({48}, DType::float32, 2), zeros({1, 2, 2}),
                                     zeros({1, 2, 2}, {DType::float64}), from_vector(std::vector<int32_t>{1, 3})},
                             lstm);
  EXPECT_EQ(wide[0].dtype(), DType::float64);
}

TEST(Definitions, FunctionsOfOperatorsCountTheirInputs) {
  const Symbol a = sym::var("a"), b = sym::var("b");
  EXPECT_NE(Symbol(concat({a.tensor(), b.tensor()}, {.dim = 0})).str().find("Concat(a, b) {dim=0, num_args=2}"), std::string::npos);
  EXPECT_NE(Symbol(add_n({a.tensor(), b.tensor(), a.tensor()})).str().find("num_args=3"), std::string::npos);
}

TEST(Definitions, FunctionsOfImagesHaveANamespace) {
  const Tensor image = random_tensor({5, 4, 3}, DType::float32, 1);
  EXPECT_TRUE(
      same_bits(image::crop(image, {.x = 1, .y = 2, .width = 2, .height = 3}),
                call("_image_crop", {image}, {{"x", int64_t{1}}, {"y", int64_t{2}}, {"width", int64_t{2}}, {"height", int64_t{3}}})));
}

TEST(Definitions, BatchNormOfHalfPrecisionKeepsItsStatisticsWide) {
  const Tensor x = random_tensor({4, 3}, DType::float16, 1), gamma = random_tensor({3}, DType::float32, 2), beta = zeros({3});
  Tensor mean = zeros({3}), var = ones({3});
  const Tensor y = batch_norm(x, gamma, beta, mean, var, {.fix_gamma = false});
  EXPECT_EQ(y.dtype(), DType::float16);
  EXPECT_TRUE(close(y, batch_norm(x.astype(DType::float32), gamma, beta, mean, var, {.fix_gamma = false}), 2e-3, 1e-3));
  const Symbol net = sym::apply("BatchNorm", {sym::var("data")}, {}, "bn");
  const InferredTypes half = net.infer_type({{"data", DType::float16}}), full = net.infer_type({{"data", DType::float64}});
  EXPECT_EQ(half.arguments, (std::vector<DType>{DType::float16, DType::float32, DType::float32}));
  EXPECT_EQ(half.outputs[0], DType::float16);
  EXPECT_EQ(full.arguments, (std::vector<DType>{DType::float64, DType::float64, DType::float64}));
}

TEST(Definitions, HiddenOutputsAreNotSeen) {
  static_assert(std::is_same_v<decltype(sort(Tensor())), Tensor>);
  static_assert(std::is_same_v<decltype(dropout(Tensor())), Tensor>);
  EXPECT_TRUE(same_bits(sort(tensor({3, 1, 2})), tensor({1, 2, 3})));
  EXPECT_EQ(sym::apply("LayerNorm", {sym::var("x")}).num_outputs(), 1);
  EXPECT_EQ(sym::apply("LayerNorm", {sym::var("x")}, {{"output_mean_var", "True"}}).num_outputs(), 3);
}

TEST(Definitions, OnlyDropoutBetweenLayersMakesRnnRandom) {
  const OpDef& op = OpRegistry::global().get("RNN");
  const StringMap attrs{{"state_size", "2"}, {"num_layers", "2"}};
  StringMap dropping = attrs;
  dropping["p"] = "0.5";
  EXPECT_FALSE(op.draws_random(op.parse_attrs(attrs)));
  EXPECT_TRUE(op.draws_random(op.parse_attrs(dropping)));
}

// Before 1.0, _sample_normal took its parameters as attributes; since then it takes tensors.
TEST(OldFiles, SampleNormalWithoutInputs) {
  const std::string old =
      R"json({"nodes": [{"op": "_sample_normal", "param": {"loc": "5", "scale": "0.001", "shape": "(2,3)"}, "name": "n", "inputs": [], "backward_source_id": -1}],
    "arg_nodes": [], "heads": [[0, 0]]})json";
  const Symbol net = Symbol::from_json(old);
  EXPECT_TRUE(net.list_inputs().empty());
  EXPECT_TRUE(close(net.eval({})[0], full({2, 3}, 5), 0, 0.1));
  const std::string now = R"json({"nodes": [{"op": "null", "name": "mu", "inputs": []}, {"op": "null", "name": "sigma", "inputs": []},
    {"op": "_sample_normal", "attrs": {"shape": "(2,)"}, "name": "n", "inputs": [[0, 0, 0], [1, 0, 0]]}],
    "arg_nodes": [0, 1], "node_row_ptr": [0, 1, 2, 3], "heads": [[2, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}})json";
  EXPECT_EQ(Symbol::from_json(now).eval({{"mu", ones({3})}, {"sigma", ones({3})}})[0].shape().str(), Shape({3, 2}).str());
}

}  // namespace
}  // namespace gluino::test
