// ONNX files: what goes out comes back with the same numbers; what is wrong with a file or a graph is said.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "gluino/gluino.h"
#include "onnx/program.h"

namespace gluino {
namespace {

class Onnx : public testing::Test {
 protected:
  void SetUp() override {
    try {
      onnx::file_format();
    } catch (const SystemError& e) {
      GTEST_SKIP() << e.what();
    }
  }
  static std::string path(const std::string& name) {
    return (std::filesystem::temp_directory_path() / ("gluino_onnx_test_" + name)).string();
  }
};

std::unique_ptr<nn::HybridSequential> small_net() {
  auto net = std::make_unique<nn::HybridSequential>();
  net->add(nn::Conv2D(4, 3, {.padding = 1}), nn::BatchNorm(), nn::Activation("relu"), nn::MaxPool2D(2), nn::Flatten(), nn::Dense(3));
  net->initialize(init::xavier());
  return net;
}

TEST_F(Onnx, a_network_comes_back_with_the_same_numbers_at_any_batch) {
  const auto net = small_net();
  const Tensor x = random::normal(0, 1, {2, 1, 8, 8});
  (*net)(x);
  onnx::export_model(*net, path("net.onnx"), {{"data", {-1, 1, 8, 8}}});
  const auto back = onnx::import_model(path("net.onnx"));
  EXPECT_EQ(back->inputs(), std::vector<std::string>{"data"});
  EXPECT_TRUE(all_close((*back)(x), (*net)(x), 1e-5, 1e-6));
  back->hybridize();
  EXPECT_TRUE(all_close((*back)(x), (*net)(x), 1e-5, 1e-6));
  const Tensor larger = random::normal(0, 1, {5, 1, 8, 8});
  EXPECT_TRUE(all_close((*back)(larger), (*net)(larger), 1e-5, 1e-6));
}

TEST_F(Onnx, an_imported_network_learns) {
  const auto net = small_net();
  const Tensor x = random::normal(0, 1, {4, 1, 8, 8});
  (*net)(x);
  onnx::export_model(*net, path("learn.onnx"), {{"data", {-1, 1, 8, 8}}});
  const auto back = onnx::import_model(path("learn.onnx"));
  back->hybridize();
  Trainer trainer(back->collect_params(), "sgd", {{"learning_rate", 0.1}});
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    const autograd::Scope record(true, true);
    const Tensor loss = square((*back)(x)-1.0).mean();
    loss.backward();
    trainer.step(1);
    (step == 0 ? first : last) = loss.item();
  }
  EXPECT_LT(last, first / 2);
}

onnx::ModelData model_with(std::vector<onnx::NodeData> nodes) {
  onnx::ModelData model;
  model.operator_sets[""] = 13;
  model.graph.inputs = {{.name = "x", .type = onnx::ElementType::float32, .has_shape = true, .extents = {2}, .extent_names = {""}}};
  model.graph.outputs = {{.name = "y"}};
  model.graph.nodes = std::move(nodes);
  return model;
}

TEST_F(Onnx, all_unknown_nodes_are_listed_at_once) {
  try {
    onnx::Program(model_with({{"Strange", "", "first", {"x"}, {"a"}, {}}, {"Odd", "com.example", "second", {"a"}, {"y"}, {}}}),
                  "model.onnx");
    FAIL() << "nothing was raised";
  } catch (const UserError& e) {
    const std::string text = e.what();
    for (const char* part : {"model.onnx", "node 'first', Strange of operator set 13", "node 'second', Odd of operator set com.example"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST_F(Onnx, an_error_names_the_node) {
  const onnx::Program program(model_with({{"MatMul", "", "product", {"x", "missing"}, {"y"}, {}}}), "model.onnx");
  try {
    program.run({ones({2})}, {});
    FAIL() << "nothing was raised";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("'missing'"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("node 'product', MatMul"), std::string::npos) << e.what();
  }
}

TEST_F(Onnx, a_file_that_is_none_is_said_to_be_damaged) {
  write_file(path("none.onnx"), "this is no model");
  EXPECT_THROW(onnx::import_model(path("none.onnx")), SystemError);
  EXPECT_THROW(onnx::import_model(path("absent.onnx")), SystemError);
}

TEST_F(Onnx, an_operator_that_onnx_lacks_is_named) {
  const Symbol x = sym::var("x");
  const Symbol y = sym::apply("gamma", {x}, {}, "the_gamma");
  try {
    onnx::export_model(y, {}, path("gamma.onnx"), {{"x", {2}}});
    FAIL() << "nothing was raised";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("node 'the_gamma', a gamma"), std::string::npos) << e.what();
  }
}

TEST_F(Onnx, every_export_rule_names_an_operator) {
  for (const std::string& name : onnx::exported_operators()) EXPECT_EQ(OpRegistry::global().get(name).name, name);
}

}  // namespace
}  // namespace gluino
