// Operators against recorded vectors, forward and gradient.
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format.h"
#include "gluino/autograd.h"
#include "gluino/io.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Json = nlohmann::json;

// Where vectors come from: computed by MXNet, beside the checkout, or by tools/make_vectors.py, in the repository.
struct Vectors {
  Json cases;
  std::function<NamedTensors(const std::string& name)> load;  // in0, out0, ...
};

Vectors vectors_of_mxnet() {
  const auto folder = shared_folder();
  if (!folder) return {Json::array(), {}};
  return {Json::parse(read_file(*folder + "/golden/ops.json")),
          [folder](const std::string& name) { return load_tensors(*folder + "/golden/ops/" + name + ".npz"); }};
}
Vectors vectors_of_our_own() {
  const std::string folder = GLUINO_SOURCE_DIR "/tests/golden/";
  return {Json::parse(read_file(folder + "vectors.json")), [all = load_tensors(folder + "vectors.npz")](const std::string& name) {
            NamedTensors found;
            for (const auto& [key, value] : all)
              if (key.starts_with(name + ".")) found.emplace_back(key.substr(name.size() + 1), value);
            return found;
          }};
}

std::vector<std::string> names_of(const Vectors& vectors) {
  std::vector<std::string> names;
  for (const Json& c : vectors.cases) names.push_back(c["case"]);
  return names;
}

void check_case(const Vectors& vectors, const std::string& name) {
  Json golden;
  for (const Json& c : vectors.cases)
    if (c["case"] == name) golden = c;
  const OpDef& op = OpRegistry::global().get(golden["op"].get<std::string>());
  const Attrs attrs = op.parse_attrs(golden["attrs"].get<StringMap>());
  const NamedTensors file = vectors.load(name);
  const bool train = golden["train_mode"], with_gradient = golden["grad"];

  Tensors inputs;
  for (int i = 0; i < golden["inputs"]; ++i) {
    inputs.push_back(*find_tensor(file, fmt::format("in{}", i)));
    if (with_gradient) inputs.back().attach_grad();
  }
  Tensors outputs;
  {
    const auto record = autograd::record(train);
    outputs = apply(op, inputs, attrs);
  }
  const size_t visible = golden["outputs"].get<size_t>();
  EXPECT_EQ(static_cast<size_t>(op.num_visible_outputs(attrs)), visible);
  ASSERT_GE(outputs.size(), visible);
  outputs.resize(visible);
  for (size_t i = 0; i < visible; ++i)
    EXPECT_TRUE(close(outputs[i], *find_tensor(file, fmt::format("out{}", i)), 1e-4, 1e-5)) << "output " << i;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const Tensor* aux = find_tensor(file, fmt::format("aux{}", i))) {
      EXPECT_TRUE(close(inputs[i], *aux, 1e-4, 1e-5)) << "state " << i;
    }
  if (!with_gradient) return;

  Tensors heads, kept;
  for (size_t i = 0; i < visible; ++i) heads.push_back(*find_tensor(file, fmt::format("head{}", i)));
  try {
    autograd::backward(outputs, heads, {.train_mode = train});
  } catch (const UserError& e) {
    FAIL() << e.what();
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const Tensor* want = find_tensor(file, fmt::format("grad{}", i))) {
      EXPECT_TRUE(close(inputs[i].grad(), *want, 1e-3, 1e-4)) << "gradient " << i;
    }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

class GoldenOperator : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenOperator);
TEST(GoldenOperators, AreBesideTheCheckout) {
  if (!shared_folder()) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  EXPECT_GT(names_of(vectors_of_mxnet()).size(), 200u);
}
TEST_P(GoldenOperator, ForwardAndGradient) { check_case(vectors_of_mxnet(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(Vectors, GoldenOperator, ::testing::ValuesIn(names_of(vectors_of_mxnet())), test_name);

class OwnVectors : public ::testing::TestWithParam<std::string> {};
TEST_P(OwnVectors, ForwardAndGradient) {
  static const Vectors vectors = vectors_of_our_own();
  check_case(vectors, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Vectors, OwnVectors, ::testing::ValuesIn(names_of(vectors_of_our_own())), test_name);

}  // namespace
}  // namespace gluino::test
