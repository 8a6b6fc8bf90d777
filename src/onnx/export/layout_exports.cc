// Operators that move elements. Extents that MXNet's codes copy stay free.
#include <algorithm>

#include "base/format.h"
#include "onnx/export/exporter.h"

namespace gluino::onnx {
namespace {

std::vector<int64_t> numbers_of(const Shape& s) { return {s.begin(), s.end()}; }
int axis_of(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// One extent of a value, as a vector of one element.
std::string extent(const ExportCall& c, const std::string& value, int axis) {
  return c.add("Gather", {c.add("Shape", {value}), c.whole_numbers({axis})}, {{"axis", attribute_of(int64_t{0})}});
}

// MXNet's codes that ONNX lacks (-2, -3, -4) become extents of the input; 0 and -1 mean the same.
void reshape(const ExportCall& c) {
  const Shape codes = c.ints("shape");
  const Shape& from = c.shape(0);
  const bool simple = std::all_of(codes.begin(), codes.end(), [](int64_t n) { return n >= -1; });
  if (simple && !codes.empty() && !c.flag("reverse")) return c.put("Reshape", {c.in(0), c.whole_numbers(numbers_of(codes))});
  if (codes.empty() || c.flag("reverse")) {
    // The first extent is the batch's, as a rule: it is copied where it stays the same.
    std::vector<int64_t> shape = numbers_of(c.out_shape());
    if (!shape.empty() && from.ndim() > 0 && shape[0] == from[0]) shape[0] = 0;
    return c.put("Reshape", {c.in(0), c.whole_numbers(shape)});
  }
  std::vector<std::string> parts;
  int at = 0;
  const auto copied = [&] { return extent(c, c.in(0), at++); };
  for (int i = 0; i < codes.ndim(); ++i) {
    const int64_t code = codes[i];
    if (code > 0 || code == -1) {
      parts.push_back(c.whole_numbers({code}));
      ++at;
    } else if (code == 0) {
      parts.push_back(copied());
    } else if (code == -2) {
      while (at < from.ndim()) parts.push_back(copied());
    } else if (code == -3) {
      const std::string first = copied();
      parts.push_back(c.add("Mul", {first, copied()}));
    } else {
      const int64_t a = codes[i + 1], b = codes[i + 2];
      const int64_t n = from[at++];
      parts.push_back(c.whole_numbers({a == -1 ? n / b : a, b == -1 ? n / a : b}));
      i += 2;
    }
  }
  c.put("Reshape", {c.in(0), c.add("Concat", parts, {{"axis", attribute_of(int64_t{0})}})});
}

void transpose(const ExportCall& c) {
  Shape axes = c.ints("axes");
  if (axes.empty())
    for (int i = c.rank(0) - 1; i >= 0; --i) axes.push_back(i);
  c.put("Transpose", {c.in(0)}, {{"perm", attribute_of(axes)}});
}

void swap_axes(const ExportCall& c) {
  Shape axes;
  for (int i = 0; i < c.rank(0); ++i) axes.push_back(i);
  std::swap(axes[axis_of(c.integer("dim1"), c.rank(0))], axes[axis_of(c.integer("dim2"), c.rank(0))]);
  c.put("Transpose", {c.in(0)}, {{"perm", attribute_of(axes)}});
}

void expand_dims(const ExportCall& c) { c.put("Unsqueeze", {c.in(0), c.whole_numbers({axis_of(c.integer("axis"), c.rank(0) + 1)})}); }

void squeeze(const ExportCall& c) {
  const Shape axes = c.ints("axis");
  if (axes.empty()) return c.put("Squeeze", {c.in(0)});
  c.put("Squeeze", {c.in(0), c.whole_numbers(numbers_of(axes))});
}

void concat(const ExportCall& c) {
  std::vector<std::string> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.in(i));
  c.put("Concat", inputs, {{"axis", attribute_of(c.integer("dim"))}});
}

void stack(const ExportCall& c) {
  const int axis = axis_of(c.integer("axis"), c.rank(0) + 1);
  std::vector<std::string> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.add("Unsqueeze", {c.in(i), c.whole_numbers({axis})}));
  c.put("Concat", inputs, {{"axis", attribute_of(int64_t{axis})}});
}

void split(const ExportCall& c) {
  const auto n = static_cast<int>(c.integer("num_outputs"));
  const int axis = axis_of(c.integer("axis"), c.rank(0));
  const std::vector<int64_t> sizes(static_cast<size_t>(n), c.shape(0)[axis] / n);
  const ExportCall::Attributes attributes{{"axis", attribute_of(int64_t{axis})}};
  if (!c.flag("squeeze_axis")) return c.put_all("Split", {c.in(0), c.whole_numbers(sizes)}, attributes, n);
  const std::vector<std::string> parts = c.add_all("Split", {c.in(0), c.whole_numbers(sizes)}, attributes, n);
  for (int i = 0; i < n; ++i) c.put_as(c.add("Squeeze", {parts[static_cast<size_t>(i)], c.whole_numbers({axis})}), i);
}

void put_slice(const ExportCall& c, const std::vector<int64_t>& begin, const std::vector<int64_t>& end, const std::vector<int64_t>& axes,
               const std::vector<int64_t>& steps) {
  c.put("Slice", {c.in(0), c.whole_numbers(begin), c.whole_numbers(end), c.whole_numbers(axes), c.whole_numbers(steps)});
}

void slice(const ExportCall& c) {
  const auto begin = c.optional_ints("begin"), end = c.optional_ints("end"), step = c.optional_ints("step");
  std::vector<int64_t> starts, ends, axes, steps;
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t by = i < step.size() ? step[i].value_or(1) : 1;
    axes.push_back(static_cast<int64_t>(i));
    steps.push_back(by);
    starts.push_back(begin[i].value_or(by > 0 ? 0 : INT64_MAX));
    ends.push_back(end[i].value_or(by > 0 ? INT64_MAX : INT64_MIN));
  }
  put_slice(c, starts, ends, axes, steps);
}

void slice_axis(const ExportCall& c) {
  put_slice(c, {c.integer("begin")}, {c.optional_integer("end").value_or(INT64_MAX)}, {axis_of(c.integer("axis"), c.rank(0))}, {1});
}

// The extents of another tensor are read when the model runs.
void slice_like(const ExportCall& c) {
  Shape axes = c.ints("axes");
  if (axes.empty())
    for (int i = 0; i < c.rank(0); ++i) axes.push_back(i);
  std::vector<int64_t> chosen, starts;
  for (const int64_t a : axes) chosen.push_back(axis_of(a, c.rank(0))), starts.push_back(0);
  const std::string ends = c.add("Gather", {c.add("Shape", {c.in(1)}), c.whole_numbers(chosen)}, {{"axis", attribute_of(int64_t{0})}});
  c.put("Slice", {c.in(0), c.whole_numbers(starts), ends, c.whole_numbers(chosen)});
}

void broadcast_to(const ExportCall& c) {
  std::vector<int64_t> shape = numbers_of(c.out_shape());
  for (int i = 0; i < c.rank(0); ++i)
    if (shape[static_cast<size_t>(i)] == c.shape(0)[i]) shape[static_cast<size_t>(i)] = 1;  // Expand leaves such an axis alone
  c.put("Expand", {c.in(0), c.whole_numbers(shape)});
}

void tile(const ExportCall& c) {
  const Shape reps = c.ints("reps");
  const int rank = std::max(c.rank(0), reps.ndim());
  std::vector<int64_t> full(static_cast<size_t>(rank - reps.ndim()), 1);
  full.insert(full.end(), reps.begin(), reps.end());
  std::string x = c.in(0);
  for (int i = c.rank(0); i < rank; ++i) x = c.add("Unsqueeze", {x, c.whole_numbers({0})});
  c.put("Tile", {x, c.whole_numbers(full)});
}

void repeat(const ExportCall& c) {
  const int64_t n = c.integer("repeats");
  const auto axis = c.optional_integer("axis");
  const std::string x = axis ? c.in(0) : c.add("Reshape", {c.in(0), c.whole_numbers({-1})});
  const int rank = axis ? c.rank(0) : 1, at = axis_of(axis.value_or(0), rank);
  // Each element, n times: a new axis behind, repeated and merged.
  const std::string wide = c.add("Unsqueeze", {x, c.whole_numbers({at + 1})});
  std::vector<int64_t> reps(static_cast<size_t>(rank) + 1, 1), shape;
  reps[static_cast<size_t>(at) + 1] = n;
  for (int i = 0; i < rank; ++i) shape.push_back(i == at ? -1 : i < at ? 0 : c.out_shape()[i]);
  c.put("Reshape", {c.add("Tile", {wide, c.whole_numbers(reps)}), c.whole_numbers(shape)});
}

void pad(const ExportCall& c) {
  const Shape width = c.ints("pad_width");
  std::vector<int64_t> pads;
  for (int side = 0; side < 2; ++side)
    for (int i = 0; i < c.rank(0); ++i) pads.push_back(width[2 * i + side]);
  c.put("Pad", {c.in(0), c.whole_numbers(pads), c.number_of(c.number("constant_value"), c.dtype(0))},
        {{"mode", attribute_of(c.text("mode"))}});
}

// Indices as ONNX wants them: within an axis of what is taken from, where MXNet brings others there.
std::string indices_of(const ExportCall& c, int input, const std::string& mode, int table, int axis) {
  std::string given = c.add("Cast", {c.in(input)}, {{"to", attribute_of(static_cast<int64_t>(ElementType::int64))}});
  if (mode == "raise") return given;
  const auto whole = [&](int64_t n) { return c.number_of(static_cast<double>(n), DType::int64); };
  const bool is_free = c.is_free(table, axis);
  const std::string free_extent = is_free ? c.add("Squeeze", {extent(c, c.in(table), axis)}) : "";
  if (mode == "wrap") return c.add("Mod", {given, is_free ? free_extent : whole(c.shape(table)[axis])});
  return c.add("Clip", {given, whole(0), is_free ? c.add("Sub", {free_extent, whole(1)}) : whole(c.shape(table)[axis] - 1)});
}

void take(const ExportCall& c) {
  const int axis = axis_of(c.integer("axis"), c.rank(0));
  c.put("Gather", {c.in(0), indices_of(c, 1, c.text("mode"), 0, axis)}, {{"axis", attribute_of(int64_t{axis})}});
}

void embedding(const ExportCall& c) {
  c.put("Gather", {c.in(1), indices_of(c, 0, c.text("__out_of_range__"), 1, 0)}, {{"axis", attribute_of(int64_t{0})}});
}

// Reversal is a slice with a negative step.
void flip(const ExportCall& c) {
  std::vector<int64_t> axes, begin, end, steps;
  for (const int64_t a : c.ints("axis")) {
    axes.push_back(axis_of(a, c.rank(0)));
    begin.push_back(-1), end.push_back(INT64_MIN), steps.push_back(-1);
  }
  put_slice(c, begin, end, axes, steps);
}

}  // namespace

void add_layout_exports(ExportRules& rules) {
  rules["Reshape"] = reshape;
  rules["Flatten"] = [](const ExportCall& c) { c.put("Flatten", {c.in(0)}, {{"axis", attribute_of(int64_t{1})}}); };
  rules["reshape_like"] = [](const ExportCall& c) { c.put("Reshape", {c.in(0), c.whole_numbers(numbers_of(c.out_shape()))}); };
  rules["transpose"] = transpose;
  rules["SwapAxis"] = swap_axes;
  rules["expand_dims"] = expand_dims;
  rules["squeeze"] = squeeze;
  rules["Concat"] = concat;
  rules["stack"] = stack;
  rules["SliceChannel"] = split;
  rules["slice"] = slice;
  rules["slice_axis"] = rules["_slice_part"] = slice_axis;
  rules["slice_like"] = slice_like;
  rules["broadcast_to"] = rules["broadcast_axis"] = rules["broadcast_like"] = broadcast_to;
  rules["tile"] = tile;
  rules["repeat"] = repeat;
  rules["Pad"] = pad;
  rules["take"] = take;
  rules["Embedding"] = embedding;
  rules["reverse"] = flip;
  rules["depth_to_space"] = [](const ExportCall& c) {
    c.put("DepthToSpace", {c.in(0)}, {{"blocksize", attribute_of(c.integer("block_size"))}});
  };
  rules["space_to_depth"] = [](const ExportCall& c) {
    c.put("SpaceToDepth", {c.in(0)}, {{"blocksize", attribute_of(c.integer("block_size"))}});
  };
}

}  // namespace gluino::onnx
