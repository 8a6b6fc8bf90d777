// Graphs without weights from ten years of repositories: they load, infer and run with random weights, or the report
// names every operator that is not supported.
#include <filesystem>
#include <fstream>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> symbol_files() {
  std::vector<std::string> files;
  if (const auto shared = shared_folder())
    for (const auto& entry : fs::directory_iterator(*shared + "/models/symbols")) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

class SymbolFile : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SymbolFile);

TEST_P(SymbolFile, LoadsAndPrintsBack) {
  Symbol symbol;
  try {
    symbol = Symbol::load(GetParam());
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("not supported:"), std::string::npos) << e.what();
    return;
  }
  EXPECT_FALSE(symbol.list_arguments().empty());
  EXPECT_EQ(Symbol::parse(symbol.str()).str(), symbol.str());
  EXPECT_EQ(Symbol::from_json(symbol.to_json()).str(), symbol.str());
}

// Image networks with one input: the whole way, eager and hybridized.
TEST_P(SymbolFile, RunsWithRandomWeights) {
  const std::string file = fs::path(GetParam()).filename().string();
  static const std::map<std::string, Shape> inputs{{"squeezenet_v1.1-legacy-symbol.json", {1, 3, 224, 224}},
                                                   {"mobilenet-v2-symbol.json", {1, 3, 64, 64}},
                                                   {"resnet18-v1-gluon1.9-symbol.json", {1, 3, 64, 64}},
                                                   {"resnet18-legacy-symbol.json", {1, 3, 224, 224}},
                                                   {"se-resnet50-symbol.json", {1, 3, 224, 224}}};
  const auto it = inputs.find(file);
  if (it == inputs.end()) return;
  auto net = SymbolBlock::imports(GetParam(), {"data"});
  net->initialize(init::xavier());
  const Tensor x = random_tensor(it->second, DType::float32, 3);
  const Tensor eager = (*net)(x);
  net->hybridize();
  EXPECT_TRUE(close((*net)(x), eager, 1e-4, 1e-5));
}

INSTANTIATE_TEST_SUITE_P(Wild, SymbolFile, ::testing::ValuesIn(symbol_files()), [](const auto& info) {
  std::string name = fs::path(info.param).filename().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

TEST(ForeignOperators, AreReportedByName) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "no folder of models: set GLUINO_SHARED to run this";
  GLUINO_EXPECT_ERROR(UserError, "QConvolution", Symbol::load(*shared + "/models/bmxnet-binary-mnist/binarized_mnist_32bit-symbol.json"));
}

TEST(FormatFiles, OfEveryEraLoad) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "no folder of models: set GLUINO_SHARED to run this";
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(*shared + "/models/formats")) {
    if (!entry.is_regular_file() || entry.path().extension() == ".json" || entry.path().extension() == ".md") continue;
    SCOPED_TRACE(entry.path().string());
    EXPECT_FALSE(load_tensors(entry.path().string()).empty());
    ++files;
  }
  EXPECT_GE(files, 7);
}

}  // namespace
}  // namespace gluino::test
