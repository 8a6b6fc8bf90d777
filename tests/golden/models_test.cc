// Models computed by MXNet 1.9.1 and real models of ten years: they load and give the recorded outputs.
#include <filesystem>

#include "base/format.h"
#include "gluino/autograd.h"
#include "gluino/io.h"
#include "gluino/symbol.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

struct Model {
  std::string name, symbol, params, io;
  friend void PrintTo(const Model& m, std::ostream* os) { *os << m.name; }
};

// X-symbol.json with X-io.npz beside it; the parameters are the only other file that starts with X-.
std::vector<Model> models_in(const std::string& folder) {
  std::vector<Model> models;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with("-symbol.json")) continue;
    const std::string stem = path.substr(0, path.size() - std::string("-symbol.json").size());
    if (!fs::exists(stem + "-io.npz")) continue;
    for (const auto& sibling : fs::directory_iterator(entry.path().parent_path()))
      if (sibling.path().string().starts_with(stem + "-0"))
        models.push_back({entry.path().parent_path().filename().string() + "_" + fs::path(stem).filename().string(), path,
                          sibling.path().string(), stem + "-io.npz"});
  }
  return models;
}
std::vector<Model> all_models() {
  const auto shared = shared_folder();
  if (!shared) return {};
  std::vector<Model> all = models_in(*shared + "/golden/models");
  for (Model& m : models_in(*shared + "/models")) all.push_back(std::move(m));
  return all;
}

class GoldenModel : public ::testing::TestWithParam<Model> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenModel);

TEST_P(GoldenModel, GivesTheRecordedOutputs) {
  const Symbol symbol = Symbol::load(GetParam().symbol);
  TensorMap tensors;
  const std::vector<std::string> names = symbol.list_inputs();
  for (const auto& [name, t] : load_tensors(GetParam().params)) {
    const bool prefixed = name.starts_with("arg:") || name.starts_with("aux:");
    const std::string bare = prefixed ? name.substr(4) : name;
    if (std::find(names.begin(), names.end(), bare) != names.end()) tensors[bare] = t;
  }
  const NamedTensors file = load_tensors(GetParam().io);
  std::vector<std::string> free;  // numbered inputs belong to the variables without parameters, in their order
  for (const std::string& n : names)
    if (!tensors.contains(n)) free.push_back(n);
  for (const auto& [name, t] : file)
    if (name.starts_with("in:"))
      tensors[name.substr(3)] = t;
    else if (name.starts_with("in"))
      tensors[free.at(static_cast<size_t>(std::stoi(name.substr(2))))] = t;
  ShapeMap shapes;
  for (const auto& [name, t] : tensors) shapes[name] = t.shape();
  // What is left are labels: they do not matter for the outputs.
  const InferredShapes inferred = symbol.infer_shape_partial(shapes);
  const std::vector<std::string> arguments = symbol.list_arguments();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!tensors.contains(arguments[i])) {
      ASSERT_TRUE(inferred.arguments[i] && inferred.arguments[i]->is_known()) << arguments[i];
      tensors[arguments[i]] = zeros(*inferred.arguments[i]);
    }
  const Tensors outputs = symbol.eval(tensors);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const Tensor* want = find_tensor(file, fmt::format("out{}", i))) {
      EXPECT_TRUE(close(outputs[i], *want, 1e-3, 1e-4)) << "output " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenModel, ::testing::ValuesIn(all_models()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace gluino::test
