// The zoo: parameter counts that MXNet's documentation publishes, names and files of MXNet, outputs it recorded.
#include <set>

#include "gluino/gluino.h"
#include "gluino/model_zoo.h"
#include "support/support.h"

namespace gluino::test {
namespace {

// The table of pretrained models in MXNet 1.x's documentation of gluon.model_zoo.vision; running averages are counted.
const std::vector<std::pair<std::string, int64_t>> kPublished{
    {"alexnet", 61100840},         {"densenet121", 8062504},     {"densenet161", 28900936},     {"densenet169", 14307880},
    {"densenet201", 20242984},     {"inceptionv3", 23869000},    {"mobilenet0.25", 475544},     {"mobilenet0.5", 1342536},
    {"mobilenet0.75", 2601976},    {"mobilenet1.0", 4253864},    {"mobilenetv2_0.25", 1526856}, {"mobilenetv2_0.5", 1983104},
    {"mobilenetv2_0.75", 2653864}, {"mobilenetv2_1.0", 3539136}, {"resnet18_v1", 11699112},     {"resnet34_v1", 21814696},
    {"resnet50_v1", 25629032},     {"resnet101_v1", 44695144},   {"resnet152_v1", 60404072},    {"resnet18_v2", 11695796},
    {"resnet34_v2", 21811380},     {"resnet50_v2", 25595060},    {"resnet101_v2", 44639412},    {"resnet152_v2", 60329140},
    {"squeezenet1.0", 1248424},    {"squeezenet1.1", 1235496},   {"vgg11", 132863336},          {"vgg11_bn", 132874344},
    {"vgg13", 133047848},          {"vgg13_bn", 133059624},      {"vgg16", 138357544},          {"vgg16_bn", 138374440},
    {"vgg19", 143667240},          {"vgg19_bn", 143689256}};

TEST(ModelZoo, HasAsManyParametersAsPublished) {
  for (const auto& [name, want] : kPublished) {
    const model_zoo::ClassifierPtr net = model_zoo::get_model(name);
    net->initialize();
    const Symbol symbol = (*net)(sym::var("data"));
    const int64_t side = name == "inceptionv3" ? 299 : 224;
    int64_t count = 0;
    const auto shapes = symbol.infer_shape({{"data", {1, 3, side, side}}});
    for (const auto& s : shapes.arguments) count += s->elements();
    for (const auto& s : shapes.auxiliary_states) count += s->elements();
    EXPECT_EQ(count - 3 * side * side, want) << name;
    EXPECT_EQ(shapes.outputs.at(0)->str(), "(1, 1000)") << name;
  }
  EXPECT_EQ(kPublished.size() + 2, model_zoo::names().size()) << "besides mlp and lenet, which are ours";
}

TEST(ModelZoo, ErrorsNameTheMistake) {
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'resnet50_v1'?", model_zoo::get_model("resnet50v1"));
  GLUINO_EXPECT_ERROR(UserError, "only of 18, 34, 50, 101, 152", model_zoo::resnet(1, 20));
  GLUINO_EXPECT_ERROR(UserError, "multiplier is -1", model_zoo::mobilenet(-1));
}

std::set<std::string> variables(const Symbol& s) {
  std::set<std::string> names;
  for (const std::string& n : s.list_inputs()) names.insert(n);
  return names;
}

TEST(ModelZoo, NamesParametersAsMXNetDoes) {
  if (!shared_folder()) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  const Symbol recorded = Symbol::load(*shared_folder() + "/models/symbols/resnet18-v1-gluon1.9-symbol.json");
  const model_zoo::ClassifierPtr net = model_zoo::get_model("resnet50_v1");  // what the file holds, by its bottlenecks
  net->set_prefix("resnetv10_");
  net->initialize();
  EXPECT_EQ(variables((*net)(sym::var("data"))), variables(recorded));
}

TEST(ModelZoo, TakesAFileOfMXNetAndGivesWhatItRecorded) {
  if (!shared_folder()) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  const std::string golden = *shared_folder() + "/golden/models/mobilenet0_25";
  const NamedTensors io = load_tensors(golden + "-io.npz");
  const NamedTensors params = load_tensors(golden + "-0001.params");
  const model_zoo::ClassifierPtr net =
      model_zoo::mobilenet(0.25, {.classes = find_tensor(params, "arg:mobilenet0_dense0_weight")->extent(0)});
  net->load_parameters(golden + "-0001.params");
  EXPECT_TRUE(close((*net)(*find_tensor(io, "in0")), *find_tensor(io, "out0"), 1e-3, 1e-4));
  net->hybridize();
  EXPECT_TRUE(close((*net)(*find_tensor(io, "in0")), *find_tensor(io, "out0"), 1e-3, 1e-4));
}

TEST(ModelZoo, RunsTrainsAndSavesUnderBothSpellings) {
  const std::string path = ::testing::TempDir() + "gluino_zoo.params";
  for (const char* name : {"lenet", "mlp"}) {
    const model_zoo::ClassifierPtr net = model_zoo::get_model(name), other = model_zoo::get_model(name);
    net->initialize(init::xavier());
    const Tensor x = random_tensor({2, 1, 28, 28}, DType::float32, 1), want = (*net)(x);
    EXPECT_EQ(want.shape().str(), "(2, 10)");
    net->save_parameters(path);
    other->load_parameters(path);
    EXPECT_TRUE(same_bits((*other)(x), want));
    net->collect_params().save(path, net->prefix());  // conv0_weight
    other->initialize(init::zero(), cpu(), true);
    other->load_parameters(path);
    EXPECT_TRUE(same_bits((*other)(x), want));
  }
}

}  // namespace
}  // namespace gluino::test
