// Convolution and pooling.
#include <algorithm>
#include <limits>

#include "base/format.h"
#include "onnx/window.h"

namespace gluino::onnx {

bool Window::is_padded() const {
  const auto any = [](const Shape& s) { return std::any_of(s.begin(), s.end(), [](int64_t n) { return n != 0; }); };
  return any(before) || any(after);
}

static Shape per_axis(Call& c, const std::string& name, int axes, int64_t otherwise) {
  const std::vector<int64_t> given = c.integers(name);
  if (given.empty()) return Shape::filled(axes, otherwise);
  if (static_cast<int>(given.size()) != axes) raise<AttrError>("attribute '{}' has {} elements, {} are needed", name, given.size(), axes);
  for (const int64_t n : given)
    if (n < 1) raise<AttrError>("attribute '{}' has the element {}", name, n);
  return to_shape(given);
}

Window window_of(Call& c, const Tensor& x, const Shape& kernel) {
  const int axes = kernel.ndim();
  if (x.ndim() != axes + 2) raise<ShapeError>("the input has {} axes, but a window over {} needs {}", x.ndim(), axes, axes + 2);
  Window w{kernel, per_axis(c, "strides", axes, 1), per_axis(c, "dilations", axes, 1), Shape::filled(axes, 0), Shape::filled(axes, 0)};
  const std::string automatic = c.text("auto_pad", "NOTSET");
  if (automatic.starts_with("SAME")) {
    for (int i = 0; i < axes; ++i) {
      // The extent matters only where the window moves by more than 1.
      const int64_t n = w.stride[i] == 1 ? 1 : x.extent(i + 2), steps = (n + w.stride[i] - 1) / w.stride[i];
      const int64_t all = std::max<int64_t>(0, (steps - 1) * w.stride[i] + w.reach(i) - n);
      w.before[i] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.after[i] = all - w.before[i];
    }
  } else if (const std::vector<int64_t> pads = c.integers("pads"); !pads.empty() && automatic != "VALID") {
    if (static_cast<int>(pads.size()) != 2 * axes)
      raise<AttrError>("attribute 'pads' has {} elements, {} are needed", pads.size(), 2 * axes);
    for (int i = 0; i < axes; ++i) {
      w.before[i] = pads[static_cast<size_t>(i)];
      w.after[i] = pads[static_cast<size_t>(i + axes)];
    }
  }
  return w;
}

Tensor pad_for(const Tensor& x, const Window& w, double value) {
  Shape width{0, 0, 0, 0};
  for (int i = 0; i < w.axes(); ++i) {
    width.push_back(w.before[i]);
    width.push_back(w.after[i]);
  }
  return pad(x, {.mode = "constant", .pad_width = width, .constant_value = value});
}

namespace {

Shape spatial(const Shape& shape) { return Shape(shape.data() + std::min(2, shape.ndim()), std::max(0, shape.ndim() - 2)); }

Tensor convolve(Call& c) {
  Tensor x = c.in(0);
  const Tensor weight = c.in(1);
  Window w = window_of(c, x, spatial(weight.shape()));
  if (!w.is_symmetric()) {
    x = pad_for(x, w, 0);
    w.before = Shape::filled(w.axes(), 0);
  }
  const ConvolutionOptions options{.kernel = w.kernel,
                                   .stride = w.stride,
                                   .dilate = w.dilation,
                                   .pad = w.before,
                                   .num_filter = weight.extent(0),
                                   .num_group = c.integer("group", 1),
                                   .no_bias = !c.has(2)};
  return c.has(2) ? convolution(x, weight, c.in(2), options) : convolution(x, weight, options);
}

Tensor convolve_transposed(Call& c) {
  const Tensor x = c.in(0), weight = c.in(1);
  const int64_t groups = c.integer("group", 1);
  Window w = window_of(c, x, spatial(weight.shape()));
  const std::vector<int64_t> more = c.integers("output_padding"), wanted = c.integers("output_shape");
  const std::string automatic = c.text("auto_pad", "NOTSET");
  Shape adjust = Shape::filled(w.axes(), 0);
  for (int i = 0; i < w.axes(); ++i)
    if (!more.empty()) adjust[i] = more.at(static_cast<size_t>(i));
  if (!wanted.empty() || automatic.starts_with("SAME"))
    for (int i = 0; i < w.axes(); ++i) {
      const int64_t n = x.extent(i + 2);
      const int64_t out = wanted.empty() ? n * w.stride[i] : wanted.at(wanted.size() - static_cast<size_t>(w.axes() - i));
      const int64_t all = w.stride[i] * (n - 1) + adjust[i] + w.reach(i) - out;
      w.before[i] = automatic == "SAME_LOWER" ? all - all / 2 : all / 2;
      w.after[i] = all - w.before[i];
    }
  DeconvolutionOptions options{.kernel = w.kernel,
                               .stride = w.stride,
                               .dilate = w.dilation,
                               .pad = w.before,
                               .num_filter = weight.extent(1) * groups,
                               .num_group = groups,
                               .no_bias = !c.has(2)};
  const auto run = [&] { return c.has(2) ? deconvolution(x, weight, c.in(2), options) : deconvolution(x, weight, options); };
  const bool fits = w.is_symmetric() && std::all_of(w.before.begin(), w.before.end(), [](int64_t n) { return n >= 0; });
  bool adjusts = false;
  for (int i = 0; i < w.axes(); ++i) adjusts |= adjust[i] >= w.stride[i];
  if (fits && !adjusts) {
    options.adj = adjust;
    return run();
  }
  // All of it, then cut, or with zeros added where more is wanted than there is.
  options.pad = Shape::filled(w.axes(), 0);
  Tensor y = run();
  Window rest = w;
  for (int i = 0; i < w.axes(); ++i) {
    const int64_t end = w.after[i] - adjust[i];
    rest.before[i] = std::max<int64_t>(0, -w.before[i]);
    rest.after[i] = std::max<int64_t>(0, -end);
    y = slice_axis(
        y, {.axis = i + 2, .begin = std::max<int64_t>(0, w.before[i]), .end = end > 0 ? std::optional<int64_t>(-end) : std::nullopt});
  }
  return rest.is_padded() ? pad_for(y, rest, 0) : y;
}

double lowest_of(DType dtype) { return is_floating(dtype) ? -std::numeric_limits<double>::infinity() : dtype == DType::int8 ? -128 : 0; }

int64_t windows_along(const Window& w, int axis, int64_t extent, bool round_up) {
  const int64_t room = extent - w.reach(axis);
  if (room < 0) raise<ShapeError>("axis {} has {} elements with padding, but the window covers {}", axis + 2, extent, w.reach(axis));
  return (round_up ? (room + w.stride[axis] - 1) / w.stride[axis] : room / w.stride[axis]) + 1;
}

// What stands at each place of the window, for all windows: one strided slice per place. For what Pooling does not have.
Tensors places_of_window(const Tensor& padded, const Window& w, const Shape& steps) {
  Tensors slices;
  for (int64_t at = 0; at < w.kernel.elements(); ++at) {
    OptionalInts begin(2), end(2), step(2);
    int64_t rest = at;
    for (int i = 0; i < w.axes(); ++i) {
      const int64_t inner = w.kernel.elements(i + 1, w.axes()), first = rest / inner * w.dilation[i];
      rest %= inner;
      begin.push_back(first);
      end.push_back(first + (steps[i] - 1) * w.stride[i] + 1);
      step.push_back(w.stride[i]);
    }
    slices.push_back(slice(padded, {.begin = begin, .end = end, .step = step}));
  }
  return slices;
}

// Windows that begin inside but end outside need more padding at the end.
Shape fit_windows(const Tensor& x, Window& w, bool round_up) {
  Shape steps;
  for (int i = 0; i < w.axes(); ++i) {
    const int64_t extent = x.extent(i + 2) + w.before[i] + w.after[i];
    steps.push_back(windows_along(w, i, extent, round_up));
    w.after[i] += std::max<int64_t>(0, (steps[i] - 1) * w.stride[i] + w.reach(i) - extent);
  }
  return steps;
}

Tensors pool_with_places(Call& c, const Tensor& x, Window w) {
  const Shape steps = fit_windows(x, w, c.integer("ceil_mode", 0) != 0);
  const Tensor values = stack(places_of_window(pad_for(x, w, lowest_of(x.dtype())), w, steps), {.axis = 0});
  if (!c.wants(1)) return {max(values, {.axis = Shape{0}})};
  // Numbers of the elements in the input, in its order or with the last two axes exchanged.
  const Shape& shape = x.shape();
  Tensor numbers = arange(static_cast<double>(shape.elements()), {.dtype = DType::int64});
  if (c.integer("storage_order", 0)) {
    Shape exchanged = shape;
    std::reverse(exchanged.begin() + 2, exchanged.end());
    numbers = numbers.reshape(exchanged);
    Shape order{0, 1};
    for (int i = shape.ndim() - 1; i >= 2; --i) order.push_back(i);
    numbers = transpose(numbers, {.axes = order});
  }
  const Tensor places = stack(places_of_window(pad_for(numbers.reshape(shape).astype(DType::float64), w, -1), w, steps), {.axis = 0});
  const Tensor largest = argmax(values, {.axis = 0, .keepdims = true}).astype(DType::int64);
  const auto at_largest = [&](const Tensor& t) {
    return squeeze(call("_take_along_axis", {t, largest}, {{"axis", int64_t{0}}}), {.axis = Shape{0}});
  };
  return {at_largest(values), at_largest(places).astype(DType::int64)};
}

bool is_one(const Shape& s) {
  return std::all_of(s.begin(), s.end(), [](int64_t n) { return n == 1; });
}

Tensors max_pool(Call& c) {
  Tensor x = c.in(0);
  Window w = window_of(c, x, to_shape(c.integers("kernel_shape")));
  if (c.wants(1) || !is_one(w.dilation) || w.axes() > 3) return pool_with_places(c, x, w);
  const bool round_up = c.integer("ceil_mode", 0) != 0;
  const DType dtype = x.dtype();
  if (!is_floating(dtype)) x = x.astype(DType::float32);
  if (!w.is_symmetric()) {
    x = pad_for(x, w, -std::numeric_limits<double>::infinity());
    w.before = Shape::filled(w.axes(), 0);
  }
  const Tensor y = pooling(
      x, {.kernel = w.kernel, .stride = w.stride, .pad = w.before, .pool_type = "max", .pooling_convention = round_up ? "full" : "valid"});
  return {dtype == y.dtype() ? y : y.astype(dtype)};
}

Tensor sum_of_windows(const Tensor& padded, const Window& w, const Shape& steps) { return add_n(places_of_window(padded, w, steps)); }

Tensor average_pool(Call& c) {
  const Tensor x = c.in(0);
  Window w = window_of(c, x, to_shape(c.integers("kernel_shape")));
  const bool with_padding = c.integer("count_include_pad", 0) != 0, round_up = c.integer("ceil_mode", 0) != 0;
  if (w.is_symmetric() && is_one(w.dilation) && !round_up && w.axes() <= 3)
    return pooling(x, {.kernel = w.kernel, .stride = w.stride, .pad = w.before, .pool_type = "avg", .count_include_pad = with_padding});
  // Sums over counts: padding beyond the declared one never counts.
  const Window declared = w;
  const Shape steps = fit_windows(x, w, round_up);
  Window beyond = w;
  for (int i = 0; i < w.axes(); ++i) {
    beyond.before[i] = 0;
    beyond.after[i] = w.after[i] - declared.after[i];
  }
  const Tensor counted = with_padding ? pad_for(pad_for(ones_like(x), declared, 1), beyond, 0) : pad_for(ones_like(x), w, 0);
  return sum_of_windows(pad_for(x, w, 0), w, steps) / sum_of_windows(counted, w, steps);
}

Tensor norm_pool(Call& c) {
  const Tensor x = c.in(0);
  Window w = window_of(c, x, to_shape(c.integers("kernel_shape")));
  const auto p =
      static_cast<double>(c.has_attribute("p") && c.attribute("p").kind == Attribute::Kind::number ? c.number("p", 2) : c.integer("p", 2));
  const Shape steps = fit_windows(x, w, c.integer("ceil_mode", 0) != 0);
  const auto power = [](const Tensor& t, double by) { return broadcast_power(t, constant_of(by, t.dtype())); };
  return power(sum_of_windows(power(abs(pad_for(x, w, 0)), p), w, steps), 1 / p);
}

Shape spatial_axes(const Tensor& x) {
  Shape axes;
  for (int i = 2; i < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

Rule global_pool(const char* type) {
  return [type](Call& c) -> Tensors {
    const Tensor& x = c.in(0);
    const std::string how = type;
    if (x.ndim() >= 3 && x.ndim() <= 5 && is_floating(x.dtype())) return {pooling(x, {.pool_type = how, .global_pool = true})};
    const Shape axes = spatial_axes(x);
    return {how == "max" ? max(x, {.axis = axes, .keepdims = true}) : mean(x, {.axis = axes, .keepdims = true})};
  };
}

Tensor global_norm_pool(Call& c) {
  const auto p = static_cast<double>(c.integer("p", 2));
  const Tensor& x = c.in(0);
  const Tensor total = sum(broadcast_power(abs(x), constant_of(p, x.dtype())), {.axis = spatial_axes(x), .keepdims = true});
  return broadcast_power(total, constant_of(1 / p, x.dtype()));
}

// Puts values back where a MaxPool found them.
Tensor unpool(Call& c) {
  const Tensor x = c.in(0), places = c.in(1);
  Window w = window_of(c, x, to_shape(c.integers("kernel_shape")));
  Shape out = x.shape();
  for (int i = 0; i < w.axes(); ++i) out[i + 2] = (out[i + 2] - 1) * w.stride[i] + w.reach(i) - w.before[i] - w.after[i];
  const Tensor flat = x.reshape({-1}), at = places.reshape({1, -1});
  if (!c.has(2)) return scatter_nd(flat, at, {.shape = Shape{out.elements()}}).reshape(out);
  // A larger output: the numbers still count elements of the smaller one.
  const Shape wanted = to_shape(c.whole_numbers(2));
  const Tensor where = unravel_index(places.reshape({-1}), {.shape = out}).astype(DType::int64);
  return scatter_nd(flat, where, {.shape = wanted});
}

}  // namespace

void add_window_rules(Rules& rules) {
  rules.add("Conv", convolve);
  rules.add("ConvTranspose", convolve_transposed);
  rules.add("MaxPool", max_pool);
  rules.add("AveragePool", average_pool);
  rules.add("LpPool", norm_pool);
  rules.add("GlobalAveragePool", global_pool("avg"));
  rules.add("GlobalMaxPool", global_pool("max"));
  rules.add("GlobalLpPool", global_norm_pool);
  rules.add("MaxUnpool", unpool);
}

}  // namespace gluino::onnx
