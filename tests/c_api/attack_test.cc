// Wrong handles, null pointers, wrong sizes and foreign names: a code and a message, never a crash. And what the library exports.
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "c_api/models.h"
#include "support/support.h"

namespace gluino::test {
namespace {

class CAttack : public ::testing::Test {
 protected:
  void SetUp() override {
    export_perceptron(folder_ / "mlp");
    ASSERT_EQ(gluino_model_load((folder_ / "mlp-symbol.json").c_str(), nullptr, nullptr, &model_), GLUINO_OK);
    const int64_t shape[] = {2, 8};
    ASSERT_EQ(gluino_array_create(GLUINO_FLOAT32, 2, shape, nullptr, 0, &array_), GLUINO_OK);
    in_ = buffer_of(x_, {2, 8});
    out_ = room_in(y_);
  }
  void TearDown() override {
    EXPECT_EQ(gluino_model_free(model_), GLUINO_OK);
    EXPECT_EQ(gluino_array_free(array_), GLUINO_OK);
  }
  // Every function that takes a handle.
  void use_as_model(uint64_t handle, gluino_status wanted) {
    size_t count;
    gluino_value_info info;
    gluino_array result;
    EXPECT_EQ(gluino_model_num_inputs(handle, &count), wanted);
    EXPECT_EQ(gluino_model_num_outputs(handle, &count), wanted);
    EXPECT_EQ(gluino_model_input(handle, 0, &info), wanted);
    EXPECT_EQ(gluino_model_output(handle, 0, &info), wanted);
    EXPECT_EQ(gluino_model_infer(handle, &in_, 1, &out_, 1), wanted);
    EXPECT_EQ(gluino_model_run(handle, &in_, 1, &out_, 1), wanted);
    EXPECT_EQ(gluino_model_predict(handle, &in_, 1, &result, 1), wanted);
    EXPECT_EQ(gluino_model_free(handle), wanted);
  }
  void use_as_array(uint64_t handle, gluino_status wanted) {
    gluino_buffer info;
    gluino_array result;
    size_t count = 1;
    EXPECT_EQ(gluino_array_info(handle, &info), wanted);
    EXPECT_EQ(gluino_array_read(handle, x_.data(), 64), wanted);
    EXPECT_EQ(gluino_array_write(handle, x_.data(), 64), wanted);
    EXPECT_EQ(gluino_invoke("relu", &handle, 1, nullptr, nullptr, 0, &result, &count), wanted);
    EXPECT_EQ(gluino_array_free(handle), wanted);
  }
  TemporaryFolder folder_;
  gluino_model model_ = 0;
  gluino_array array_ = 0;
  std::vector<float> x_ = std::vector<float>(16), y_ = std::vector<float>(6);
  gluino_buffer in_, out_;
};

TEST_F(CAttack, WrongHandlesAreRefused) {
  use_as_model(array_, GLUINO_ERROR_HANDLE);
  EXPECT_NE(std::string(gluino_last_error_message()).find("is the handle of an array"), std::string::npos);
  use_as_array(model_, GLUINO_ERROR_HANDLE);
  use_as_model(0, GLUINO_ERROR_HANDLE);
  use_as_array(0, GLUINO_ERROR_HANDLE);
  gluino_array freed;
  ASSERT_EQ(gluino_array_create(GLUINO_INT8, 0, nullptr, nullptr, 0, &freed), GLUINO_OK);
  ASSERT_EQ(gluino_array_free(freed), GLUINO_OK);
  use_as_array(freed, GLUINO_ERROR_HANDLE);
  // The place is given out again, and the old handle stays wrong.
  gluino_array next;
  ASSERT_EQ(gluino_array_create(GLUINO_INT8, 0, nullptr, nullptr, 0, &next), GLUINO_OK);
  use_as_array(freed, GLUINO_ERROR_HANDLE);
  EXPECT_EQ(gluino_array_free(next), GLUINO_OK);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    // Anything, and numbers near to the good ones.
    const uint64_t handles[] = {random(),
                                random() >> 11,
                                model_ ^ (uint64_t{1} << random() % 64),
                                array_ ^ (uint64_t{1} << random() % 64),
                                reinterpret_cast<uint64_t>(&handles),
                                i + 1u};
    for (const uint64_t handle : handles) {
      size_t count;
      gluino_buffer info;
      ASSERT_EQ(gluino_model_num_inputs(handle, &count), GLUINO_ERROR_HANDLE);
      ASSERT_EQ(gluino_array_info(handle, &info), GLUINO_ERROR_HANDLE);
    }
  }
  EXPECT_LT(model_, uint64_t{1} << 53) << "a double must hold it";
}

TEST_F(CAttack, NullPointersAreRefused) {
  size_t count = 1;
  gluino_array out;
  const int64_t shape[] = {2};
  const char *key = "axis", *null = nullptr;
  const std::string path = folder_ / "mlp-symbol.json";
  gluino_model model;
  gluino_model_options options{sizeof options, 0, 0, 0, 1, nullptr};
  const gluino_status results[] = {gluino_model_load(nullptr, nullptr, nullptr, &model),
                                   gluino_model_load(path.c_str(), nullptr, nullptr, nullptr),
                                   gluino_model_load(path.c_str(), nullptr, &options, &model),
                                   gluino_model_load_memory(nullptr, 3, nullptr, 0, nullptr, &model),
                                   gluino_model_load_memory("{}", 2, nullptr, 9, nullptr, &model),
                                   gluino_model_load_memory("{}", 2, nullptr, 0, nullptr, nullptr),
                                   gluino_model_num_inputs(model_, nullptr),
                                   gluino_model_num_outputs(model_, nullptr),
                                   gluino_model_input(model_, 0, nullptr),
                                   gluino_model_output(model_, 0, nullptr),
                                   gluino_model_infer(model_, nullptr, 1, &out_, 1),
                                   gluino_model_infer(model_, &in_, 1, nullptr, 1),
                                   gluino_model_run(model_, nullptr, 1, &out_, 1),
                                   gluino_model_run(model_, &in_, 1, nullptr, 1),
                                   gluino_model_predict(model_, nullptr, 1, &out, 1),
                                   gluino_model_predict(model_, &in_, 1, nullptr, 1),
                                   gluino_array_create(GLUINO_FLOAT32, 1, nullptr, nullptr, 0, &out),
                                   gluino_array_create(GLUINO_FLOAT32, 1, shape, nullptr, 0, nullptr),
                                   gluino_array_info(array_, nullptr),
                                   gluino_array_read(array_, nullptr, 64),
                                   gluino_array_write(array_, nullptr, 64),
                                   gluino_invoke(nullptr, &array_, 1, nullptr, nullptr, 0, &out, &count),
                                   gluino_invoke("relu", nullptr, 1, nullptr, nullptr, 0, &out, &count),
                                   gluino_invoke("relu", &array_, 1, nullptr, nullptr, 0, nullptr, &count),
                                   gluino_invoke("relu", &array_, 1, nullptr, nullptr, 0, &out, nullptr),
                                   gluino_invoke("sum", &array_, 1, nullptr, nullptr, 1, &out, &count),
                                   gluino_invoke("sum", &array_, 1, &key, &null, 1, &out, &count),
                                   gluino_operators(nullptr, &count),
                                   gluino_memory_statistics(0, nullptr)};
  for (size_t i = 0; i < std::size(results); ++i) EXPECT_EQ(results[i], GLUINO_ERROR_ARGUMENT) << "call " << i;
}

TEST_F(CAttack, WrongSizesAndTypesAreRefused) {
  const auto run = [&](auto change, gluino_status wanted, const char* text) {
    gluino_buffer in = in_, out = out_;
    change(in, out);
    EXPECT_EQ(gluino_model_run(model_, &in, 1, &out, 1), wanted) << gluino_last_error_message();
    EXPECT_NE(std::string(gluino_last_error_message()).find(text), std::string::npos) << gluino_last_error_message();
  };
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  for (int call = 0; call < 2; ++call) {
    out_ = room_in(y_);
    run([](auto& in, auto&) { in.data = nullptr; }, GLUINO_ERROR_ARGUMENT, "inputs[0].data is a null pointer");
    run([](auto&, auto& out) { out.data = nullptr; }, GLUINO_ERROR_ARGUMENT, "outputs[0].data is a null pointer");
    run([](auto& in, auto&) { in.bytes = 63; }, GLUINO_ERROR_TOO_SMALL, "64 bytes, the buffer 63");
    run([](auto&, auto& out) { out.bytes = 23; }, GLUINO_ERROR_TOO_SMALL, "24 bytes; the buffer has 23");
    run([](auto& in, auto&) { in.dtype = 8; }, GLUINO_ERROR_DTYPE, "8 is no dtype");
    run([](auto&, auto& out) { out.dtype = GLUINO_INT32; }, GLUINO_ERROR_DTYPE, "int32 was expected");
    run([](auto& in, auto&) { in.ndim = -1; }, GLUINO_ERROR_SHAPE, "-1 axes");
    run([](auto& in, auto&) { in.ndim = 33; }, GLUINO_ERROR_SHAPE, "33 axes");
    run([](auto& in, auto&) { in.shape[0] = -2; }, GLUINO_ERROR_SHAPE, "(-2, 8)");
    run([](auto& in, auto&) { in.shape[0] = kHuge; }, GLUINO_ERROR_SHAPE, "is not possible");
    run([](auto& in, auto&) { in.shape[0] = in.shape[1] = int64_t{1} << 46; }, GLUINO_ERROR_SHAPE, "");
    run([](auto& in, auto&) { in.shape[0] = 8, in.shape[1] = 2; }, GLUINO_ERROR_SHAPE, "");
    static const int64_t negative[] = {-8, 1}, huge[] = {kHuge, kHuge}, wide[] = {9, 1};
    run([](auto& in, auto&) { in.strides = negative; }, GLUINO_ERROR_ARGUMENT, "must not be negative");
    run([](auto& in, auto&) { in.strides = huge; }, GLUINO_ERROR_ARGUMENT, "lead out of all memory");
    run([](auto& in, auto&) { in.strides = wide; }, GLUINO_ERROR_TOO_SMALL, "68 bytes");
    run([](auto&, auto& out) { out.strides = wide; }, GLUINO_ERROR_SHAPE, "strides were given for");
    EXPECT_EQ(gluino_model_run(model_, &in_, 2, &out_, 1), GLUINO_ERROR_ARGUMENT);
    EXPECT_EQ(gluino_model_run(model_, &in_, 0, &out_, 1), GLUINO_ERROR_ARGUMENT);
    EXPECT_NE(std::string(gluino_last_error_message()).find("1 are needed: data"), std::string::npos) << gluino_last_error_message();
    EXPECT_EQ(gluino_model_run(model_, &in_, 1, &out_, 2), GLUINO_ERROR_ARGUMENT);
    EXPECT_EQ(gluino_model_run(model_, &in_, 1, &out_, 1), GLUINO_OK);  // and the model is as good as before
    EXPECT_EQ(gluino_model_run(model_, &in_, 1, nullptr, 0), GLUINO_OK);
  }
  gluino_array out;
  const int64_t shape[] = {int64_t{1} << 40}, negative[] = {-1};
  EXPECT_EQ(gluino_array_create(GLUINO_FLOAT64, 1, shape, nullptr, 0, &out), GLUINO_ERROR_SYSTEM) << "more than the machine has";
  EXPECT_EQ(gluino_array_create(GLUINO_FLOAT64, 1, negative, nullptr, 0, &out), GLUINO_ERROR_SHAPE);
  EXPECT_EQ(gluino_array_create(GLUINO_FLOAT64, -7, shape, nullptr, 0, &out), GLUINO_ERROR_SHAPE);
  EXPECT_EQ(gluino_array_create(99, 0, nullptr, nullptr, 0, &out), GLUINO_ERROR_DTYPE);
  EXPECT_EQ(gluino_array_create(GLUINO_FLOAT32, 0, nullptr, "abc", 3, &out), GLUINO_ERROR_TOO_SMALL);
  EXPECT_EQ(gluino_array_read(array_, x_.data(), 63), GLUINO_ERROR_TOO_SMALL);
  EXPECT_EQ(gluino_array_write(array_, x_.data(), 63), GLUINO_ERROR_TOO_SMALL);
  EXPECT_EQ(gluino_set_num_threads(0), GLUINO_ERROR_ARGUMENT);
  gluino_memory memory;
  EXPECT_EQ(gluino_memory_statistics(-1, &memory), GLUINO_ERROR_ARGUMENT);
  EXPECT_EQ(gluino_memory_release_cached(99), GLUINO_ERROR_ARGUMENT);
  EXPECT_EQ(gluino_dtype_name(99), nullptr);
  EXPECT_EQ(gluino_dtype_bytes(-1), 0u);
}

TEST_F(CAttack, MissingAndForeignFilesAreNamed) {
  gluino_model model;
  EXPECT_EQ(gluino_model_load("/nowhere/net-symbol.json", nullptr, nullptr, &model), GLUINO_ERROR_SYSTEM);
  EXPECT_NE(std::string(gluino_last_error_message()).find("/nowhere/net-symbol.json"), std::string::npos);
  EXPECT_NE(gluino_model_load((folder_ / "mlp-0000.params").c_str(), nullptr, nullptr, &model), GLUINO_OK);
  EXPECT_NE(gluino_model_load((folder_ / "mlp-symbol.json").c_str(), (folder_ / "mlp-symbol.json").c_str(), nullptr, &model), GLUINO_OK);
  EXPECT_NE(gluino_model_load_memory("", 0, nullptr, 0, nullptr, &model), GLUINO_OK);
  EXPECT_EQ(model, 0u);
  std::filesystem::copy(folder_ / "mlp-0000.params", folder_ / "mlp-0010.params");
  EXPECT_EQ(gluino_model_load((folder_ / "mlp-symbol.json").c_str(), nullptr, nullptr, &model), GLUINO_ERROR_ARGUMENT);
  EXPECT_STREQ(gluino_last_error_hint(), "say in params_path which one is meant");
}

TEST_F(CAttack, ErrorsBelongToTheirThread) {
  EXPECT_EQ(gluino_model_free(1), GLUINO_ERROR_HANDLE);
  const std::string mine = gluino_last_error_message();
  std::thread([] {
    EXPECT_EQ(gluino_last_error_code(), GLUINO_OK);
    EXPECT_STREQ(gluino_last_error_message(), "");
    EXPECT_STREQ(gluino_last_error_hint(), "");
    EXPECT_EQ(gluino_set_num_threads(-4), GLUINO_ERROR_ARGUMENT);
  }).join();
  EXPECT_EQ(gluino_last_error_message(), mine);
  EXPECT_EQ(gluino_last_error_code(), GLUINO_ERROR_HANDLE);
  std::set<std::string> names;
  for (gluino_status s = -1; s < 12; ++s) names.insert(gluino_status_name(s));
  EXPECT_EQ(names.size(), 12u);
}

std::vector<std::string> lines_of(const std::string& command) {
  std::vector<std::string> lines;
  FILE* pipe = popen(command.c_str(), "r");
  char line[1024];
  while (pipe && std::fgets(line, sizeof line, pipe)) lines.emplace_back(line, std::strcspn(line, "\n"));
  EXPECT_TRUE(pipe && pclose(pipe) == 0) << command;
  return lines;
}

TEST(CLibrary, ExportsTheNamesOfItsHeaderAlone) {
  std::set<std::string> declared, exported;
  const std::string header = content_of(GLUINO_SOURCE_DIR "/include/gluino/c_api.h");
  const std::regex declaration(R"(GLUINO_C_API [^;]*?\b(gluino_\w+)\()");
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it) declared.insert((*it)[1]);
  for (const std::string& line : lines_of("nm -D --defined-only " GLUINO_C_LIBRARY)) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (name.starts_with("GLUINO_C_1")) continue;  // the version itself
    exported.insert(name.substr(0, name.find('@')));
  }
  EXPECT_EQ(exported, declared);
  EXPECT_GT(declared.size(), 25u);
  bool has_soname = false;
  for (const std::string& line : lines_of("objdump -p " GLUINO_C_LIBRARY))
    has_soname |= line.find("SONAME") != std::string::npos && line.ends_with("libgluino_c.so.1");
  EXPECT_TRUE(has_soname);
  EXPECT_EQ(gluino_c_api_version(), GLUINO_C_API_VERSION);
  EXPECT_EQ(std::string(gluino_version()).find('.'), 1u);
}

}  // namespace
}  // namespace gluino::test
