// What a name of an ONNX graph stands for while it runs: a tensor, or whole numbers that came from shapes.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "gluino/tensor.h"

namespace gluino::onnx {

// One whole number of shape arithmetic. Reading an extent of a traced tensor fixes it for the trace, so it is put off until a rule has no
// other way: most only pass extents on to Reshape, which has codes for them.
struct Extent {
  std::optional<int64_t> number;
  Tensor of;  // else extent `axis` of this tensor
  int axis = 0;
  std::function<int64_t()> compute;  // else this
  int64_t read() const { return number ? *number : of.defined() ? of.extent(axis) : compute(); }
};

struct Extents {
  std::vector<Extent> items;
  bool is_scalar = false;
};

struct Value {
  // constant: the same at every call, so that its numbers may be read; parameter: may be read too, but is trained.
  enum class Kind : uint8_t { absent, computed, parameter, constant } kind = Kind::absent;
  Tensor tensor;                     // null while only the extents are known
  std::shared_ptr<Extents> extents;  // null: a tensor like any other
  Tensor initial = {};               // of a parameter: what the file holds, for numbers where the tensor is a symbol

  static Value computed(Tensor t) { return {Kind::computed, std::move(t), nullptr}; }
  static Value constant(Tensor t) { return {Kind::constant, std::move(t), nullptr}; }
  static Value of_extents(Extents e) { return {Kind::computed, {}, std::make_shared<Extents>(std::move(e))}; }
  bool is_readable() const { return kind == Kind::constant || kind == Kind::parameter; }
};
using Values = std::vector<Value>;

// Numbers of a tensor. Of a constant they are read aside from a trace; of others the trace ends a segment there.
std::vector<int64_t> whole_numbers_of(const Value& value);
std::vector<double> numbers_of(const Value& value);
// The value as a tensor; extents are read, and give a constant.
const Tensor& tensor_of(Value& value);

}  // namespace gluino::onnx
