// The double kernels of convolution: matrix products with the windows of one image after the other spelled out.
#include <algorithm>

#include "base/parallel.h"
#include "kernels/convolution/convolution.h"
#include "kernels/convolution/seen_outputs.h"
#include "kernels/gemm/gemm.h"

namespace gluino::kernels {
namespace {

// The axes that count become the last ones, where runs of neighbours are.
ConvGeometry with_last_axes(ConvGeometry g) {
  const auto moved = [&](Spatial& of, int64_t missing) {
    const Spatial before = of;
    of = {missing, missing, missing};
    for (int i = 0; i < g.rank; ++i) of[static_cast<size_t>(i + 3 - g.rank)] = before[static_cast<size_t>(i)];
  };
  for (Spatial* of : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilate}) moved(*of, 1);
  moved(g.pad, 0);
  return g;
}

// One group of one image as matrices: windows are (terms, area), in the order of the weight's terms.
class Image {
 public:
  Image(const ConvGeometry& geometry, const Scratch& scratch)
      : g_(with_last_axes(geometry)),
        area(g_.out_area()),
        channels(g_.in_channels / g_.groups),
        filters(g_.out_channels / g_.groups),
        terms(channels * g_.kernel_area()),
        windows(static_cast<double*>(scratch(terms * area * int64_t{sizeof(double)}))) {}

  int64_t data(int64_t n, int64_t group) const { return n * g_.in_channels * g_.in_area() + group * channels * channel_step(g_.in_area()); }
  int64_t out(int64_t n, int64_t group) const { return n * g_.out_channels * area + group * filters * channel_step(area); }
  int64_t weight(int64_t group) const { return group * filters * terms; }

  void read(const double* image) const {
    for_each_term(
        [&](int64_t from, int64_t to, int64_t n, int64_t step) {
          for (int64_t i = 0; i < n; ++i) windows[to + i] = image[from + i * step];
        },
        true);
  }
  // Adds every window where it was read.
  void add_to(double* image) const {
    for_each_term(
        [&](int64_t from, int64_t to, int64_t n, int64_t step) {
          for (int64_t i = 0; i < n; ++i) image[from + i * step] += windows[to + i];
        },
        false);
  }

 private:
  const ConvGeometry g_;
  int64_t channel_step(int64_t plane) const { return g_.channels_last ? 1 : plane; }

  // f(place in the image, place in the windows, how many, step in the image) for every run of windows; what lies outside of the image is
  // filled with zeros, if asked for. Channels do not share places of the image.
  template <class F>
  void for_each_term(F&& f, bool fill) const {
    const int64_t taps = g_.kernel_area(), unit = g_.channels_last ? g_.in_channels : 1;
    parallel_for(channels, kParallelGrain / std::max<int64_t>(taps * area, 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t q = 0; q < taps; ++q) {
          double* to = windows + (g_.channels_last ? q * channels + c : c * taps + q) * area;
          const SeenOutputs z = seen_outputs(g_, 0, q / (g_.kernel[1] * g_.kernel[2])),
                            y = seen_outputs(g_, 1, q / g_.kernel[2] % g_.kernel[1]), x = seen_outputs(g_, 2, q % g_.kernel[2]);
          const bool all_seen = z.count() == g_.out[0] && y.count() == g_.out[1] && x.count() == g_.out[2];
          if (fill && !all_seen) std::fill_n(to, area, 0.0);
          for (int64_t i = z.first; i < z.last; ++i)
            for (int64_t j = y.first; j < y.last; ++j) {
              const int64_t row = ((i * g_.stride[0] + z.offset) * g_.in[1] + j * g_.stride[1] + y.offset) * g_.in[2];
              f((row + x.first * g_.stride[2] + x.offset) * unit + c * channel_step(g_.in_area()),
                (to - windows) + (i * g_.out[1] + j) * g_.out[2] + x.first, x.count(), g_.stride[2] * unit);
            }
        }
    });
  }

 public:
  const int64_t area, channels, filters, terms;
  double* const windows;
};

}  // namespace

void convolution(const ConvGeometry& g, const double* data, const double* weight, const double* bias, double* out, const Scratch& scratch) {
  const Image image(g, scratch);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t k = 0; k < g.groups; ++k) {
      image.read(data + image.data(n, k));
      double* to = out + image.out(n, k);
      const double *w = weight + image.weight(k), *shift = bias ? bias + k * image.filters : nullptr;
      for (int64_t i = 0; i < image.filters * image.area && bias; ++i) {
        const int64_t filter = g.channels_last ? i % image.filters : i / image.area;
        to[g.channels_last ? i / image.filters * g.out_channels + filter : i] = shift[filter];
      }
      const double beta = bias ? 1 : 0;
      if (g.channels_last)
        gemm<double>({image.area, image.filters, image.terms}, {image.windows, image.area, true}, {w, image.terms, true},
                     {to, g.out_channels}, {.old = beta});
      else
        gemm<double>({image.filters, image.area, image.terms}, {w, image.terms}, {image.windows, image.area}, {to, image.area},
                     {.old = beta});
    }
}

void convolution_data_grad(const ConvGeometry& g, const double* head, const double* weight, double* data_grad, const Scratch& scratch) {
  const Image image(g, scratch);
  std::fill_n(data_grad, g.batch * g.in_channels * g.in_area(), 0.0);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t k = 0; k < g.groups; ++k) {
      gemm<double>({image.terms, image.area, image.filters}, {weight + image.weight(k), image.terms, true},
                   {head + image.out(n, k), g.channels_last ? g.out_channels : image.area, g.channels_last}, {image.windows, image.area});
      image.add_to(data_grad + image.data(n, k));
    }
}

void convolution_weight_grad(const ConvGeometry& g, const double* head, const double* data, double* weight_grad, const Scratch& scratch) {
  const Image image(g, scratch);
  if (g.batch == 0) std::fill_n(weight_grad, g.out_channels * image.terms, 0.0);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t k = 0; k < g.groups; ++k) {
      image.read(data + image.data(n, k));
      gemm<double>({image.filters, image.terms, image.area},
                   {head + image.out(n, k), g.channels_last ? g.out_channels : image.area, g.channels_last},
                   {image.windows, image.area, true}, {weight_grad + image.weight(k), image.terms}, {.old = n ? 1.0 : 0.0});
    }
}

}  // namespace gluino::kernels
