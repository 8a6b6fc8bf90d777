// Gluino for C++17 over its C interface: for programs that must not depend on the C++ ABI of the library.
//   gluino_c::Model net("net-symbol.json");
//   gluino_c::Array y = net(gluino_c::Array({1, 512}, x))[0];
// Needs gluino/c_api.h and -lgluino_c alone. Every object may be used from several threads at once.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gluino/c_api.h"

namespace gluino_c {

class Error : public std::runtime_error {
 public:
  Error(gluino_status code, const std::string& message, std::string hint)
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}
  gluino_status code() const { return code_; }
  const std::string& hint() const { return hint_; }  // what to do; "" where the message says it all

 private:
  gluino_status code_;
  std::string hint_;
};

inline void check(gluino_status status) {
  if (status != GLUINO_OK) throw Error(status, gluino_last_error_message(), gluino_last_error_hint());
}

template <class T>
struct DType;
template <>
struct DType<float> {
  static constexpr gluino_dtype value = GLUINO_FLOAT32;
};
template <>
struct DType<double> {
  static constexpr gluino_dtype value = GLUINO_FLOAT64;
};
template <>
struct DType<int8_t> {
  static constexpr gluino_dtype value = GLUINO_INT8;
};
template <>
struct DType<uint8_t> {
  static constexpr gluino_dtype value = GLUINO_UINT8;
};
template <>
struct DType<int32_t> {
  static constexpr gluino_dtype value = GLUINO_INT32;
};
template <>
struct DType<int64_t> {
  static constexpr gluino_dtype value = GLUINO_INT64;
};
template <>
struct DType<bool> {
  static constexpr gluino_dtype value = GLUINO_BOOL;
};

using Shape = std::vector<int64_t>;
using Attributes = std::vector<std::pair<std::string, std::string>>;  // as files spell them: {{"axis", "(0, 1)"}}

// A view of memory of the caller's in row-major order, as an input, or as room for an output.
template <class T>
gluino_buffer buffer(T* data, const Shape& shape) {
  gluino_buffer b{};
  if (shape.size() > GLUINO_MAX_AXES) throw Error(GLUINO_ERROR_SHAPE, "too many axes", "");
  b.data = const_cast<std::remove_const_t<T>*>(data);
  b.dtype = DType<std::remove_const_t<T>>::value;
  b.ndim = static_cast<int32_t>(shape.size());
  b.bytes = sizeof(T);
  for (size_t i = 0; i < shape.size(); ++i) {
    b.shape[i] = shape[i];
    b.bytes *= static_cast<size_t>(shape[i]);
  }
  return b;
}

class Array;
std::vector<Array> invoke(const std::string& op, const std::vector<const Array*>& inputs, const Attributes& attributes);

// An array of the library's; freed with the object.
class Array {
 public:
  explicit Array(gluino_array handle) : handle_(handle) {}
  template <class T>
  Array(const Shape& shape, const std::vector<T>& values) {
    check(gluino_array_create(DType<T>::value, static_cast<int32_t>(shape.size()), shape.data(), values.data(), values.size() * sizeof(T),
                              &handle_));
  }
  Array(Array&& o) noexcept : handle_(std::exchange(o.handle_, 0)) {}
  Array& operator=(Array&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Array() {
    if (handle_) gluino_array_free(handle_);
  }

  gluino_array handle() const { return handle_; }
  gluino_buffer info() const {
    gluino_buffer b;
    check(gluino_array_info(handle_, &b));
    return b;
  }
  Shape shape() const {
    const gluino_buffer b = info();
    return Shape(b.shape, b.shape + b.ndim);
  }
  gluino_dtype dtype() const { return info().dtype; }
  template <class T>
  T* data() const {
    const gluino_buffer b = info();
    if (b.dtype != DType<T>::value)
      throw Error(GLUINO_ERROR_DTYPE, std::string("the array is ") + gluino_dtype_name(b.dtype), "ask for that type");
    return static_cast<T*>(b.data);
  }
  template <class T>
  std::vector<T> to_vector() const {
    const gluino_buffer b = info();
    const T* first = data<T>();
    return std::vector<T>(first, first + b.bytes / sizeof(T));
  }

  // Any operator by its name, with this array as its first input: x.call("sum", {}, {{"axis", "1"}}).
  Array call(const std::string& op, const std::vector<const Array*>& others = {}, const Attributes& attributes = {}) const {
    std::vector<const Array*> inputs{this};
    inputs.insert(inputs.end(), others.begin(), others.end());
    return std::move(invoke(op, inputs, attributes).at(0));
  }
  friend Array operator+(const Array& a, const Array& b) { return a.call("broadcast_add", {&b}); }
  friend Array operator-(const Array& a, const Array& b) { return a.call("broadcast_sub", {&b}); }
  friend Array operator*(const Array& a, const Array& b) { return a.call("broadcast_mul", {&b}); }
  friend Array operator/(const Array& a, const Array& b) { return a.call("broadcast_div", {&b}); }

 private:
  gluino_array handle_ = 0;
};

inline std::vector<Array> invoke(const std::string& op, const std::vector<const Array*>& inputs, const Attributes& attributes = {}) {
  std::vector<gluino_array> handles, results(1);
  std::vector<const char*> keys, values;
  for (const Array* a : inputs) handles.push_back(a->handle());
  for (const auto& [key, value] : attributes) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  const auto call = [&](size_t* count) {
    return gluino_invoke(op.c_str(), handles.data(), handles.size(), keys.data(), values.data(), keys.size(), results.data(), count);
  };
  size_t count = results.size();
  gluino_status status = call(&count);
  if (status == GLUINO_ERROR_TOO_SMALL) {
    results.resize(count);
    status = call(&count);
  }
  check(status);
  std::vector<Array> arrays;
  for (size_t i = 0; i < count; ++i) arrays.emplace_back(results[i]);
  return arrays;
}

struct Value {
  std::string name;
  gluino_dtype dtype;  // GLUINO_ANY_DTYPE: not known before the call
  bool has_shape;
  Shape shape;  // -1: an extent that may change from call to call
};

// A loaded model; freed with the object.
class Model {
 public:
  // <name>-symbol.json with the parameters beside it, or with `params`; or a model in one file.
  explicit Model(const std::string& path, const std::string& params = "") {
    check(gluino_model_load(path.c_str(), params.empty() ? nullptr : params.c_str(), nullptr, &handle_));
  }
  static Model from_memory(const std::string& graph, const std::string& params = "") {
    gluino_model handle;
    check(gluino_model_load_memory(graph.data(), graph.size(), params.empty() ? nullptr : params.data(), params.size(), nullptr, &handle));
    return Model(handle);
  }
  Model(Model&& o) noexcept : handle_(std::exchange(o.handle_, 0)) {}
  Model& operator=(Model&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Model() {
    if (handle_) gluino_model_free(handle_);
  }

  gluino_model handle() const { return handle_; }
  std::vector<Value> inputs() const { return values(gluino_model_num_inputs, gluino_model_input); }
  std::vector<Value> outputs() const { return values(gluino_model_num_outputs, gluino_model_output); }

  // Into memory of the caller's; what the outputs are is written into the buffers.
  void run(const std::vector<gluino_buffer>& inputs, std::vector<gluino_buffer>& outputs) const {
    check(gluino_model_run(handle_, inputs.data(), inputs.size(), outputs.data(), outputs.size()));
  }
  // Into new arrays.
  std::vector<Array> predict(const std::vector<gluino_buffer>& inputs) const {
    size_t count;
    check(gluino_model_num_outputs(handle_, &count));
    std::vector<gluino_array> results(count);
    check(gluino_model_predict(handle_, inputs.data(), inputs.size(), results.data(), count));
    std::vector<Array> arrays;
    for (const gluino_array handle : results) arrays.emplace_back(handle);
    return arrays;
  }
  template <class... A>
  std::vector<Array> operator()(const A&... inputs) const {
    return predict({inputs.info()...});
  }

 private:
  explicit Model(gluino_model handle) : handle_(handle) {}
  template <class Count, class Tell>
  std::vector<Value> values(Count count_of, Tell tell) const {
    size_t count;
    check(count_of(handle_, &count));
    std::vector<Value> all;
    for (size_t i = 0; i < count; ++i) {
      gluino_value_info v;
      check(tell(handle_, i, &v));
      all.push_back({v.name, v.dtype, v.ndim >= 0, Shape(v.shape, v.shape + (v.ndim > 0 ? v.ndim : 0))});
    }
    return all;
  }
  gluino_model handle_ = 0;
};

}  // namespace gluino_c
