// Shape arithmetic: whole numbers that come from shapes are carried along without being read.
#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

Extents as_extents(Call& c, int i) {
  Value& v = c.value(i);
  if (v.extents) return *v.extents;
  Extents out{.is_scalar = v.tensor.ndim() == 0};
  for (const int64_t n : c.whole_numbers(i)) out.items.push_back({.number = n});
  return out;
}

bool is_whole(Call& c, int i) {
  Value& v = c.value(i);
  return v.extents || (v.kind == Value::Kind::constant && is_integer(v.tensor.dtype()) && v.tensor.ndim() <= 1);
}

std::optional<Extents> shape_of(Call& c) {
  Value& v = c.value(0);
  const Tensor& x = tensor_of(v);
  const int rank = x.ndim();
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t begin = clamp(c.integer("start", 0)), end = clamp(c.integer("end", rank));
  Extents out;
  for (int64_t i = begin; i < end; ++i) out.items.push_back({.of = x, .axis = static_cast<int>(i)});
  return out;
}

std::optional<Extents> size_of(Call& c) {
  const Tensor x = c.in(0);
  return Extents{{{.compute = [x] { return x.size(); }}}, true};
}

std::optional<Extents> gather(Call& c) {
  if (!c.value(0).extents || !c.value(1).is_readable() || c.value(1).tensor.ndim() > 1) return {};
  const Extents from = as_extents(c, 0);
  const auto n = static_cast<int64_t>(from.items.size());
  Extents out{.is_scalar = c.value(1).tensor.ndim() == 0};
  for (const int64_t at : c.whole_numbers(1)) {
    if (at < -n || at >= n) raise<IndexError>("index {} is out of range for {} extents", at, n);
    out.items.push_back(from.items[static_cast<size_t>(at < 0 ? at + n : at)]);
  }
  return out;
}

std::optional<Extents> concat_all(Call& c) {
  Extents out;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!is_whole(c, i)) return {};
    for (Extent& e : as_extents(c, i).items) out.items.push_back(std::move(e));
  }
  return out;
}

std::optional<Extents> unsqueeze(Call& c) {
  Extents out = as_extents(c, 0);
  if (!out.is_scalar) return {};
  out.is_scalar = false;
  return out;
}

std::optional<Extents> squeeze_one(Call& c) {
  Extents out = as_extents(c, 0);
  if (out.is_scalar || out.items.size() != 1) return {};
  out.is_scalar = true;
  return out;
}

std::optional<Extents> cast_whole(Call& c) {
  const DType to = carrier(static_cast<ElementType>(c.integer("to", 1)), "the target");
  if (to != DType::int64 && to != DType::int32) return {};
  return as_extents(c, 0);
}

std::optional<Extents> slice_of(Call& c) {
  const auto starts = c.integers("starts", 1), ends = c.integers("ends", 2), axes = c.integers("axes", 3), steps = c.integers("steps", 4);
  if (!c.value(0).extents || !starts || !ends || starts->size() != 1 || ends->size() != 1 || (steps && (*steps)[0] != 1)) return {};
  const Extents from = as_extents(c, 0);
  const auto n = static_cast<int64_t>(from.items.size());
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
  Extents out;
  for (int64_t i = clamp((*starts)[0]); i < clamp((*ends)[0]); ++i) out.items.push_back(from.items[static_cast<size_t>(i)]);
  return out;
}

// Numbers of a file may be anything: what does not fit is an error, not another number.
[[noreturn]] void refuse_large() { raise<UserError>("shape arithmetic gives a number that is too large"); }
int64_t added(int64_t a, int64_t b) {
  int64_t c = 0;
  if (__builtin_add_overflow(a, b, &c)) refuse_large();
  return c;
}
int64_t subtracted(int64_t a, int64_t b) {
  int64_t c = 0;
  if (__builtin_sub_overflow(a, b, &c)) refuse_large();
  return c;
}
int64_t multiplied(int64_t a, int64_t b) {
  int64_t c = 0;
  if (__builtin_mul_overflow(a, b, &c)) refuse_large();
  return c;
}
int64_t divide(int64_t a, int64_t b) {
  if (b == 0) raise<UserError>("shape arithmetic divides by 0");
  if (b == -1) return subtracted(0, a);
  return a / b;
}

Rules::ExtentRule arithmetic(int64_t (*f)(int64_t, int64_t)) {
  return [f](Call& c) -> std::optional<Extents> {
    if (!is_whole(c, 0) || !is_whole(c, 1)) return {};
    const Extents a = as_extents(c, 0), b = as_extents(c, 1);
    const size_t n = std::max(a.items.size(), b.items.size());
    if ((a.items.size() != n && a.items.size() != 1) || (b.items.size() != n && b.items.size() != 1)) return {};
    Extents out{.is_scalar = a.is_scalar && b.is_scalar};
    for (size_t i = 0; i < n; ++i) {
      const Extent x = a.items[a.items.size() == 1 ? 0 : i], y = b.items[b.items.size() == 1 ? 0 : i];
      if (x.number && y.number)
        out.items.push_back({.number = f(*x.number, *y.number)});
      else
        out.items.push_back({.compute = [f, x, y] { return f(x.read(), y.read()); }});
    }
    return out;
  };
}

}  // namespace

void add_extent_rules(Rules& rules) {
  rules.add_extents("Shape", shape_of);
  rules.add_extents("Size", size_of);
  rules.add_extents("Gather", gather);
  rules.add_extents("Concat", concat_all);
  rules.add_extents("Unsqueeze", unsqueeze);
  rules.add_extents("Squeeze", squeeze_one);
  rules.add_extents("Cast", cast_whole);
  rules.add_extents("Slice", slice_of);
  rules.add_extents("Identity", [](Call& c) -> std::optional<Extents> { return as_extents(c, 0); });
  rules.add_extents("Add", arithmetic(added));
  rules.add_extents("Sub", arithmetic(subtracted));
  rules.add_extents("Mul", arithmetic(multiplied));
  rules.add_extents("Div", arithmetic(divide));
  // Where the number of axes is all that is asked, the extents rules above answer; these say that the types are known.
  rules.add("Shape", [](Call& c) { return shape_array(c.in(0)); });
  rules.add("Size", [](Call& c) { return size_array(c.in(0)).reshape({}); });
}

}  // namespace gluino::onnx
