#include "onnx/value.h"

#include "graph/trace.h"

namespace gluino::onnx {

template <class T>
static std::vector<T> numbers_of_tensor(const Value& value) {
  if (!value.is_readable()) return value.tensor.to_vector<T>();
  const PauseTracing pause;
  return (value.tensor.is_symbolic() && value.initial.defined() ? value.initial : value.tensor).to_vector<T>();
}

template <class T>
static std::vector<T> read_extents(const Extents& extents) {
  std::vector<T> numbers;
  for (const Extent& e : extents.items) numbers.push_back(static_cast<T>(e.read()));
  return numbers;
}

std::vector<int64_t> whole_numbers_of(const Value& value) {
  return value.extents ? read_extents<int64_t>(*value.extents) : numbers_of_tensor<int64_t>(value);
}

std::vector<double> numbers_of(const Value& value) {
  return value.extents ? read_extents<double>(*value.extents) : numbers_of_tensor<double>(value);
}

const Tensor& tensor_of(Value& value) {
  if (value.extents) {
    const std::vector<int64_t> numbers = read_extents<int64_t>(*value.extents);
    const Shape shape = value.extents->is_scalar ? Shape{} : Shape{static_cast<int64_t>(numbers.size())};
    const PauseTracing pause;
    value = Value::constant(from_vector(numbers, shape));
  }
  return value.tensor;
}

}  // namespace gluino::onnx
