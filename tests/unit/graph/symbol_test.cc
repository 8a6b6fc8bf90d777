// Symbols: composition, names, attributes, inference, text and JSON forms, evaluation, binding.
#include "gluino/symbol.h"

#include <cmath>
#include <filesystem>

#include "gluino/autograd.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Names = std::vector<std::string>;

// data -> fully connected -> batch norm -> relu -> fully connected -> softmax
Symbol classifier() {
  const Symbol data = sym::var("data");
  const Symbol hidden = sym::apply("FullyConnected", {data}, {{"num_hidden", "8"}}, "fc1");
  const Symbol normal = sym::apply("BatchNorm", {hidden}, {}, "bn");
  const Symbol active = sym::apply("Activation", {normal}, {{"act_type", "relu"}}, "act");
  const Symbol scores = sym::apply("FullyConnected", {active}, {{"num_hidden", "3"}}, "fc2");
  return sym::apply("SoftmaxOutput", {scores}, {}, "softmax");
}

TEST(Symbol, ListsWhatItIsMadeOf) {
  const Symbol net = classifier();
  EXPECT_EQ(net.list_arguments(),
            (Names{"data", "fc1_weight", "fc1_bias", "bn_gamma", "bn_beta", "fc2_weight", "fc2_bias", "softmax_label"}));
  EXPECT_EQ(net.list_auxiliary_states(), (Names{"bn_moving_mean", "bn_moving_var"}));
  EXPECT_EQ(net.list_outputs(), (Names{"softmax_output"}));
  EXPECT_EQ(net.list_inputs().size(), 10u);
  EXPECT_EQ(net.name(), "softmax");
  EXPECT_EQ(net.num_outputs(), 1);
}

TEST(Symbol, NamesAreMadeUpWhereNoneIsGiven) {
  const Symbol a = sym::apply("relu", {sym::var("x")}), b = sym::apply("relu", {sym::var("x")});
  EXPECT_TRUE(a.name().starts_with("relu"));
  EXPECT_NE(a.name(), b.name());
}

TEST(Symbol, InternalsAndChildren) {
  const Symbol net = classifier(), all = net.get_internals();
  const Names names = all.list_outputs();
  EXPECT_NE(std::find(names.begin(), names.end(), "bn_output"), names.end());
  const Symbol act = all["act_output"];
  EXPECT_EQ(act.list_outputs(), (Names{"act_output"}));
  EXPECT_EQ(act.list_arguments().back(), "bn_beta");
  EXPECT_EQ(net.get_children().list_outputs(), (Names{"fc2_output", "softmax_label"}));
  GLUINO_EXPECT_ERROR(IndexError, "did you mean 'act_output'?", all["act_outptu"]);
}

TEST(Symbol, GroupsAndManyOutputs) {
  const Symbol x = sym::var("x");
  const Symbol parts = sym::apply("SliceChannel", {x}, {{"num_outputs", "3"}, {"axis", "0"}}, "split");
  EXPECT_EQ(parts.num_outputs(), 3);
  EXPECT_EQ(parts.list_outputs(), (Names{"split_output0", "split_output1", "split_output2"}));
  EXPECT_EQ(parts[1].list_outputs(), (Names{"split_output1"}));
  EXPECT_EQ(parts[-1].list_outputs(), (Names{"split_output2"}));
  const Symbol both = sym::group({parts[2], sym::apply("square", {parts[0]}, {}, "sq")});
  EXPECT_EQ(both.list_outputs(), (Names{"split_output2", "sq_output"}));
  const Tensors out = both.eval({{"x", arange(6).reshape({3, 2})}});
  EXPECT_TRUE(same_bits(out[0], tensor({{4, 5}})));
  EXPECT_TRUE(same_bits(out[1], tensor({{0, 1}})));
  GLUINO_EXPECT_ERROR(IndexError, "has 3 outputs, there is no output 3", parts[3]);
  GLUINO_EXPECT_ERROR(UserError, "3 outputs", parts.list_attr());
}

TEST(Symbol, ComposesByName) {
  const Symbol f = sym::apply("square", {sym::var("x")}, {}, "sq"), g = sym::apply("exp", {sym::var("y")}, {}, "e");
  const Symbol fg = f.compose({{"x", g}});
  EXPECT_EQ(fg.list_arguments(), (Names{"y"}));
  EXPECT_EQ(f.list_arguments(), (Names{"x"}));  // the original is left alone
  EXPECT_TRUE(close(fg.eval({{"y", tensor({1})}})[0], tensor({std::exp(2.0)})));
  GLUINO_EXPECT_ERROR(UserError, "no input is named 'z'", f.compose({{"z", g}}));
}

TEST(Symbol, TakesNamedInputs) {
  const Symbol w = sym::var("shared");
  const Symbol fc = sym::apply("FullyConnected", {sym::var("x")}, {{"num_hidden", "2"}, {"no_bias", "True"}}, "fc", {{"weight", w}});
  EXPECT_EQ(fc.list_arguments(), (Names{"x", "shared"}));
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'weight'?",
                      sym::apply("FullyConnected", {sym::var("x")}, {{"num_hidden", "2"}}, "fc", {{"wieght", w}}));
  GLUINO_EXPECT_ERROR(UserError, "2 inputs were given, but only 1", sym::apply("relu", {w, w}));
}

TEST(Symbol, OperatorsOfTensorsWorkOnIt) {
  const Symbol x = sym::var("x"), y = sym::var("y");
  const Symbol z = x.tensor() * 2.0 + y.tensor();
  EXPECT_EQ(z.list_arguments(), (Names{"x", "y"}));
  EXPECT_TRUE(same_bits(z.eval({{"x", tensor({1, 2})}, {"y", tensor({5, 6})}})[0], tensor({7, 10})));
  GLUINO_EXPECT_ERROR(UserError, "", z.tensor().item());
}

TEST(Symbol, AttributesAndScopes) {
  Symbol x;
  {
    const AttrScope outer(StringMap{{"__lr_mult__", "2"}, {"__ctx_group__", "a"}});
    const AttrScope inner(StringMap{{"__ctx_group__", "b"}});
    x = sym::var("x", {.shape = Shape{2, 3}, .dtype = DType::float16, .attrs = {{"__wd_mult__", "0"}}});
  }
  EXPECT_EQ(x.attr("__lr_mult__"), "2");
  EXPECT_EQ(x.attr("__ctx_group__"), "b");
  EXPECT_EQ(x.attr("__wd_mult__"), "0");
  EXPECT_EQ(x.attr("absent"), std::nullopt);
  EXPECT_FALSE(sym::var("y").attr("__lr_mult__"));
  x.set_attr("mood", "fine");
  const Symbol net = sym::apply("Activation", {x}, {{"act_type", "tanh"}}, "act");
  EXPECT_EQ(net.attr("act_type"), "tanh");
  const auto all = net.attr_dict();
  EXPECT_EQ(all.at("x").at("mood"), "fine");
  EXPECT_EQ(all.at("act").at("act_type"), "tanh");
  const InferredShapes shapes = net.infer_shape({});
  EXPECT_EQ(shapes.outputs[0].value(), (Shape{2, 3}));
  EXPECT_EQ(net.infer_type({}).outputs[0], DType::float16);
}

TEST(Inference, WeightsFromData) {
  const InferredShapes s = classifier().infer_shape({{"data", {5, 4}}});
  EXPECT_TRUE(s.complete);
  EXPECT_EQ(s.arguments[1].value(), (Shape{8, 4}));
  EXPECT_EQ(s.arguments[2].value(), (Shape{8}));
  EXPECT_EQ(s.arguments[5].value(), (Shape{3, 8}));
  EXPECT_EQ(s.arguments[7].value(), (Shape{5}));
  EXPECT_EQ(s.outputs[0].value(), (Shape{5, 3}));
  EXPECT_EQ(s.auxiliary_states[1].value(), (Shape{8}));
}

TEST(Inference, BackwardThroughSameShapeOperators) {
  const Symbol x = sym::var("x"), y = sym::var("y");
  const Symbol net = sym::apply("elemwise_add", {sym::apply("exp", {x}, {}, "e"), y}, {}, "sum");
  const InferredShapes s = net.infer_shape({{"y", {2, 7}}});
  EXPECT_EQ(s.arguments[0].value(), (Shape{2, 7}));
}

TEST(Inference, ConvolutionWeights) {
  const Symbol c =
      sym::apply("Convolution", {sym::var("x")}, {{"kernel", "(3, 3)"}, {"num_filter", "6"}, {"num_group", "2"}, {"pad", "(1, 1)"}}, "c");
  const InferredShapes s = c.infer_shape({{"x", {1, 4, 8, 8}}});
  EXPECT_EQ(s.arguments[1].value(), (Shape{6, 2, 3, 3}));
  EXPECT_EQ(s.arguments[2].value(), (Shape{6}));
  EXPECT_EQ(s.outputs[0].value(), (Shape{1, 6, 8, 8}));
}

TEST(Inference, PartialKeepsWhatIsKnown) {
  const Symbol net = classifier();
  const InferredShapes nothing = net.infer_shape_partial({});
  EXPECT_FALSE(nothing.complete);
  EXPECT_EQ(nothing.arguments[2].value(), (Shape{8}));  // the bias does not depend on the data
  EXPECT_FALSE(nothing.arguments[0]);
  const InferredShapes batch = net.get_internals()["fc2_output"].infer_shape_partial({{"data", {Shape::kUnknown, 4}}});
  EXPECT_EQ(batch.arguments[1].value(), (Shape{8, 4}));
  EXPECT_EQ(batch.outputs[0].value().str(), "(?, 3)");
  GLUINO_EXPECT_ERROR(ShapeError, "'data'", net.infer_shape({}));
}

TEST(Inference, ContradictionsNameTheNode) {
  GLUINO_EXPECT_ERROR(ShapeError, "fc1", classifier().infer_shape({{"data", {5, 4}}, {"fc1_weight", {8, 5}}}));
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'data'?", classifier().infer_shape({{"dta", {5, 4}}}));
}

TEST(Inference, Types) {
  const InferredTypes t = classifier().infer_type({{"data", DType::float64}});
  EXPECT_EQ(t.outputs[0], DType::float64);
  EXPECT_EQ(t.arguments[1], DType::float64);
  EXPECT_EQ(classifier().infer_type({}).outputs[0], DType::float32);
  const Symbol cast = sym::apply("Cast", {sym::var("x")}, {{"dtype", "int8"}});
  EXPECT_EQ(cast.infer_type({{"x", DType::float16}}).outputs[0], DType::int8);
}

// str() and to_json() read back give a symbol with the same text.
void check_round_trips(const Symbol& s) {
  const std::string text = s.str();
  EXPECT_EQ(Symbol::parse(text).str(), text);
  EXPECT_EQ(Symbol::from_json(s.to_json()).str(), text);
  EXPECT_EQ(Symbol::parse(text).list_arguments(), s.list_arguments());
  EXPECT_EQ(Symbol::parse(text).list_outputs(), s.list_outputs());
}

TEST(Text, IsReadable) {
  const Symbol net = sym::apply("FullyConnected", {sym::var("data")}, {{"num_hidden", "4"}, {"no_bias", "1"}}, "fc");
  EXPECT_EQ(net.str(), "graph(data, fc_weight) {\n  fc = FullyConnected(data, fc_weight) {no_bias=True, num_hidden=4}\n  return fc\n}\n");
}

TEST(Text, RoundTrips) {
  check_round_trips(classifier());
  const Symbol x = sym::var("a name, with \"quotes\" \\ and = signs", {.shape = Shape{2, 3}, .attrs = {{"key with blanks", "{value}\n"}}});
  check_round_trips(sym::apply("relu", {x}, {}, "7"));
  const Symbol parts = sym::apply("SliceChannel", {sym::var("return")}, {{"num_outputs", "2"}}, "graph");
  check_round_trips(sym::group({parts[1], parts[0]}));
  check_round_trips(sym::apply("Concat", {sym::var("p"), sym::var("q")}, {{"dim", "1"}}, "cat"));
}

TEST(Text, MistakesNameTheLine) {
  GLUINO_EXPECT_ERROR(UserError, "line 2", Symbol::parse("graph(x) {\n  y = relu(z)\n  return y\n}\n"));
  GLUINO_EXPECT_ERROR(UserError, "no operator is named 'rleu'", Symbol::parse("graph(x) {\n  y = rleu(x)\n  return y\n}\n"));
  GLUINO_EXPECT_ERROR(UserError, "graph text", Symbol::parse(""));
  GLUINO_EXPECT_ERROR(UserError, "graph text", Symbol::parse("graph(x) {"));
  GLUINO_EXPECT_ERROR(UserError, "taken", Symbol::parse("graph(x, x) {\n  return x\n}\n"));
  GLUINO_EXPECT_ERROR(UserError, "relu", Symbol::parse("graph(x) {\n  y = relu(x, x)\n  return y\n}\n"));
}

TEST(Text, OfEveryModelBesideTheCheckout) {
  if (!shared_folder()) GTEST_SKIP() << "no folder of models: set GLUINO_SHARED to run over them";
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*shared_folder() + "/models")) {
    if (!entry.path().string().ends_with("-symbol.json")) continue;
    SCOPED_TRACE(entry.path().string());
    Symbol s;
    try {
      s = Symbol::load(entry.path().string());
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find("not supported"), std::string::npos) << e.what();
      continue;
    }
    ++models;
    check_round_trips(s);
  }
  EXPECT_GT(models, 5);
}

TEST(Dot, HasNodesAndEdges) {
  const std::string dot = classifier().to_dot();
  EXPECT_TRUE(dot.starts_with("digraph"));
  EXPECT_NE(dot.find("FullyConnected"), std::string::npos);
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '>'), 14);  // one edge per input
  const std::string odd = sym::var("say \"hi\"").to_dot();
  EXPECT_NE(odd.find("say \\\"hi\\\""), std::string::npos) << odd;
}

TEST(Eval, NamesWhatIsMissing) {
  const Symbol z = sym::apply("elemwise_add", {sym::var("x"), sym::var("y")});
  GLUINO_EXPECT_ERROR(UserError, "'y'", z.eval({{"x", tensor({1})}}));
  GLUINO_EXPECT_ERROR(UserError, "no input is named 'q'", z.eval({{"q", tensor({1})}}));
  GLUINO_EXPECT_ERROR(ShapeError, "elemwise_add", z.eval({{"x", tensor({1})}, {"y", tensor({1, 2})}}));
}

TEST(Bind, ForwardAndBackward) {
  const Symbol x = sym::var("x"), y = sym::var("y");
  const Symbol z = sym::apply("elemwise_mul", {x, y});
  for (GradReq req : {GradReq::write, GradReq::add}) {
    Tensor gx = full({2}, 100);
    Executor e = z.bind({{"x", tensor({2, 3})}, {"y", tensor({5, 7})}}, {{"x", gx}}, {{"x", req}});
    EXPECT_TRUE(same_bits(e.forward(true)[0], tensor({10, 21})));
    e.backward({tensor({1, 10})});
    EXPECT_TRUE(same_bits(gx, req == GradReq::add ? tensor({105, 170}) : tensor({5, 70})));
    e.arguments().at("x").assign(tensor({1, 1}));
    EXPECT_TRUE(same_bits(e.forward()[0], tensor({5, 7})));
  }
  GLUINO_EXPECT_ERROR(UserError, "'y'", z.bind({{"x", tensor({1})}}));
  Executor untrained = z.bind({{"x", tensor({2})}, {"y", tensor({5})}});
  GLUINO_EXPECT_ERROR(UserError, "call forward() first", untrained.backward());
}

TEST(Bind, SimpleBindTrains) {
  Executor e = classifier().simple_bind({{"data", {6, 4}}});
  for (auto& [name, t] : e.arguments()) t.assign(random_tensor(t.shape(), DType::float32, std::hash<std::string>()(name), -0.5, 0.5));
  e.arguments().at("softmax_label").assign(tensor({0, 1, 2, 0, 1, 2}));
  e.auxiliary_states().at("bn_moving_var").assign(1.0);
  auto loss = [&] {
    const Tensor p = e.forward(true)[0];
    double total = 0;
    for (int i = 0; i < 6; ++i) total -= std::log(p[{i, i % 3}].item<double>());
    return total;
  };
  const double first = loss();
  for (int step = 0; step < 50; ++step) {
    e.forward(true);
    e.backward();
    for (auto& [name, t] : e.arguments())
      if (name.starts_with("fc") || name.starts_with("bn")) t -= e.gradients().at(name) * 0.1;
  }
  EXPECT_LT(loss(), 0.5 * first);
  EXPECT_FALSE(all_close(e.auxiliary_states().at("bn_moving_mean"), zeros({8})));  // training updated the state
}

TEST(LongGraph, DoesNotOverflowTheStack) {
  Symbol s = sym::var("x");
  for (int i = 0; i < 20000; ++i) s = sym::apply("relu", {s});
  EXPECT_EQ(s.list_arguments(), (Names{"x"}));
  EXPECT_TRUE(same_bits(s.eval({{"x", tensor({-1, 2})}})[0], tensor({0, 2})));
}

}  // namespace
}  // namespace gluino::test
