// Helpers that the operators of networks share: attributes over spatial axes, calls with typed attributes, scratch memory.
#pragma once
#include <array>

#include "dispatch/compiler_rules.h"
#include "kernels/convolution/convolution.h"
#include "ops/common.h"
#include "tensor/impl.h"

namespace gluino::ops {

// Calls an operator whose attributes are of the same struct as the caller's.
template <class A>
Tensor call_with(std::string_view name, std::initializer_list<Tensor> inputs, A attrs) {
  return apply_one(OpRegistry::global().get(name), {inputs.begin(), inputs.size()}, std::make_shared<const A>(std::move(attrs)));
}
template <class A>
Tensors call_all_with(std::string_view name, std::initializer_list<Tensor> inputs, A attrs) {
  return apply(OpRegistry::global().get(name), {inputs.begin(), inputs.size()}, std::make_shared<const A>(std::move(attrs)));
}

// Calls f with a null pointer of float or double.
template <class F>
void visit_real(DType dtype, F&& f) {
  if (dtype == DType::float64)
    f(static_cast<double*>(nullptr));
  else
    f(static_cast<float*>(nullptr));
}
inline std::vector<DType> real_dtypes() { return {DType::float32, DType::float64}; }

// Extents that windows move over; sums with the tuples below must not overflow.
inline void check_extent(int64_t extent, const Shape& data) {
  if (extent > (int64_t{1} << 60)) raise<ShapeError>("data of shape {} is absurd", data);
}

// Images with at least one pixel: what reads between pixels has something to read.
inline void check_pixels(const Shape& images) {
  if (images.ndim() != 4) raise<ShapeError>("data has shape {}, but (batch, channels, height, width) is needed", images);
  if (images[2] < 1 || images[3] < 1) raise<ShapeError>("images of shape {} have no pixels", images);
}

// A tuple over the spatial axes: one number per axis, or empty for the fallback everywhere.
inline kernels::Spatial spatial_tuple(const Shape& given, int rank, int64_t fallback, const char* name) {
  kernels::Spatial s;
  s.fill(fallback);
  if (given.empty()) return s;
  if (given.ndim() != rank) raise<AttrError>("{} = {} has {} numbers, but there are {} spatial axes", name, given, given.ndim(), rank);
  for (int i = 0; i < rank; ++i) {
    // Products of two of these numbers must not overflow.
    constexpr int64_t most = int64_t{1} << 30;
    if (given[i] > most || given[i] < -most) raise<AttrError>("{} = {} is absurd", name, given);
    s[i] = given[i];
  }
  return s;
}

// Whether a layout such as "NHWC" has its channels last; the spatial letters are those of `rank` axes.
inline bool is_channels_last(const std::optional<std::string>& layout, int rank) {
  if (rank < 1 || rank > 3) raise<AttrError>("there are {} spatial axes, but 1, 2 or 3 are supported", rank);
  static const char* const first[] = {"NCW", "NCHW", "NCDHW"};
  static const char* const last[] = {"NWC", "NHWC", "NDHWC"};
  if (!layout || layout->empty() || *layout == first[rank - 1]) return false;
  if (*layout == last[rank - 1]) return true;
  raise<AttrError>("layout '{}' does not fit {} spatial axes; {} or {} does", *layout, rank, first[rank - 1], last[rank - 1]);
}

// A scale and a shift per channel of a layer's output, moved into its bias and its weight, which has the channels on
// `weight_axis`.
template <class A>
FoldedCall fold_into_weight(A attrs, const Tensors& in, const ChannelAffine& affine, int weight_axis) {
  Shape column = Shape::filled(in[1].ndim(), 1);
  column[weight_axis] = -1;
  const Tensor bias = attrs.no_bias ? affine.shift : in[2].reshape({-1}) * affine.scale + affine.shift;
  attrs.no_bias = false;
  return {{in[0], in[1] * affine.scale.reshape(column), bias}, std::make_shared<const A>(std::move(attrs))};
}

// A shape that inference may fill in: absent, or with unknown extents.
inline bool is_open(const std::optional<Shape>& s) { return !s || !s->is_known(); }

// Scratch memory from the pool of a device.
class PoolScratch {
 public:
  explicit PoolScratch(Device device) : device_(device) {}
  void* operator()(int64_t bytes) {
    held_.push_back(make_tensor({bytes}, DType::uint8, device_));
    return bytes_of(held_.back());
  }

 private:
  Device device_;
  Tensors held_;
};

}  // namespace gluino::ops
