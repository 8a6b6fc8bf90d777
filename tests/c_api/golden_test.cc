// Models of ten years through the C interface: they give the outputs that MXNet 1.9.1 recorded.
#include <cmath>
#include <filesystem>

#include "gluino/c_api.h"
#include "gluino/io.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> stems() {
  std::vector<std::string> found;
  const auto shared = shared_folder();
  for (const char* folder : {"/golden/models", "/models"})
    if (shared && fs::exists(*shared + folder))
      for (const auto& entry : fs::recursive_directory_iterator(*shared + folder))
        if (const std::string path = entry.path().string(); path.ends_with("-io.npz")) found.push_back(path.substr(0, path.size() - 7));
  return found;
}
std::string parameters_of(const std::string& stem) {
  for (const auto& sibling : fs::directory_iterator(fs::path(stem).parent_path()))
    if (sibling.path().string().starts_with(stem + "-0")) return sibling.path().string();
  return "";
}

class CGoldenModel : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CGoldenModel);

gluino_buffer buffer_on(const Tensor& t, std::vector<char>& bytes) {
  bytes.resize(static_cast<size_t>(t.nbytes()));
  t.copy_to(bytes.data());
  gluino_buffer b{bytes.data(), bytes.size(), static_cast<gluino_dtype>(t.dtype()), t.ndim(), {}, nullptr};
  std::copy(t.shape().begin(), t.shape().end(), b.shape);
  return b;
}

bool has_free_batch(gluino_model model, size_t num_inputs) {
  bool is_free = true;
  for (size_t i = 0; i < num_inputs; ++i) {
    gluino_value_info info;
    EXPECT_EQ(gluino_model_input(model, i, &info), GLUINO_OK) << gluino_last_error_message();
    is_free &= info.ndim > 0 && info.shape[0] == -1;
  }
  return is_free;
}

std::vector<float> first_output(gluino_model model, const std::vector<gluino_buffer>& inputs, size_t num_outputs) {
  std::vector<gluino_array> results(num_outputs);
  gluino_buffer info{};
  EXPECT_EQ(gluino_model_predict(model, inputs.data(), inputs.size(), results.data(), num_outputs), GLUINO_OK)
      << gluino_last_error_message();
  EXPECT_EQ(gluino_array_info(results[0], &info), GLUINO_OK);
  const auto* first = static_cast<const float*>(info.data);
  std::vector<float> values(first, first + info.bytes / sizeof(float));
  for (const gluino_array r : results) gluino_array_free(r);
  return values;
}

// Where the first extent is said to be free, twice the batch must be taken, and give every row twice.
void expect_rows_of_their_own(gluino_model model, const std::vector<gluino_buffer>& inputs, size_t num_outputs) {
  if (!has_free_batch(model, inputs.size())) return;
  std::vector<std::vector<char>> memory;
  std::vector<gluino_buffer> twice = inputs;
  for (gluino_buffer& b : twice) {
    if (b.ndim == 0 || b.shape[0] != 1) return;
    const char* bytes = static_cast<const char*>(b.data);
    memory.emplace_back(bytes, bytes + b.bytes).insert(memory.back().end(), bytes, bytes + b.bytes);
    b.data = memory.back().data();
    b.bytes *= 2;
    b.shape[0] = 2;
  }
  const std::vector<float> one = first_output(model, inputs, num_outputs), two = first_output(model, twice, num_outputs);
  ASSERT_EQ(two.size(), 2 * one.size());
  for (size_t i = 0; i < two.size(); ++i) ASSERT_NEAR(two[i], one[i % one.size()], 1e-4 + 1e-3 * std::abs(two[i])) << i;
}

TEST_P(CGoldenModel, GivesTheRecordedOutputs) {
  const std::string& stem = GetParam();
  const NamedTensors file = load_tensors(stem + "-io.npz");
  gluino_model model = 0;
  ASSERT_EQ(gluino_model_load((stem + "-symbol.json").c_str(), parameters_of(stem).c_str(), nullptr, &model), GLUINO_OK)
      << gluino_last_error_message();
  size_t num_inputs, num_outputs;
  ASSERT_EQ(gluino_model_num_inputs(model, &num_inputs), GLUINO_OK);
  ASSERT_EQ(gluino_model_num_outputs(model, &num_outputs), GLUINO_OK);
  std::vector<std::vector<char>> memory(num_inputs);
  std::vector<gluino_buffer> inputs(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) {
    gluino_value_info info;
    ASSERT_EQ(gluino_model_input(model, i, &info), GLUINO_OK) << gluino_last_error_message();
    // Numbered inputs belong to the variables without parameters, in their order.
    const Tensor* given = find_tensor(file, std::string("in:") + info.name);
    if (!given) given = find_tensor(file, "in" + std::to_string(i));
    ASSERT_TRUE(given) << info.name;
    inputs[i] = buffer_on(*given, memory[i]);
  }
  for (int call = 0; call < 3; ++call) {  // as traced, and compiled
    std::vector<gluino_array> results(num_outputs);
    ASSERT_EQ(gluino_model_predict(model, inputs.data(), num_inputs, results.data(), num_outputs), GLUINO_OK)
        << gluino_last_error_message();
    for (size_t i = 0; i < num_outputs; ++i) {
      if (const Tensor* want = find_tensor(file, "out" + std::to_string(i))) {
        gluino_buffer info;
        ASSERT_EQ(gluino_array_info(results[i], &info), GLUINO_OK);
        ASSERT_EQ(info.dtype, GLUINO_FLOAT32);
        const Tensor got = from_data(static_cast<const float*>(info.data), Shape(info.shape, info.ndim));
        EXPECT_TRUE(close(got, *want, 1e-4, 1e-4)) << "output " << i;
      }
      EXPECT_EQ(gluino_array_free(results[i]), GLUINO_OK);
    }
  }
  expect_rows_of_their_own(model, inputs, num_outputs);
  EXPECT_EQ(gluino_model_free(model), GLUINO_OK);
}

INSTANTIATE_TEST_SUITE_P(Files, CGoldenModel, ::testing::ValuesIn(stems()), [](const auto& info) {
  std::string name = fs::path(info.param).parent_path().filename().string() + "_" + fs::path(info.param).filename().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace gluino::test
