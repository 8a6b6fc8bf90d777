// Moves: other shapes, orders, parts and repetitions of the same elements.
#include <algorithm>

#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

// A run of extents of one tensor, in its order: reshape_like gives them without reading.
struct Run {
  int begin, end;  // positions in the target
};
std::vector<Run> free_runs(const std::vector<Extent>& target) {
  std::vector<Run> runs;
  const auto follows = [&](int i) {
    const Extent &a = target[static_cast<size_t>(i - 1)], &b = target[static_cast<size_t>(i)];
    return a.of.defined() && b.of.defined() && a.of.is_same(b.of) && b.axis == a.axis + 1;
  };
  for (int i = 0; i < static_cast<int>(target.size()); ++i) {
    if (target[static_cast<size_t>(i)].number) continue;
    if (!runs.empty() && runs.back().end == i && follows(i))
      ++runs.back().end;
    else
      runs.push_back({i, i + 1});
  }
  return runs;
}

// With one run of free extents, what is left for them is inferred: nothing is read, and the extents stay free.
std::optional<Tensor> reshape_by_extents(const Tensor& x, const std::vector<Extent>& target) {
  const std::vector<Run> runs = free_runs(target);
  const bool has_code = std::any_of(target.begin(), target.end(), [](const Extent& e) { return e.number && *e.number <= 0; });
  if (runs.size() != 1 || has_code) return {};
  const auto [begin, end] = runs[0];
  const Extent& first = target[static_cast<size_t>(begin)];
  if (end - begin > 1 && !first.of.defined()) return {};
  Shape codes;
  for (int i = 0; i < static_cast<int>(target.size()); ++i)
    if (i <= begin || i >= end) codes.push_back(i == begin ? -1 : *target[static_cast<size_t>(i)].number);
  const Tensor flat = x.reshape(codes);
  if (end - begin == 1) return flat;
  return reshape_like(flat, first.of,
                      {.lhs_begin = begin, .lhs_end = begin + 1, .rhs_begin = first.axis, .rhs_end = first.axis + (end - begin)});
}

Tensor reshape_to(Call& c) {
  const Tensor x = c.in(0);
  const bool has_input = !c.has_attribute("shape");
  if (has_input && c.value(1).extents)
    if (auto y = reshape_by_extents(x, c.value(1).extents->items)) return *y;
  std::vector<int64_t> shape = *c.integers("shape", 1);
  const bool keeps_zero = c.integer("allowzero", 0) != 0;
  for (const int64_t n : shape)
    if (n < -1) raise<ShapeError>("the shape has the extent {}", n);
  if (shape.empty()) return x.reshape({1}).reshape({});
  // 0 means "as before" here and in Gluino's codes, but tensors without elements need their shape in numbers.
  const bool has_zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (keeps_zero && has_zero) return zeros(to_shape(shape), {.dtype = x.dtype()});
  if (has_zero) {
    const Shape& now = x.shape();
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] == 0 && i >= static_cast<size_t>(now.ndim())) raise<ShapeError>("0 at place {} copies an extent that {} lacks", i, now);
  }
  return x.reshape(to_shape(shape));
}

Tensor flatten_at(Call& c) {
  const Tensor& x = c.in(0);
  const int rank = x.ndim();
  int64_t axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) raise<ShapeError>("axis {} is out of range for {} axes", axis, rank);
  if (axis < 0) axis += rank;
  if (axis == 0) return x.reshape({1, -1});
  if (axis == rank) return x.reshape({-1, 1});
  if (axis == 1) return x.reshape({0, -1});
  return x.reshape({x.shape().elements(0, static_cast<int>(axis)), -1});
}

Tensor transposed(Call& c) {
  const std::vector<int64_t> order = c.integers("perm");
  if (c.rank(0) == 0) return identity(c.in(0));
  return transpose(c.in(0), {.axes = to_shape(order)});
}

Tensor squeezed(Call& c) {
  const Tensor& x = c.in(0);
  const auto axes = c.integers("axes", 1);
  if (!axes) return squeeze(x);
  if (axes->empty()) return x;
  Shape normal;
  for (const int64_t a : *axes) normal.push_back(c.axis(a, x.ndim()));
  return squeeze(x, {.axis = normal});
}

Tensor unsqueezed(Call& c) {
  Tensor x = c.in(0);
  std::vector<int64_t> axes = c.integers("axes", 1).value_or(std::vector<int64_t>{});
  const int rank = x.ndim() + static_cast<int>(axes.size());
  for (int64_t& a : axes) a = c.axis(a, rank);
  std::sort(axes.begin(), axes.end());
  for (const int64_t a : axes) x = expand_dims(x, {.axis = static_cast<int>(a)});
  return x;
}

Tensor joined(Call& c) {
  const int axis = c.axis(c.integer("axis", 1), c.rank(0));
  return c.num_inputs() == 1 ? identity(c.in(0)) : concat(c.all(), {.dim = axis});
}

Tensors split_up(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = c.axis(c.integer("axis", 0), x.ndim());
  const auto given = c.integers("split", 1);
  const int parts = given ? static_cast<int>(given->size()) : static_cast<int>(c.integer("num_outputs", c.num_outputs()));
  if (parts < 1) raise<UserError>("it has no outputs");
  const bool equal = !given || std::all_of(given->begin(), given->end(), [&](int64_t n) { return n == (*given)[0] && n > 0; });
  if (equal && (given || x.extent(axis) % parts == 0)) return split(x, {.num_outputs = parts, .axis = axis});
  Tensors out;
  const int64_t chunk = given ? 0 : (x.extent(axis) + parts - 1) / parts;
  int64_t begin = 0;
  for (int i = 0; i < parts; ++i) {
    const int64_t size = given ? (*given)[static_cast<size_t>(i)] : std::min(chunk, x.extent(axis) - begin);
    if (size < 0) raise<ShapeError>("part {} has the size {}", i, size);
    out.push_back(part_of(x, axis, begin, begin + size));
    begin += size;
  }
  return out;
}

Tensor sliced(Call& c) {
  const Tensor& x = c.in(0);
  const int rank = x.ndim();
  const auto starts = c.integers("starts", 1), ends = c.integers("ends", 2), axes = c.integers("axes", 3), steps = c.integers("steps", 4);
  if (!starts || !ends || starts->size() != ends->size() || (axes && axes->size() != starts->size()) ||
      (steps && steps->size() != starts->size()))
    raise<UserError>("starts, ends, axes and steps must have as many elements as each other");
  OptionalInts begin(static_cast<size_t>(rank)), end(static_cast<size_t>(rank)), step(static_cast<size_t>(rank));
  for (size_t i = 0; i < starts->size(); ++i) {
    const auto axis = static_cast<size_t>(c.axis(axes ? (*axes)[i] : static_cast<int64_t>(i), rank));
    const int64_t by = steps ? (*steps)[i] : 1, first = (*starts)[i], last = (*ends)[i];
    if (by == 0) raise<UserError>("the step on axis {} is 0", axis);
    // Beyond any extent: the edge.
    constexpr int64_t kFar = 1LL << 31;
    const bool from_edge = by > 0 ? first <= -kFar : first >= kFar - 1;
    const bool to_edge = by > 0 ? last >= kFar - 1 : last <= -kFar;
    step[axis] = by;
    if (!from_edge) begin[axis] = first;
    if (!to_edge) end[axis] = last;
    // Counted from the end and still before the first element: there is nothing beyond it.
    if (!to_edge && by < 0 && last < 0 && -last > x.extent(static_cast<int64_t>(axis))) end[axis] = std::nullopt;
  }
  return slice(x, {.begin = begin, .end = end, .step = step});
}

Tensor expanded(Call& c) {
  const Tensor x = c.in(0);
  const Shape wanted = to_shape(c.whole_numbers(1));
  const Shape both[] = {x.shape(), wanted};
  const Shape full = broadcast_shapes(both);
  Tensor y = x;
  while (y.ndim() < full.ndim()) y = expand_dims(y, {.axis = 0});
  return full.elements() == 0 ? zeros(full, {.dtype = x.dtype()}) : broadcast_to(y, {.shape = full});
}

Tensor padded(Call& c) {
  Tensor x = c.in(0);
  const int rank = x.ndim();
  std::vector<int64_t> given = c.has_attribute("paddings") ? c.integers("paddings") : *c.integers("pads", 1);
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) axes[static_cast<size_t>(i)] = i;
  if (c.has(3)) axes = c.whole_numbers(3);
  if (given.size() != 2 * axes.size()) raise<ShapeError>("pads has {} elements, {} are needed", given.size(), 2 * axes.size());
  Shape width = Shape::filled(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = c.axis(axes[i], rank);
    const int64_t before = given[i], after = given[i + axes.size()];
    // A negative number cuts off.
    if (before < 0 || after < 0) {
      const int64_t begin = std::max<int64_t>(0, -before), cut = std::max<int64_t>(0, -after);
      x = part_of(x, axis, begin, cut > 0 ? std::optional<int64_t>(-cut) : std::nullopt);
    }
    width[2 * axis] = std::max<int64_t>(0, before);
    width[2 * axis + 1] = std::max<int64_t>(0, after);
  }
  const double value = c.has(2) ? c.number(2) : c.number("value", 0);
  return pad(x, {.mode = c.text("mode", "constant"), .pad_width = width, .constant_value = value});
}

Tensor depth_to_blocks(Call& c) {
  const int block = static_cast<int>(c.integer("blocksize", 1));
  if (c.text("mode", "DCR") == "DCR") return depth_to_space(c.in(0), {.block_size = block});
  // Columns first: the channels stand before the blocks.
  const Tensor x = c.in(0);
  const int64_t channels = x.extent(1) / block / block, height = x.extent(2), width = x.extent(3);
  const Tensor parts = x.reshape({-1, channels, block, block, height, width});
  return transpose(parts, {.axes = {0, 1, 4, 2, 5, 3}}).reshape({-1, channels, height * block, width * block});
}

Tensor reversed(Call& c) {
  const int time = static_cast<int>(c.integer("time_axis", 0));
  const Tensor x = c.in(0), lengths = c.in(1).astype(DType::float32);
  if (time == 0) return sequence_reverse(x, lengths, {.use_sequence_length = true});
  return swapaxes(sequence_reverse(swapaxes(x, {.dim1 = 0, .dim2 = 1}), lengths, {.use_sequence_length = true}), {.dim1 = 0, .dim2 = 1});
}

Tensor triangle(Call& c) {
  const Tensor x = c.in(0);
  const int64_t k = c.has(1) ? c.whole_number(1) : 0, rows = x.extent(-2), columns = x.extent(-1);
  if (x.size() == 0) return identity(x);
  const Tensor row = arange(static_cast<double>(rows), {.dtype = DType::int64}).reshape({rows, 1});
  const Tensor diagonal = broadcast_sub(arange(static_cast<double>(columns), {.dtype = DType::int64}).reshape({1, columns}), row);
  const Tensor kept = c.integer("upper", 1) ? diagonal >= static_cast<double>(k) : diagonal <= static_cast<double>(k);
  return where_broadcast(kept, x, zeros_like(x));
}

}  // namespace

void add_layout_rules(Rules& rules) {
  rules.add("Reshape", reshape_to);
  rules.add("Flatten", flatten_at);
  rules.add("Transpose", transposed);
  rules.add("Squeeze", squeezed);
  rules.add("Unsqueeze", unsqueezed);
  rules.add("Concat", joined);
  rules.add("Split", split_up);
  rules.add("Slice", sliced);
  rules.add("Expand", expanded);
  rules.add("Tile", [](Call& c) { return tile(c.in(0), {.reps = to_shape(c.whole_numbers(1))}); });
  rules.add("Pad", padded);
  rules.add("DepthToSpace", depth_to_blocks);
  rules.add("SpaceToDepth", [](Call& c) { return space_to_depth(c.in(0), {.block_size = static_cast<int>(c.integer("blocksize", 1))}); });
  rules.add("ReverseSequence", reversed);
  rules.add("Trilu", triangle);
}

}  // namespace gluino::onnx
