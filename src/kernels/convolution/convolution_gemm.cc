#include "kernels/convolution/convolution_gemm.h"

#include <algorithm>

#include "base/copy_bytes.h"
#include "base/parallel.h"
#include "kernels/convolution/seen_outputs.h"
#include "kernels/gemm/gemm.h"

namespace gluino::kernels {
namespace {

struct Sizes {
  int64_t positions, terms;
  explicit Sizes(const ConvGeometry& g) : positions(g.batch * g.out_area()), terms(g.in_channels * g.kernel_area()) {}
};
// (positions, terms): a row has what one output sees, in the order of the weight.
float* windows_of(const ConvGeometry& g, const float* data, const Scratch& scratch) {
  const Sizes s(g);
  float* windows = floats(s.positions * s.terms, scratch);
  const int64_t height = g.in[0], width = g.in[1];
  parallel_for(s.positions, kParallelGrain / s.terms, [&](int64_t begin, int64_t end) {
    std::fill(windows + begin * s.terms, windows + end * s.terms, 0.0f);
    for (int64_t p = begin; p < end; ++p) {
      const float* image = data + p / g.out_area() * g.in_channels * g.in_area();
      const int64_t top = p / g.out[1] % g.out[0] * g.stride[0] - g.pad[0], left = p % g.out[1] * g.stride[1] - g.pad[1];
      float* to = windows + p * s.terms;
      for (int64_t c = 0; c < g.in_channels; ++c)
        for (int64_t i = 0; i < g.kernel[0]; ++i, to += g.kernel[1]) {
          const int64_t y = top + i * g.dilate[0];
          if (y < 0 || y >= height) continue;
          for (int64_t j = 0; j < g.kernel[1]; ++j)
            if (const int64_t x = left + j * g.dilate[1]; x >= 0 && x < width) to[j] = image[(c * height + y) * width + x];
        }
    }
  });
  return windows;
}

// (channels, positions): the head with its channels before the images.
float* channels_first(const ConvGeometry& g, const float* head, const Scratch& scratch) {
  const Sizes s(g);
  const int64_t area = g.out_area();
  float* channels = floats(g.out_channels * s.positions, scratch);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t o = 0; o < g.out_channels; ++o)
      std::copy_n(head + (n * g.out_channels + o) * area, area, channels + o * s.positions + n * area);
  return channels;
}

}  // namespace

bool can_run_gemm(const ConvGeometry& g) { return g.rank == 2 && !g.channels_last && g.groups == 1; }

// (channels, positions) = weight * windows transposed; then images come first.
void convolution_gemm(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out,
                      const Scratch& scratch) {
  const Sizes s(g);
  const float* windows = windows_of(g, data, scratch);
  float* sums = floats(g.out_channels * s.positions, scratch);
  gemm<float>({g.out_channels, s.positions, s.terms}, {weight, s.terms}, {windows, s.terms, true}, {sums, s.positions});
  const int64_t area = g.out_area();
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t o = 0; o < g.out_channels; ++o) {
      const float* from = sums + o * s.positions + n * area;
      float *to = out + (n * g.out_channels + o) * area, shift = bias ? bias[o] : 0.0f;
      for (int64_t i = 0; i < area; ++i) to[i] = from[i] + shift;
    }
}

// (terms, positions) = weight transposed * head; then every window is added where it was read.
void gemm_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch) {
  const Sizes s(g);
  const float* channels = channels_first(g, head, scratch);
  float* windows = floats(s.terms * s.positions, scratch);
  gemm<float>({s.terms, s.positions, g.out_channels}, {weight, s.terms, true}, {channels, s.positions}, {windows, s.positions});
  const int64_t height = g.in[0], width = g.in[1], area = height * width, taps = g.kernel_area();
  parallel_for(g.in_channels, kParallelGrain / (taps * s.positions), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t n = 0; n < g.batch; ++n) std::fill_n(data_grad + (n * g.in_channels + c) * area, area, 0.0f);
      for (int64_t t = 0; t < taps; ++t) {
        const float* from = windows + (c * taps + t) * s.positions;
        const int64_t down = t / g.kernel[1] * g.dilate[0] - g.pad[0], right = t % g.kernel[1] * g.dilate[1] - g.pad[1];
        for (int64_t n = 0; n < g.batch; ++n) {
          float* plane = data_grad + (n * g.in_channels + c) * area;
          for (int64_t i = 0; i < g.out[0]; ++i, from += g.out[1]) {
            const int64_t y = i * g.stride[0] + down;
            if (y < 0 || y >= height) continue;
            for (int64_t j = 0; j < g.out[1]; ++j)
              if (const int64_t x = j * g.stride[1] + right; x >= 0 && x < width) plane[y * width + x] += from[j];
          }
        }
      }
    }
  });
}

namespace {

// Every stride-th pixel of a channel lies side by side in a plane of its own: what an element of the window adds to is then a run of it.
struct PixelPlanes {
  int64_t rows, columns, count;  // of one plane; planes of a channel
  explicit PixelPlanes(const ConvGeometry& g)
      : rows((g.in[0] + g.stride[0] - 1) / g.stride[0]),
        columns((g.in[1] + g.stride[1] - 1) / g.stride[1]),
        count(g.stride[0] * g.stride[1]) {}
  int64_t channel() const { return count * rows * columns; }
};

// Along one axis, output i adds to place i + `step` of the pixels that begin with pixel `phase`; for outputs in [first, last).
struct PhaseOfTap {
  int64_t phase, step, first, last;
  PhaseOfTap(int64_t offset, int64_t stride, int64_t pixels, int64_t outputs) {
    phase = ((offset % stride) + stride) % stride;
    step = (offset - phase) / stride;
    const int64_t places = (pixels - phase + stride - 1) / stride;
    first = std::max<int64_t>(0, -step);
    last = std::max(first, std::min(outputs, places - step));
  }
};

// Adds the windows of the outputs in rows [top, bottom), (taps, rows, columns), to the planes of a channel.
void add_windows(const ConvGeometry& g, const PixelPlanes& p, const float* windows, int64_t top, int64_t bottom, float* planes) {
  for (int64_t t = 0; t < g.kernel_area(); ++t, windows += (bottom - top) * g.out[1]) {
    const PhaseOfTap down(t / g.kernel[1] * g.dilate[0] - g.pad[0], g.stride[0], g.in[0], g.out[0]);
    const PhaseOfTap right(t % g.kernel[1] * g.dilate[1] - g.pad[1], g.stride[1], g.in[1], g.out[1]);
    float* plane = planes + (down.phase * g.stride[1] + right.phase) * p.rows * p.columns;
    for (int64_t i = std::max(top, down.first); i < std::min(bottom, down.last); ++i) {
      const float* from = windows + (i - top) * g.out[1];
      float* to = plane + (i + down.step) * p.columns + right.step;
      for (int64_t j = right.first; j < right.last; ++j) to[j] += from[j];
    }
  }
}

void interleave(const ConvGeometry& g, const PixelPlanes& p, const float* planes, float* image) {
  for (int64_t y = 0; y < g.in[0]; ++y)
    for (int64_t phase = 0; phase < g.stride[1]; ++phase) {
      const float* from = planes + ((y % g.stride[0] * g.stride[1] + phase) * p.rows + y / g.stride[0]) * p.columns;
      for (int64_t x = phase; x < g.in[1]; x += g.stride[1]) image[y * g.in[1] + x] = *from++;
    }
}

}  // namespace

void gemm_data_grad_in_bands(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch) {
  constexpr int64_t kElements = 1 << 16;  // of a band's windows: they stay in the second-level cache
  const int64_t terms = g.in_channels * g.kernel_area(), taps = g.kernel_area();
  const int64_t rows = std::clamp<int64_t>(kElements / (terms * g.out[1]), 1, g.out[0]);
  const PixelPlanes p(g);
  float* windows = floats(terms * rows * g.out[1], scratch);
  float* planes = floats(g.in_channels * p.channel(), scratch);
  for (int64_t n = 0; n < g.batch; ++n) {
    std::fill_n(planes, g.in_channels * p.channel(), 0.0f);
    for (int64_t top = 0; top < g.out[0]; top += rows) {
      const int64_t bottom = std::min(top + rows, g.out[0]), positions = (bottom - top) * g.out[1];
      const float* seen = head + n * g.out_channels * g.out_area() + top * g.out[1];
      gemm<float>({terms, positions, g.out_channels}, {weight, terms, true}, {seen, g.out_area()}, {windows, positions});
      parallel_for(g.in_channels, kParallelGrain / (taps * positions), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) add_windows(g, p, windows + c * taps * positions, top, bottom, planes + c * p.channel());
      });
    }
    parallel_for(g.in_channels, kParallelGrain / g.in_area(), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) interleave(g, p, planes + c * p.channel(), data_grad + (n * g.in_channels + c) * g.in_area());
    });
  }
}

// (channels, terms) = head * windows.
void gemm_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch) {
  const Sizes s(g);
  const float *windows = windows_of(g, data, scratch), *channels = channels_first(g, head, scratch);
  gemm<float>({g.out_channels, s.terms, s.positions}, {channels, s.positions}, {windows, s.terms}, {weight_grad, s.terms});
}

namespace {

constexpr int64_t kLeastRun = 128;  // below, a product has too few columns

bool is_one_place(const ConvGeometry& g) {
  return g.kernel_area() == 1 && std::all_of(g.pad.begin(), g.pad.begin() + g.rank, [](int64_t p) { return p == 0; });
}

// What runs of outputs see, as the second factor of a product: the data as they lie, or (terms, outputs) where windows have more than
// one place.
class SeenRuns {
 public:
  SeenRuns(const ConvGeometry& g, const Scratch& scratch)
      : g_(g), terms_(g.in_channels * g.kernel_area()), length_(g.out_area()), lies_(is_one_place(g)) {
    constexpr int64_t kElements = 1 << 16;  // stay in the second-level cache
    if (lies_) return;
    length_ = std::min(length_, std::max(kElements / terms_, kLeastRun));
    windows_ = floats(terms_ * length_, scratch);
  }
  // f(first output, how many, factor) for one image.
  template <class F>
  void visit(const float* image, F&& f) const {
    for (int64_t first = 0; first < g_.out_area(); first += length_) {
      const int64_t count = std::min(length_, g_.out_area() - first);
      if (!lies_) fill(image, first, count);
      f(first, count, lies_ ? Factor<float>{image, g_.in_area()} : Factor<float>{windows_, length_});
    }
  }

 private:
  void fill(const float* image, int64_t first, int64_t count) const {
    for (int64_t i = 0; i < terms_; ++i) {
      const int64_t tap = i % g_.kernel_area();
      const SeenOutputs seen = seen_outputs(g_, 0, tap);
      const int64_t begin = std::clamp(seen.first, first, first + count), end = std::clamp(seen.last, begin, first + count);
      float* to = windows_ + i * length_;
      std::fill(to, to + (begin - first), 0.0f);
      copy_bytes(to + (begin - first), image + i / g_.kernel_area() * g_.in_area() + begin + seen.offset,
                 (end - begin) * static_cast<int64_t>(sizeof(float)));
      std::fill(to + (end - first), to + count, 0.0f);
    }
  }
  const ConvGeometry& g_;
  int64_t terms_, length_;
  bool lies_;
  float* windows_ = nullptr;
};

}  // namespace

bool can_run_runs(const ConvGeometry& g) {
  if (g.channels_last || g.groups != 1 || g.out_area() < kLeastRun) return false;
  const bool has_step = std::any_of(g.stride.begin(), g.stride.begin() + g.rank, [](int64_t s) { return s != 1; });
  return !has_step && (is_one_place(g) || (g.rank == 1 && g.pad[0] <= (g.kernel[0] - 1) * g.dilate[0]));
}

void convolution_runs(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out,
                      const Scratch& scratch) {
  const SeenRuns seen(g, scratch);
  const int64_t terms = g.in_channels * g.kernel_area(), area = g.out_area();
  for (int64_t n = 0; n < g.batch; ++n, data += g.in_channels * g.in_area(), out += g.out_channels * area) {
    for (int64_t o = 0; bias && o < g.out_channels; ++o) std::fill_n(out + o * area, area, bias[o]);
    seen.visit(data, [&](int64_t first, int64_t count, const Factor<float>& factor) {
      gemm<float>({g.out_channels, count, terms}, {weight, terms}, factor, {out + first, area}, {1, bias ? 1.0f : 0.0f});
    });
  }
}

// The head under the windows turned round.
void runs_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch) {
  const int64_t taps = g.kernel_area();
  ConvGeometry t = g;
  std::swap(t.in, t.out);
  std::swap(t.in_channels, t.out_channels);
  t.pad[0] = (g.kernel[0] - 1) * g.dilate[0] - g.pad[0];
  float* turned = floats(g.out_channels * g.in_channels * taps, scratch);
  for (int64_t o = 0; o < g.out_channels; ++o)
    for (int64_t c = 0; c < g.in_channels; ++c) {
      const float* window = weight + (o * g.in_channels + c) * taps;
      std::reverse_copy(window, window + taps, turned + (c * g.out_channels + o) * taps);
    }
  convolution_runs(t, head, turned, nullptr, data_grad, scratch);
}

void runs_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch) {
  const SeenRuns seen(g, scratch);
  const int64_t terms = g.in_channels * g.kernel_area(), area = g.out_area();
  std::fill_n(weight_grad, g.out_channels * terms, 0.0f);
  for (int64_t n = 0; n < g.batch; ++n, data += g.in_channels * g.in_area(), head += g.out_channels * area)
    seen.visit(data, [&](int64_t first, int64_t count, Factor<float> factor) {
      factor.is_transposed = true;
      gemm<float>({g.out_channels, terms, count}, {head + first, area}, factor, {weight_grad, terms}, {1, 1});
    });
}

}  // namespace gluino::kernels
