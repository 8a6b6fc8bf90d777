// Models through the C interface: loading, what they take and give, running in the caller's memory, threads.
#include <cmath>
#include <thread>

#include "c_api/models.h"
#include "gluino/io.h"
#include "gluino/onnx.h"
#include "support/support.h"

namespace gluino::test {
namespace {

#define EXPECT_OK(call) EXPECT_EQ(call, GLUINO_OK) << gluino_last_error_message()
#define ASSERT_OK(call) ASSERT_EQ(call, GLUINO_OK) << gluino_last_error_message()

class CModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    perceptron_ = export_perceptron(*folder_ / "mlp").release();
    convolutions_ = export_convolutions(*folder_ / "conv").release();
  }
  static void TearDownTestSuite() {
    delete perceptron_;
    delete convolutions_;
    delete folder_;
  }
  static gluino_model load(const std::string& name) {
    gluino_model model = 0;
    EXPECT_OK(gluino_model_load((*folder_ / (name + "-symbol.json")).c_str(), nullptr, nullptr, &model));
    return model;
  }
  static std::vector<float> expected(nn::HybridSequential& net, const std::vector<float>& x, const Shape& shape) {
    return net(from_vector(x, shape)).to_vector();
  }
  static std::vector<float> random_values(size_t n, int start = 0) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = std::sin(static_cast<float>(i + 1) * 1.7f + static_cast<float>(start));
    return x;
  }
  static TemporaryFolder* folder_;
  static nn::HybridSequential *perceptron_, *convolutions_;
};
TemporaryFolder* CModel::folder_ = nullptr;
nn::HybridSequential *CModel::perceptron_ = nullptr, *CModel::convolutions_ = nullptr;

TEST_F(CModel, LoadsPairsOneFileAndMemory) {
  std::vector<float> x = random_values(32), want = expected(*perceptron_, x, {4, 8});
  const std::string graph = content_of(*folder_ / "mlp-symbol.json"), params = content_of(*folder_ / "mlp-0000.params"),
                    one = content_of(*folder_ / "mlp.gluino");
  std::vector<gluino_model> models(5);
  ASSERT_OK(gluino_model_load((*folder_ / "mlp-symbol.json").c_str(), (*folder_ / "mlp-0000.params").c_str(), nullptr, &models[0]));
  ASSERT_OK(gluino_model_load((*folder_ / "mlp-symbol.json").c_str(), nullptr, nullptr, &models[1]));
  ASSERT_OK(gluino_model_load((*folder_ / "mlp.gluino").c_str(), nullptr, nullptr, &models[2]));
  ASSERT_OK(gluino_model_load_memory(graph.data(), graph.size(), params.data(), params.size(), nullptr, &models[3]));
  ASSERT_OK(gluino_model_load_memory(one.data(), one.size(), nullptr, 0, nullptr, &models[4]));
  for (const gluino_model model : models) {
    std::vector<float> y(12);
    gluino_buffer in = buffer_of(x, {4, 8}), out = room_in(y);
    for (int call = 0; call < 3; ++call) {  // traced, compiled, compiled again
      std::fill(y.begin(), y.end(), -1.0f);
      ASSERT_OK(gluino_model_run(model, &in, 1, &out, 1));
      EXPECT_EQ(y, want);
      EXPECT_EQ(out.dtype, GLUINO_FLOAT32);
      EXPECT_EQ(Shape(out.shape, out.ndim), Shape({4, 3}));
    }
    EXPECT_OK(gluino_model_free(model));
  }
}

class COnnxModel : public CModel, public ::testing::WithParamInterface<bool> {};

TEST_P(COnnxModel, IsLoaded) {
  const std::string path = *folder_ / "mlp.onnx";
  try {
    onnx::export_model(*perceptron_, path, {{"data", {-1, 8}}});
  } catch (const SystemError& e) {
    GTEST_SKIP() << e.what();  // built without protobuf
  }
  gluino_model model;
  const std::string bytes = content_of(path);
  if (GetParam())
    ASSERT_OK(gluino_model_load_memory(bytes.data(), bytes.size(), nullptr, 0, nullptr, &model));
  else
    ASSERT_OK(gluino_model_load(path.c_str(), nullptr, nullptr, &model));
  gluino_value_info info;
  ASSERT_OK(gluino_model_input(model, 0, &info));
  EXPECT_STREQ(info.name, "data");
  EXPECT_EQ(info.dtype, GLUINO_FLOAT32);
  EXPECT_EQ(Shape(info.shape, info.ndim), Shape({-1, 8}));
  for (const int64_t n : {4, 1, 4}) {
    std::vector<float> x = random_values(static_cast<size_t>(n) * 8), y(static_cast<size_t>(n) * 3);
    gluino_buffer in = buffer_of(x, {n, 8}), out = room_in(y), inferred{};
    ASSERT_OK(gluino_model_infer(model, &in, 1, &inferred, 1));
    EXPECT_EQ(inferred.dtype, GLUINO_FLOAT32);
    ASSERT_OK(gluino_model_run(model, &in, 1, &out, 1));
    const std::vector<float> want = expected(*perceptron_, x, {n, 8});
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-6);
  }
  EXPECT_OK(gluino_model_free(model));
  EXPECT_EQ(gluino_model_load(path.c_str(), path.c_str(), nullptr, &model), GLUINO_ERROR_ARGUMENT);
  EXPECT_EQ(gluino_model_load_memory(bytes.data(), bytes.size(), bytes.data(), 1, nullptr, &model), GLUINO_ERROR_ARGUMENT);
  EXPECT_EQ(gluino_model_load_memory(bytes.data(), bytes.size() / 2, nullptr, 0, nullptr, &model), GLUINO_ERROR_SYSTEM);
}
INSTANTIATE_TEST_SUITE_P(FromFileAndMemory, COnnxModel, ::testing::Bool());

TEST_F(CModel, SaysWhatItTakesAndGives) {
  const gluino_model mlp = load("mlp"), conv = load("conv");
  size_t inputs = 0, outputs = 0;
  ASSERT_OK(gluino_model_num_inputs(mlp, &inputs));
  ASSERT_OK(gluino_model_num_outputs(mlp, &outputs));
  EXPECT_EQ(inputs, 1u);
  EXPECT_EQ(outputs, 1u);
  gluino_value_info info;
  ASSERT_OK(gluino_model_input(mlp, 0, &info));
  EXPECT_STREQ(info.name, "data");
  EXPECT_EQ(info.dtype, GLUINO_FLOAT32);
  EXPECT_EQ(Shape(info.shape, info.ndim), Shape({-1, 8}));
  ASSERT_OK(gluino_model_output(mlp, 0, &info));
  EXPECT_EQ(Shape(info.shape, info.ndim), Shape({-1, 3}));
  EXPECT_EQ(gluino_model_output(mlp, 1, &info), GLUINO_ERROR_INDEX);
  ASSERT_OK(gluino_model_input(conv, 0, &info));
  EXPECT_EQ(Shape(info.shape, info.ndim), Shape({-1, 3, -1, -1}));
  ASSERT_OK(gluino_model_output(conv, 0, &info));
  EXPECT_EQ(Shape(info.shape, info.ndim), Shape({-1, 5}));
  std::vector<float> x(5 * 8);
  gluino_buffer in = buffer_of(x, {5, 8}), out{};
  ASSERT_OK(gluino_model_infer(mlp, &in, 1, &out, 1));
  EXPECT_EQ(Shape(out.shape, out.ndim), Shape({5, 3}));
  EXPECT_EQ(out.bytes, 60u);
  EXPECT_OK(gluino_model_free(mlp));
  EXPECT_OK(gluino_model_free(conv));
}

TEST_F(CModel, TakesAnyBatchAndSizeFromCallToCall) {
  const gluino_model mlp = load("mlp"), conv = load("conv");
  for (int round = 0; round < 3; ++round)
    for (const int64_t n : {1, 5, 2, 64, 3}) {
      std::vector<float> x = random_values(static_cast<size_t>(n) * 8, round), y(static_cast<size_t>(n) * 3);
      gluino_buffer in = buffer_of(x, {n, 8}), out = room_in(y);
      ASSERT_OK(gluino_model_run(mlp, &in, 1, &out, 1));
      EXPECT_EQ(y, expected(*perceptron_, x, {n, 8}));
      const int64_t side = 8 + n;
      std::vector<float> picture = random_values(static_cast<size_t>(2 * 3 * side * side)), scores(10);
      in = buffer_of(picture, {2, 3, side, side});
      out = room_in(scores);
      ASSERT_OK(gluino_model_run(conv, &in, 1, &out, 1));
      EXPECT_EQ(scores, expected(*convolutions_, picture, {2, 3, side, side}));
    }
  EXPECT_OK(gluino_model_free(mlp));
  EXPECT_OK(gluino_model_free(conv));
}

// Old networks end in a loss whose label nobody gives for a prediction.
TEST_F(CModel, TakesAnyBatchWithoutLabels) {
  const Symbol data = sym::var("data"), scores = sym::apply("FullyConnected", {data}, {{"num_hidden", "3"}}, "fc");
  const std::string graph = sym::apply("SoftmaxOutput", {scores}, {}, "softmax").to_json();
  const std::string params = write_params({{"arg:fc_weight", random_tensor({3, 8}, DType::float32, 1)}, {"arg:fc_bias", zeros({3})}});
  gluino_model model;
  ASSERT_OK(gluino_model_load_memory(graph.data(), graph.size(), params.data(), params.size(), nullptr, &model));
  size_t inputs;
  ASSERT_OK(gluino_model_num_inputs(model, &inputs));
  EXPECT_EQ(inputs, 1u);
  std::vector<float> one, x = random_values(8);
  for (const int64_t n : {1, 2, 1, 7}) {
    std::vector<float> rows, y(static_cast<size_t>(n) * 3);
    for (int64_t i = 0; i < n; ++i) rows.insert(rows.end(), x.begin(), x.end());
    gluino_buffer in = buffer_of(rows, {n, 8}), out = room_in(y);
    ASSERT_OK(gluino_model_run(model, &in, 1, &out, 1));
    if (one.empty()) one = y;
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], one[i % 3], 1e-6);
  }
  EXPECT_OK(gluino_model_free(model));
}

TEST_F(CModel, GuessesShapesOfSeveralInputs) {
  const Symbol words = sym::apply("Embedding", {sym::var("words")}, {{"input_dim", "50"}, {"output_dim", "8"}}, "embedding");
  const Symbol weights = sym::apply("expand_dims", {sym::var("weights")}, {{"axis", "2"}});
  const std::string graph = sym::apply("sum", {sym::apply("broadcast_mul", {words, weights})}, {{"axis", "1"}}).to_json();
  const std::string params = write_params({{"arg:embedding_weight", zeros({50, 8})}});
  gluino_model model;
  ASSERT_OK(gluino_model_load_memory(graph.data(), graph.size(), params.data(), params.size(), nullptr, &model));
  gluino_value_info info;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_OK(gluino_model_input(model, i, &info));
    EXPECT_EQ(Shape(info.shape, info.ndim), Shape({-1, -1})) << info.name;
  }
  ASSERT_OK(gluino_model_output(model, 0, &info));
  EXPECT_EQ(Shape(info.shape, info.ndim), Shape({-1, 8}));
  EXPECT_OK(gluino_model_free(model));
}

TEST_F(CModel, ReadsAndWritesStridedUnalignedAndOverlappingMemory) {
  const gluino_model mlp = load("mlp");
  std::vector<float> x = random_values(32), y(12);
  const std::vector<float> want = expected(*perceptron_, x, {4, 8});
  const auto run = [&](gluino_buffer in, gluino_buffer out) {
    for (int call = 0; call < 3; ++call) ASSERT_OK(gluino_model_run(mlp, &in, 1, &out, 1));
  };
  // Column by column on both sides, as R and Fortran have it.
  std::vector<float> columns(32), results(12);
  for (size_t i = 0; i < 4; ++i)
    for (size_t k = 0; k < 8; ++k) columns[k * 4 + i] = x[i * 8 + k];
  const int64_t by_column[] = {1, 4};
  gluino_buffer in = buffer_of(columns, {4, 8}), out = buffer_of(results, {4, 3});
  in.strides = out.strides = by_column;
  run(in, out);
  for (size_t i = 0; i < 4; ++i)
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(results[k * 4 + i], want[i * 3 + k]);
  // At odd addresses.
  std::vector<char> bytes(32 * 4 + 12 * 4 + 2);
  std::memcpy(bytes.data() + 1, x.data(), 32 * 4);
  in = buffer_of(x, {4, 8});
  in.data = bytes.data() + 1;
  out = {bytes.data() + 1 + 32 * 4, 12 * 4, GLUINO_FLOAT32, 0, {}, nullptr};
  run(in, out);
  std::memcpy(y.data(), out.data, 12 * 4);
  EXPECT_EQ(y, want);
  // Over the input itself.
  for (int call = 0; call < 3; ++call) {
    std::vector<float> both = x;
    in = buffer_of(both, {4, 8});
    out = room_in(both);
    ASSERT_OK(gluino_model_run(mlp, &in, 1, &out, 1));
    EXPECT_EQ(std::vector<float>(both.begin(), both.begin() + 12), want);
  }
  EXPECT_OK(gluino_model_free(mlp));
}

TEST_F(CModel, WritesResultsWhereTheCallerWantsThem) {
  const gluino_model mlp = load("mlp");
  std::vector<float> x = random_values(8 * 4096), y(3 * 4096);
  gluino_buffer in = buffer_of(x, {4096, 8}), out = room_in(y);
  for (int call = 0; call < 2; ++call) ASSERT_OK(gluino_model_run(mlp, &in, 1, &out, 1));
  gluino_memory before, after;
  ASSERT_OK(gluino_memory_statistics(0, &before));
  ASSERT_OK(gluino_model_run(mlp, &in, 1, &out, 1));
  ASSERT_OK(gluino_memory_statistics(0, &after));
  EXPECT_EQ(after.allocations - before.allocations, 1) << "the arena for hidden values, and nothing for the result";
  EXPECT_EQ(after.live, before.live);
  EXPECT_OK(gluino_model_free(mlp));
}

TEST_F(CModel, SharesWeightsAmongThreads) {
  const gluino_model mlp = load("mlp");
  std::atomic<int> wrong = 0, refused = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int call = 0; call < 100; ++call) {
        const int64_t n = 1 + (call + t) % 5;
        std::vector<float> x = random_values(static_cast<size_t>(n) * 8, t), y(static_cast<size_t>(n) * 3);
        gluino_buffer in = buffer_of(x, {n, 8}), out = room_in(y);
        if (gluino_model_run(mlp, &in, 1, &out, 1) != GLUINO_OK || y != expected(*perceptron_, x, {n, 8})) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  // Freed while others call: every call gives the right answer or says that the handle is no model any more.
  threads.clear();
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::vector<float> x = random_values(8, t), y(3), want = expected(*perceptron_, x, {1, 8});
      gluino_buffer in = buffer_of(x, {1, 8}), out = room_in(y);
      while (true) {
        const gluino_status status = gluino_model_run(mlp, &in, 1, &out, 1);
        if (status == GLUINO_ERROR_HANDLE) break;
        if (status != GLUINO_OK || y != want) ++wrong;
      }
      ++refused;
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_OK(gluino_model_free(mlp));
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(refused, 8);
}

TEST_F(CModel, TakesOptions) {
  const char* names[] = {"data"};
  gluino_model_options options{sizeof(gluino_model_options), 3, 1, 1, 1, names};
  gluino_model model;
  const std::string path = *folder_ / "mlp-symbol.json";
  ASSERT_OK(gluino_model_load(path.c_str(), nullptr, &options, &model));
  std::vector<float> x = random_values(8), y(3);
  gluino_buffer in = buffer_of(x, {1, 8}), out = room_in(y);
  ASSERT_OK(gluino_model_run(model, &in, 1, &out, 1));
  EXPECT_EQ(y, expected(*perceptron_, x, {1, 8}));
  gluino_array result;
  ASSERT_OK(gluino_model_predict(model, &in, 1, &result, 1));
  ASSERT_OK(gluino_array_read(result, y.data(), 12));
  EXPECT_EQ(y, expected(*perceptron_, x, {1, 8}));
  EXPECT_OK(gluino_array_free(result));
  EXPECT_OK(gluino_model_free(model));
  options.device = 99;
  EXPECT_EQ(gluino_model_load(path.c_str(), nullptr, &options, &model), GLUINO_ERROR_ARGUMENT);
  options = {};
  EXPECT_EQ(gluino_model_load(path.c_str(), nullptr, &options, &model), GLUINO_ERROR_ARGUMENT);
  names[0] = "dato";
  options = {sizeof options, 0, 0, 0, 1, names};
  EXPECT_EQ(gluino_model_load(path.c_str(), nullptr, &options, &model), GLUINO_ERROR_ARGUMENT);
  EXPECT_STREQ(gluino_last_error_hint(), "did you mean 'data'?");
  EXPECT_EQ(model, 0u);
}

TEST_F(CModel, GivesBackAllMemory) {
  gluino_memory before, after;
  const auto round = [&] {
    const gluino_model mlp = load("mlp");
    std::vector<float> x = random_values(8 * 100);
    gluino_buffer in = buffer_of(x, {100, 8});
    for (int call = 0; call < 10; ++call) {
      gluino_array result;
      ASSERT_OK(gluino_model_predict(mlp, &in, 1, &result, 1));
      EXPECT_OK(gluino_array_free(result));
    }
    EXPECT_OK(gluino_model_free(mlp));
  };
  round();
  ASSERT_OK(gluino_memory_statistics(0, &before));
  for (int i = 0; i < 20; ++i) round();
  ASSERT_OK(gluino_memory_statistics(0, &after));
  EXPECT_EQ(after.live, before.live);
  EXPECT_EQ(after.models, before.models);
  EXPECT_EQ(after.arrays, before.arrays);
}

}  // namespace
}  // namespace gluino::test
