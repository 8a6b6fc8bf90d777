#include "ops/network/convolution_attrs.h"

namespace gluino::ops {

using kernels::ConvGeometry;
using kernels::Spatial;

ConvGeometry geometry_of(const ConvolutionAttrs& a, const Shape& data) {
  ConvGeometry g;
  g.rank = a.kernel.ndim();
  if (g.rank < 1 || g.rank > 3) raise<AttrError>("kernel = {} has {} numbers, but 1, 2 or 3 are supported", a.kernel, g.rank);
  if (data.ndim() != g.rank + 2) raise<ShapeError>("data has shape {}, but kernel = {} needs {} axes", data, a.kernel, g.rank + 2);
  g.channels_last = is_channels_last(a.layout, g.rank);
  g.kernel = spatial_tuple(a.kernel, g.rank, 1, "kernel");
  g.stride = spatial_tuple(a.stride, g.rank, 1, "stride");
  g.dilate = spatial_tuple(a.dilate, g.rank, 1, "dilate");
  g.pad = spatial_tuple(a.pad, g.rank, 0, "pad");
  g.batch = data[0];
  g.in_channels = data[g.channels_last ? g.rank + 1 : 1];
  g.out_channels = a.num_filter;
  g.groups = a.num_group;
  if (g.groups < 1 || g.out_channels < 1 || g.out_channels % g.groups)
    raise<AttrError>("num_filter = {} is not a positive multiple of num_group = {}", a.num_filter, a.num_group);
  if (g.in_channels % g.groups)
    raise<ShapeError>("data has {} channels, which is not a multiple of num_group = {}", g.in_channels, a.num_group);
  for (int i = 0; i < g.rank; ++i) {
    const auto s = static_cast<size_t>(i);
    if (g.kernel[s] < 1 || g.stride[s] < 1 || g.dilate[s] < 1 || g.pad[s] < 0)
      raise<AttrError>("kernel {}, stride {} and dilate {} must be positive and pad {} not negative", a.kernel, a.stride, a.dilate, a.pad);
    g.in[s] = data[g.channels_last ? 1 + i : 2 + i];
    check_extent(g.in[s], data);
    const int64_t window = g.dilate[s] * (g.kernel[s] - 1) + 1, room = g.in[s] + 2 * g.pad[s] - window;
    if (room < 0 && g.in[s] >= 0)
      raise<ShapeError>("the window of {} is larger than the padded extent {} of spatial axis {} of data {}", window,
                        g.in[s] + 2 * g.pad[s], i, data);
    g.out[s] = room / g.stride[s] + 1;
  }
  return g;
}

Shape activation_shape(const ConvGeometry& g, int64_t channels, const Spatial& extents) {
  Shape s{g.batch};
  if (!g.channels_last) s.push_back(channels);
  for (int i = 0; i < g.rank; ++i) s.push_back(extents[i]);
  if (g.channels_last) s.push_back(channels);
  return s;
}
Shape weight_shape(const ConvGeometry& g) {
  ConvGeometry w = g;
  w.batch = g.out_channels;
  return activation_shape(w, g.in_channels / g.groups, g.kernel);
}
void check_convolution(const ConvolutionAttrs& a, const Shape& head, const Shape& data, const Shape& weight) {
  const ConvGeometry g = geometry_of(a, data);
  check_weight(weight, weight_shape(g));
  check_head(head, activation_shape(g, g.out_channels, g.out));
}
void check_weight(const Shape& given, const Shape& needed) {
  if (!(given == needed)) raise<ShapeError>("weight has shape {}, but {} is needed", given, needed);
}
void check_bias(const Shape& given, int64_t channels) {
  if (!(given == Shape{channels})) raise<ShapeError>("bias has shape {}, but {} is needed", given, Shape{channels});
}

bool has_known_channels(const ConvolutionAttrs& a, const std::optional<Shape>& data) {
  const int rank = a.kernel.ndim();
  return data && data->ndim() == rank + 2 && rank >= 1 && rank <= 3 && (*data)[is_channels_last(a.layout, rank) ? rank + 1 : 1] >= 0;
}
Shape with_large_extents(const ConvolutionAttrs& a, Shape s) {
  const int first = is_channels_last(a.layout, a.kernel.ndim()) ? 1 : 2;
  for (int i = 0; i < a.kernel.ndim(); ++i) s[first + i] = int64_t{1} << 30;
  return s;
}

}  // namespace gluino::ops
