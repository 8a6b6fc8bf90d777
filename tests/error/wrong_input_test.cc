// Input that once reached memory it should not: each call raises an error that says what was wrong. The operators are fuzzed with much
// more of the kind in tests/fuzz.
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

Tensors ask(std::string_view op, const Tensors& inputs, const StringMap& attrs = {}) {
  const OpDef& definition = OpRegistry::global().get(op);
  return apply(definition, inputs, definition.parse_attrs(attrs));
}

TEST(WrongInput, RepeatedAxesOfReverse) {
  GLUINO_EXPECT_ERROR(AttrError, "reverse: attribute 'axis' (0, 0) lists axis 0 twice",
                      ask("reverse", {ones({2, 3})}, {{"axis", "(0, 0)"}}));
}

TEST(WrongInput, OptimizerStepsOnOtherShapes) {
  const Tensor w = ones({3, 4}), other = ones({2});
  GLUINO_EXPECT_ERROR(ShapeError, "_adamw_update: the inputs of a weight of shape (3, 4)",
                      ask("_adamw_update", {w, other, w, w, ones({1})}, {{"lr", "0.1"}, {"eta", "1"}}));
  GLUINO_EXPECT_ERROR(ShapeError, "input 'g' has shape (2,), but (3, 4) is needed",
                      ask("lamb_update_phase2", {w, other, ones({1}), ones({1})}, {{"lr", "0.1"}}));
}

// Said by the rules for shapes and dtypes, which a trace asks, too.
TEST(WrongInput, PicksFromAnAxisWithoutElements) {
  for (const char* op : {"pick", "batch_take"})
    GLUINO_EXPECT_ERROR(IndexError, "there is nothing to pick from axis 1 of data of shape (2, 0)", ask(op, {ones({2, 0}), zeros({2})}));
  EXPECT_EQ(ask("pick", {ones({0, 0}), zeros({0})})[0].shape(), (Shape{0}));
}
TEST(WrongInput, CopiesOfWeightsInAnotherPrecision) {
  const Tensor w = ones({3, 4}), wide = w.astype(DType::float64), one = ones({1});
  const StringMap attrs{{"lr", "0.1"}};
  GLUINO_EXPECT_ERROR(DTypeError, "the weight is float64 and g float64, but weight32 is float32",
                      ask("mp_lamb_update_phase2", {wide, wide, one, one, w}, attrs));
  GLUINO_EXPECT_ERROR(DTypeError, "the weight is float32 and g float32, but weight32 is float64",
                      ask("mp_lamb_update_phase2", {w, w, one, one, wide}, attrs));
}
TEST(WrongInput, ImagesWithoutRowsAreEnlargedWithTheirGradients) {
  for (const Shape& shape : {Shape{2, 3, 0, 4}, Shape{2, 3, 4, 0}, Shape{0, 3, 2, 2}}) {
    Tensor x = ones(shape);
    x.attach_grad();
    {
      const auto record = autograd::record();
      ask("UpSampling", {x}, {{"scale", "2"}, {"sample_type", "nearest"}, {"num_args", "1"}})[0].backward();
    }
    EXPECT_EQ(x.grad().shape(), shape);
  }
}

TEST(WrongInput, CropsBeyondTheLastNumber) {
  GLUINO_EXPECT_ERROR(AttrError, "does not lie in images",
                      ask("_image_crop", {ones({4, 5, 3})}, {{"x", "9223372036854775807"}, {"y", "0"}, {"width", "2"}, {"height", "2"}}));
  GLUINO_EXPECT_ERROR(ShapeError, "is not inside data",
                      ask("Crop", {ones({1, 1, 4, 4})}, {{"offset", "(9223372036854775807, 0)"}, {"h_w", "(1, 1)"}}));
}

TEST(WrongInput, ImagesWithoutPixels) {
  const Tensor none = ones({1, 1, 0, 3});
  GLUINO_EXPECT_ERROR(ShapeError, "have no pixels", ask("_contrib_BilinearResize2D", {none}, {{"height", "2"}, {"width", "2"}}));
  GLUINO_EXPECT_ERROR(ShapeError, "have no pixels", ask("BilinearSampler", {none, ones({1, 2, 2, 2})}));
}

TEST(WrongInput, NumbersOfOutputsThatTheInputsDoNotGive) {
  GLUINO_EXPECT_ERROR(AttrError, "the attributes tell of 100 outputs, but the inputs give 2",
                      ask("amp_multicast", {ones({2}), ones({3})}, {{"num_outputs", "100"}}));
  GLUINO_EXPECT_ERROR(AttrError, "amp_multicast: -1 outputs", ask("amp_multicast", {ones({2})}, {{"num_outputs", "-1"}}));
}

TEST(WrongInput, AnchorsThatAreNotThere) {
  GLUINO_EXPECT_ERROR(ShapeError, "anchor (1, anchors, 4)",
                      ask("_contrib_MultiBoxDetection", {ones({1, 2, 3}), ones({1, 12}), ones({0, 3, 4})}));
}

TEST(WrongInput, DeconvolutionWithoutFilters) {
  GLUINO_EXPECT_ERROR(AttrError, "Deconvolution: num_filter = 0 must be positive",
                      ask("Deconvolution", {ones({1, 2, 3, 3}), ones({2, 0, 2, 2})}, {{"kernel", "(2, 2)"}, {"num_filter", "0"}}));
}

TEST(WrongInput, AbsurdSizes) {
  const Tensors rnn{ones({3, 2, 2}), ones({96}), ones({2, 2, 2}), ones({2, 2, 2})};
  GLUINO_EXPECT_ERROR(AttrError, "num_layers = 4611686018427387904",
                      ask("RNN", rnn, {{"state_size", "2"}, {"num_layers", "4611686018427387904"}, {"mode", "lstm"}}));
  GLUINO_EXPECT_ERROR(AttrError, "sample_ratio = 1099511627776",
                      ask("_contrib_ROIAlign", {ones({1, 1, 4, 4}), ones({1, 5})},
                          {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}, {"sample_ratio", "1099511627776"}}));
  GLUINO_EXPECT_ERROR(ShapeError, "extents are 0 to", ask("tile", {ones({4})}, {{"reps", "(4611686018427387904,)"}}));
  GLUINO_EXPECT_ERROR(SystemError, "bytes were asked for", ask("_zeros", {}, {{"shape", "(4096, 4096, 4096, 64)"}}));
}

TEST(WrongInput, InfiniteParametersOfDistributions) {
  EXPECT_EQ(ask("_random_gamma", {}, {{"alpha", "inf"}, {"shape", "(2,)"}})[0].to_vector<float>(), std::vector<float>(2, HUGE_VALF));
}

TEST(WrongInput, AxesOfManyEmptyRows) {
  const Tensor rows = zeros({int64_t{1} << 40, 3, 0});
  EXPECT_EQ(ask("sum", {rows}, {{"axis", "(0, 2)"}})[0].to_vector<float>(), std::vector<float>(3, 0.0f));
}

// What only passes and gradients make, but a file may name.
TEST(WrongInput, InternalOperators) {
  GLUINO_EXPECT_ERROR(ShapeError, "_upsampling_grad: head of shape", ask("_upsampling_grad", {ones({1, 1, 2, 2}), ones({4, 4, 4, 4})}));
  GLUINO_EXPECT_ERROR(ShapeError, "_grid_generator_grad: head has shape",
                      ask("_grid_generator_grad", {ones({1}), ones({2, 6})}, {{"target_shape", "(3, 4)"}}));
  GLUINO_EXPECT_ERROR(AttrError, "_fused: attribute 'program'", ask("_fused", {ones({2})}, {{"program", "nonsense"}}));
  for (const char* kernel : {"(1, 3)", "(5, 5)"}) {
    const StringMap attrs{{"algorithm", "winograd2"}, {"kernel", kernel}, {"in_channels", "8"}, {"num_filter", "8"}};
    GLUINO_EXPECT_ERROR(AttrError, "_pack_convolution_weight: this algorithm cannot compute",
                        ask("_pack_convolution_weight", {kernel[1] == '1' ? ones({8, 8, 1, 3}) : ones({8, 8, 5, 5})}, attrs));
  }
  GLUINO_EXPECT_ERROR(AttrError, "_compiled_convolution: 2 input and 9223372036854775807 output channels are too many",
                      ask("_compiled_convolution", {ones({2, 2, 5}), ones({48}), ones({8})},
                          {{"in_channels", "2"}, {"kernel", "(1, 3)"}, {"num_filter", "9223372036854775807"}}));
}

TEST(WrongInput, FilesWithCallsWithoutInputs) {
  for (const char* op : {"Concat", "add_n", "stack", "_npi_einsum"}) {
    SCOPED_TRACE(op);
    const std::string attrs = std::string(op) == "_npi_einsum" ? R"("attrs": {"subscripts": "i"},)" : "";
    const std::string json = R"({"nodes": [{"op": ")" + std::string(op) + R"(", "name": "n", )" + attrs +
                             R"("inputs": []}], "arg_nodes": [], "heads": [[0, 0, 0]]})";
    GLUINO_EXPECT_ERROR(UserError, "inputs were given", Symbol::from_json(json).eval({}));
  }
}

}  // namespace
}  // namespace gluino::test
