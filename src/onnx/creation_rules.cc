// Constants and random numbers.
#include "base/format.h"
#include "gluino/random.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

Tensor constant(Call& c) {
  const auto text_refused = [&] { c.refuse("it holds text or a sparse tensor; only dense numbers can be imported"); };
  if (c.has_attribute("value")) {
    if (c.attribute("value").kind != Attribute::Kind::tensor) text_refused();
    return c.attribute("value").tensor;
  }
  if (c.has_attribute("value_int")) return from_vector(std::vector<int64_t>{c.integer("value_int", 0)}, Shape{});
  if (c.has_attribute("value_float")) return constant_of(c.number("value_float", 0), DType::float32);
  if (c.has_attribute("value_ints")) return from_vector(c.integers("value_ints"));
  if (c.has_attribute("value_floats")) return vector_of(c.numbers("value_floats"), DType::float32);
  text_refused();
  return {};
}

Tensor filled(Call& c) {
  const Shape shape = to_shape(c.whole_numbers(0));
  if (!c.has_attribute("value")) return zeros(shape, {.dtype = DType::float32});
  const Tensor& value = c.attribute("value").tensor;
  if (!value.defined() || value.size() != 1) raise<AttrError>("attribute 'value' must hold one number");
  return full(shape, value.to_vector<double>()[0], {.dtype = value.dtype()});
}

Tensor range(Call& c) {
  const double start = c.number(0), limit = c.number(1), step = c.number(2);
  const DType dtype = c.value(0).extents ? DType::int64 : c.in(0).dtype();
  if (step == 0) raise<UserError>("the step is 0");
  const auto n = static_cast<int64_t>(std::max(0.0, std::ceil((limit - start) / step)));
  if (n == 0) return zeros({0}, {.dtype = dtype});
  return (arange(static_cast<double>(n), {.dtype = DType::float64}) * step + start).astype(dtype);
}

Tensor eye_like(Call& c) {
  const Tensor& x = c.in(0);
  const DType dtype = c.has_attribute("dtype") ? carrier(static_cast<ElementType>(c.integer("dtype", 1)), "the result") : x.dtype();
  return eye(x.extent(0), x.extent(1), c.integer("k", 0), {.dtype = dtype});
}

DType random_type(Call& c, DType otherwise) {
  return c.has_attribute("dtype") ? carrier(static_cast<ElementType>(c.integer("dtype", 1)), "the result") : otherwise;
}
Tensor draw(Call& c, bool normal, const Shape& shape, DType dtype) {
  if (normal) return random::normal(c.number("mean", 0), c.number("scale", 1), shape).astype(dtype);
  return random::uniform(c.number("low", 0), c.number("high", 1), shape).astype(dtype);
}
Rule random_of_shape(bool normal) {
  return [normal](Call& c) -> Tensors { return {draw(c, normal, to_shape(c.integers("shape")), random_type(c, DType::float32))}; };
}
Rule random_like(bool normal) {
  return [normal](Call& c) -> Tensors { return {draw(c, normal, c.in(0).shape(), random_type(c, c.in(0).dtype()))}; };
}
Tensor coin(Call& c) {
  const Tensor& p = c.in(0);
  return broadcast_lesser(random::uniform(0, 1, p.shape()).astype(p.dtype()), p).astype(random_type(c, p.dtype()));
}
Tensor drawn_classes(Call& c) {
  const Tensor probabilities = softmax(c.in(0));
  const int64_t n = c.integer("sample_size", 1);
  const DType dtype = random_type(c, DType::int32);
  return call("_sample_multinomial", {probabilities}, {{"shape", Shape{n}}}).astype(dtype);
}

}  // namespace

void add_creation_rules(Rules& rules) {
  rules.add("Constant", constant);
  rules.add("ConstantOfShape", filled);
  rules.add("Range", range);
  rules.add("EyeLike", eye_like);
  rules.add("RandomUniform", random_of_shape(false));
  rules.add("RandomNormal", random_of_shape(true));
  rules.add("RandomUniformLike", random_like(false));
  rules.add("RandomNormalLike", random_like(true));
  rules.add("Bernoulli", coin);
  rules.add("Multinomial", drawn_classes);
}

}  // namespace gluino::onnx
