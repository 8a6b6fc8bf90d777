// Arrays and operators by name through the C interface.
#include <cstring>

#include "gluino/c_api.h"
#include "gluino/op.h"
#include "support/support.h"

namespace gluino::test {
namespace {

#define EXPECT_OK(call) EXPECT_EQ(call, GLUINO_OK) << gluino_last_error_message()

gluino_array make(const std::vector<float>& values, const Shape& shape) {
  gluino_array array = 0;
  EXPECT_OK(gluino_array_create(GLUINO_FLOAT32, shape.ndim(), shape.data(), values.data(), values.size() * sizeof(float), &array));
  return array;
}
std::vector<float> values_of(gluino_array array) {
  gluino_buffer info;
  EXPECT_OK(gluino_array_info(array, &info));
  std::vector<float> values(info.bytes / sizeof(float));
  EXPECT_OK(gluino_array_read(array, values.data(), info.bytes));
  return values;
}
gluino_array call(const char* op, std::vector<gluino_array> inputs, std::vector<const char*> keys = {},
                  std::vector<const char*> values = {}) {
  gluino_array out = 0;
  size_t count = 1;
  EXPECT_OK(gluino_invoke(op, inputs.data(), inputs.size(), keys.data(), values.data(), keys.size(), &out, &count));
  EXPECT_EQ(count, 1u);
  return out;
}

TEST(CArray, HoldsWhatItIsGiven) {
  for (const DType dtype : kAllDTypes) {
    const auto number = static_cast<gluino_dtype>(dtype);
    EXPECT_EQ(gluino_dtype_name(number), dtype_name(dtype));
    EXPECT_EQ(gluino_dtype_bytes(number), static_cast<size_t>(dtype_bytes(dtype)));
    std::vector<char> bytes(6 * gluino_dtype_bytes(number), 1), back(bytes.size());
    const int64_t shape[] = {2, 3};
    gluino_array array;
    EXPECT_OK(gluino_array_create(number, 2, shape, bytes.data(), bytes.size(), &array));
    gluino_buffer info;
    EXPECT_OK(gluino_array_info(array, &info));
    EXPECT_EQ(info.dtype, number);
    EXPECT_EQ(info.bytes, bytes.size());
    EXPECT_EQ(Shape(info.shape, info.ndim), Shape({2, 3}));
    EXPECT_EQ(std::memcmp(info.data, bytes.data(), bytes.size()), 0);
    bytes[0] = 0;
    EXPECT_OK(gluino_array_write(array, bytes.data(), bytes.size()));
    EXPECT_OK(gluino_array_read(array, back.data(), back.size()));
    EXPECT_EQ(back, bytes);
    EXPECT_OK(gluino_array_free(array));
  }
  gluino_array scalar, none;
  EXPECT_OK(gluino_array_create(GLUINO_FLOAT32, 0, nullptr, nullptr, 0, &scalar));
  EXPECT_EQ(values_of(scalar), std::vector<float>{0});
  const int64_t empty[] = {3, 0};
  EXPECT_OK(gluino_array_create(GLUINO_FLOAT32, 2, empty, nullptr, 0, &none));
  EXPECT_EQ(values_of(none).size(), 0u);
  EXPECT_OK(gluino_array_free(scalar));
  EXPECT_OK(gluino_array_free(none));
}

TEST(CArray, TakesOperatorsByName) {
  const gluino_array a = make({1, 2, 3, 4, 5, 6}, {2, 3}), b = make({10, 20, 30}, {1, 3});
  const gluino_array sum = call("broadcast_add", {a, b}), total = call("sum", {sum}, {"axis", "keepdims"}, {"(1,)", "True"});
  EXPECT_EQ(values_of(sum), (std::vector<float>{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(values_of(total), (std::vector<float>{66, 75}));
  // A view of its input would be changed with it: arrays are the caller's alone.
  const gluino_array flat = call("Reshape", {a}, {"shape"}, {"(-1,)"});
  gluino_buffer info;
  EXPECT_OK(gluino_array_info(flat, &info));
  static_cast<float*>(info.data)[0] = 99;
  EXPECT_EQ(values_of(a)[0], 1);
  std::vector<gluino_array> parts(3);
  size_t count = 1;
  const char *key = "num_outputs", *value = "3";
  EXPECT_EQ(gluino_invoke("split", &a, 1, &key, &value, 1, parts.data(), &count), GLUINO_ERROR_TOO_SMALL);
  EXPECT_EQ(count, 3u);
  EXPECT_OK(gluino_invoke("split", &a, 1, &key, &value, 1, parts.data(), &count));
  EXPECT_EQ(values_of(parts[2]), (std::vector<float>{3, 6}));
  for (const gluino_array x : {a, b, sum, total, flat, parts[0], parts[1], parts[2]}) EXPECT_OK(gluino_array_free(x));
}

TEST(CArray, NamesMistakesWithOperators) {
  const gluino_array a = make({1, 2}, {2}), b = make({1, 2, 3}, {3});
  gluino_array inputs[] = {a, b}, out = 0;
  size_t count = 1;
  const char *key = "axs", *value = "1";
  EXPECT_EQ(gluino_invoke("broadcast_ad", inputs, 2, nullptr, nullptr, 0, &out, &count), GLUINO_ERROR_ARGUMENT);
  EXPECT_STREQ(gluino_last_error_hint(), "did you mean 'broadcast_add'?") << gluino_last_error_message();
  EXPECT_EQ(gluino_invoke("broadcast_add", inputs, 2, nullptr, nullptr, 0, &out, &count), GLUINO_ERROR_SHAPE);
  EXPECT_EQ(gluino_invoke("broadcast_add", inputs, 1, nullptr, nullptr, 0, &out, &count), GLUINO_ERROR_ARGUMENT);
  EXPECT_EQ(gluino_invoke("sum", inputs, 1, &key, &value, 1, &out, &count), GLUINO_ERROR_ATTRIBUTE);
  EXPECT_EQ(gluino_last_error_code(), GLUINO_ERROR_ATTRIBUTE);
  EXPECT_NE(std::string(gluino_last_error_message()).find("axs"), std::string::npos);
  EXPECT_OK(gluino_array_free(a));
  EXPECT_OK(gluino_array_free(b));
}

TEST(CArray, ListsAllOperators) {
  const char* const* names;
  size_t count;
  EXPECT_OK(gluino_operators(&names, &count));
  EXPECT_EQ(count, OpRegistry::global().names().size());
  for (size_t i = 0; i < count; ++i) EXPECT_NE(OpRegistry::global().find(names[i]), nullptr);
  for (size_t i = 1; i < count; ++i) EXPECT_LT(std::strcmp(names[i - 1], names[i]), 0);
}

// Every operator's samples through the C interface give the bits that C++ gives, or its error.
TEST(CArray, CallsEveryOperator) {
  int calls = 0;
  for (const auto& op : OpRegistry::global().all()) {
    if (op->samples.empty() || op->is_random) continue;
    const Sample& sample = op->samples[0];
    const Tensors inputs = sample_inputs(*op, sample, DType::float32, 1);
    const StringMap text = op->print_attrs(sample.attrs);
    std::vector<const char*> keys, values;
    for (const auto& [k, v] : text) keys.push_back(k.c_str()), values.push_back(v.c_str());
    std::vector<gluino_array> in, out(64);
    for (const Tensor& t : inputs) {
      gluino_array array;
      std::vector<char> bytes(static_cast<size_t>(t.nbytes()));
      t.copy_to(bytes.data());
      EXPECT_OK(gluino_array_create(static_cast<gluino_dtype>(t.dtype()), t.ndim(), t.shape().data(), bytes.data(), bytes.size(), &array));
      in.push_back(array);
    }
    size_t count = out.size();
    Tensors want;
    try {
      want = apply(*op, inputs, op->parse_attrs(text));
    } catch (const Error&) {
      EXPECT_NE(gluino_invoke(op->name.c_str(), in.data(), in.size(), keys.data(), values.data(), keys.size(), out.data(), &count),
                GLUINO_OK)
          << op->name;
      continue;
    }
    EXPECT_OK(gluino_invoke(op->name.c_str(), in.data(), in.size(), keys.data(), values.data(), keys.size(), out.data(), &count))
        << op->name;
    for (size_t i = 0; i < count; ++i) {
      std::vector<char> got(static_cast<size_t>(want[i].nbytes())), expected(got.size());
      EXPECT_OK(gluino_array_read(out[i], got.data(), got.size())) << op->name;
      want[i].copy_to(expected.data());
      EXPECT_EQ(got, expected) << op->name << ", output " << i;
      EXPECT_OK(gluino_array_free(out[i]));
    }
    for (const gluino_array x : in) EXPECT_OK(gluino_array_free(x));
    ++calls;
  }
  EXPECT_GT(calls, 100);
}

}  // namespace
}  // namespace gluino::test
