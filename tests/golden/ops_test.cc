// Operators against vectors computed by MXNet 1.9.1 (shared/golden/ops.json), forward and gradient.
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format.h"
#include "gluino/autograd.h"
#include "gluino/io.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Json = nlohmann::json;

Json cases() {
  const auto folder = shared_folder();
  return folder ? Json::parse(read_file(*folder + "/golden/ops.json")) : Json::array();
}
std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const Json& c : cases()) names.push_back(c["case"]);
  return names;
}

class GoldenOperator : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenOperator);

TEST(GoldenOperators, AreBesideTheCheckout) {
  if (!shared_folder()) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  EXPECT_GT(case_names().size(), 200u);
}

TEST_P(GoldenOperator, ForwardAndGradient) {
  Json golden;
  for (const Json& c : cases())
    if (c["case"] == GetParam()) golden = c;
  const OpDef& op = OpRegistry::global().get(golden["op"].get<std::string>());
  const Attrs attrs = op.parse_attrs(golden["attrs"].get<StringMap>());
  const NamedTensors file = load_tensors(*shared_folder() + "/golden/ops/" + GetParam() + ".npz");
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

INSTANTIATE_TEST_SUITE_P(Vectors, GoldenOperator, ::testing::ValuesIn(case_names()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace gluino::test
