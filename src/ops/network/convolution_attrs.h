// What the operators of convolutions share: attributes, and what follows from them.
#pragma once
#include "dispatch/compiler_rules.h"
#include "ops/nets.h"

namespace gluino::ops {

struct ConvolutionAttrs {
  Shape kernel, stride, dilate, pad;
  int64_t num_filter = 0, num_group = 1;
  bool no_bias = false;
  std::optional<std::string> layout;
  static void fields(AttrFields<ConvolutionAttrs>& f) {
    f.required("kernel", &ConvolutionAttrs::kernel, "window size per spatial axis: (w,), (h, w) or (d, h, w)")
        .field("stride", &ConvolutionAttrs::stride, "step of the window per axis; 1 when empty")
        .field("dilate", &ConvolutionAttrs::dilate, "distance of the window's elements per axis; 1 when empty")
        .field("pad", &ConvolutionAttrs::pad, "zeros added at both ends of each axis; 0 when empty")
        .required("num_filter", &ConvolutionAttrs::num_filter, "number of output channels")
        .field("num_group", &ConvolutionAttrs::num_group, "number of groups the channels are split into")
        .field("no_bias", &ConvolutionAttrs::no_bias, "leave the bias out")
        .field("layout", &ConvolutionAttrs::layout, "NCW, NCHW, NCDHW, or one of NWC, NHWC, NDHWC");
  }
};

// The parts that follow from the attributes and the shape of the input of the convolution.
kernels::ConvGeometry geometry_of(const ConvolutionAttrs& a, const Shape& data);
// The shapes of head, data and weight fit a convolution with these attributes.
void check_convolution(const ConvolutionAttrs& a, const Shape& head, const Shape& data, const Shape& weight);
Shape activation_shape(const kernels::ConvGeometry& g, int64_t channels, const kernels::Spatial& extents);
Shape weight_shape(const kernels::ConvGeometry& g);
void check_weight(const Shape& given, const Shape& needed);
void check_bias(const Shape& given, int64_t channels);
bool has_known_channels(const ConvolutionAttrs& a, const std::optional<Shape>& data);
// Extents that are not known yet do not matter for the weight: any large enough number will do.
Shape with_large_extents(const ConvolutionAttrs& a, Shape s);

// The compiled form of Convolution, on blocked activations.
std::optional<CompiledLayer> compiled_convolution(const ConvolutionAttrs& a, std::span<const Shape> in, LayerEpilogue e, bool blocked);

}  // namespace gluino::ops
