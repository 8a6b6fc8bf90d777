#include "cli/face_cascade.h"

#include <cmath>
#include <cstring>

#include "gluino/gluino.h"

namespace gluino::cli {
namespace {

// A part of the picture that may be a face, with the corrections of its edges as parts of its size.
struct Window {
  double left, top, right, bottom, score;
  std::array<double, 4> correction{};
  std::array<std::pair<double, double>, 5> points{};
  double width() const { return right - left + 1; }
  double height() const { return bottom - top + 1; }
};
using Windows = std::vector<Window>;

enum class Overlap { of_union, of_smaller };

// The best of those that overlap by more than `limit`.
Windows keep_best(Windows windows, double limit, Overlap overlap) {
  std::stable_sort(windows.begin(), windows.end(), [](const Window& a, const Window& b) { return a.score > b.score; });
  Windows kept;
  for (const Window& w : windows) {
    const bool is_covered = std::any_of(kept.begin(), kept.end(), [&](const Window& k) {
      const double width = std::min(k.right, w.right) - std::max(k.left, w.left) + 1;
      const double height = std::min(k.bottom, w.bottom) - std::max(k.top, w.top) + 1;
      if (width <= 0 || height <= 0) return false;
      const double common = width * height, a = k.width() * k.height(), b = w.width() * w.height();
      return common / (overlap == Overlap::of_union ? a + b - common : std::min(a, b)) > limit;
    });
    if (!is_covered) kept.push_back(w);
  }
  return kept;
}

void apply_corrections(Windows& windows) {
  for (Window& w : windows) {
    const double width = w.width(), height = w.height();
    w.left += w.correction[0] * width;
    w.top += w.correction[1] * height;
    w.right += w.correction[2] * width;
    w.bottom += w.correction[3] * height;
  }
}

// Square about the same middle, on whole pixels.
void make_square(Windows& windows) {
  for (Window& w : windows) {
    const double side = std::max(w.width(), w.height());
    w.left = std::round(w.left + (w.width() - side) / 2);
    w.top = std::round(w.top + (w.height() - side) / 2);
    w.right = std::round(w.left + side - 1);
    w.bottom = std::round(w.top + side - 1);
  }
}

// Pixels from about -1 to 1, channels first, in the order in which the networks were trained: blue, green, red.
Tensor prepared(const Tensor& picture) {
  const Tensor x = ((reverse(picture, {.axis = Shape{2}}).astype(DType::float32) - 127.5) / 128.0).transpose({2, 0, 1});
  return x.reshape({1, x.shape()[0], x.shape()[1], x.shape()[2]});
}

Tensor resized(const Tensor& picture, int64_t width, int64_t height) { return vision::Resize({width, height})(picture); }

// The window's pixels; what lies outside the picture is black.
Tensor cut_out(const Tensor& picture, const Window& w) {
  const int64_t height = picture.shape()[0], width = picture.shape()[1];
  const auto side_x = static_cast<int64_t>(w.width()), side_y = static_cast<int64_t>(w.height());
  const auto left = static_cast<int64_t>(w.left), top = static_cast<int64_t>(w.top);
  Tensor part = zeros({side_y, side_x, 3}, {.dtype = DType::uint8});
  const uint8_t* from = picture.data<uint8_t>();
  uint8_t* to = part.mutable_data<uint8_t>();
  const int64_t begin = std::max<int64_t>(left, 0), end = std::min(left + side_x, width);
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + side_y, height) && begin < end; ++y)
    std::memcpy(to + ((y - top) * side_x + begin - left) * 3, from + (y * width + begin) * 3, static_cast<size_t>(end - begin) * 3);
  return part;
}

// Stage one on the picture at one size: every place of the network's output looks at a window of 12 pixels, two apart.
Windows look_at_size(HybridBlock& net, const Tensor& picture, double scale, double threshold) {
  constexpr double kStride = 2, kCell = 12;
  const auto height = static_cast<int64_t>(std::ceil(static_cast<double>(picture.shape()[0]) * scale));
  const auto width = static_cast<int64_t>(std::ceil(static_cast<double>(picture.shape()[1]) * scale));
  const Tensors outputs = net(Tensors{prepared(resized(picture, width, height))});
  const Tensor corrections = outputs.at(0), scores = outputs.at(1);
  const int64_t rows = scores.shape()[2], columns = scores.shape()[3], places = rows * columns;
  Windows windows;
  for (int64_t p = 0; p < places; ++p) {
    const double score = scores.data<float>()[places + p];
    if (score <= threshold) continue;
    const double x = kStride * static_cast<double>(p % columns), y = kStride * static_cast<double>(p / columns);
    Window w{.left = std::round((x + 1) / scale),
             .top = std::round((y + 1) / scale),
             .right = std::round((x + kCell) / scale),
             .bottom = std::round((y + kCell) / scale),
             .score = score};
    for (int64_t k = 0; k < 4; ++k) w.correction[static_cast<size_t>(k)] = corrections.data<float>()[k * places + p];
    windows.push_back(w);
  }
  return keep_best(std::move(windows), 0.5, Overlap::of_union);
}

// Stages two and three: each window by itself, enlarged or reduced to `side`.
Windows look_closer(HybridBlock& net, const Tensor& picture, const Windows& windows, int64_t side, double threshold) {
  if (windows.empty()) return {};
  const auto count = static_cast<int64_t>(windows.size());
  Tensor batch = empty({count, 3, side, side});
  const int64_t each = 3 * side * side;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor x = prepared(resized(cut_out(picture, windows[static_cast<size_t>(i)]), side, side));
    std::memcpy(batch.mutable_data<float>() + i * each, x.data<float>(), static_cast<size_t>(each) * sizeof(float));
  }
  const Tensors outputs = net(Tensors{batch});
  const bool has_points = outputs.size() == 3;
  const float *points = outputs[0].data<float>(), *corrections = outputs[has_points ? 1 : 0].data<float>();
  const float* scores = outputs.back().data<float>();
  Windows passed;
  for (int64_t i = 0; i < count; ++i) {
    if (scores[2 * i + 1] <= threshold) continue;
    Window w = windows[static_cast<size_t>(i)];
    w.score = scores[2 * i + 1];
    for (size_t k = 0; k < 4; ++k) w.correction[k] = corrections[4 * i + static_cast<int64_t>(k)];
    for (size_t k = 0; has_points && k < 5; ++k)
      w.points[k] = {w.left + w.width() * points[10 * i + static_cast<int64_t>(k)],
                     w.top + w.height() * points[10 * i + 5 + static_cast<int64_t>(k)]};
    passed.push_back(w);
  }
  return passed;
}

}  // namespace

FaceCascade::FaceCascade(std::unique_ptr<HybridBlock> first, std::unique_ptr<HybridBlock> second, std::unique_ptr<HybridBlock> third)
    : first_(std::move(first)), second_(std::move(second)), third_(std::move(third)) {
  for (HybridBlock* net : {first_.get(), second_.get(), third_.get()}) net->hybridize();
}

std::vector<Face> FaceCascade::find(const Tensor& picture, const CascadeOptions& options, const std::function<void(double)>& progress) {
  const auto shorter = static_cast<double>(std::min(picture.shape()[0], picture.shape()[1]));
  Windows windows;
  // Each size has half the pixels of the one before.
  double done = 0, part = 0.5;
  for (double scale = 12 / options.smallest; shorter * scale >= 12; scale *= options.factor, part /= 2) {
    for (const Window& w : look_at_size(*first_, picture, scale, options.thresholds[0])) windows.push_back(w);
    progress(done += part);
  }
  windows = keep_best(std::move(windows), 0.7, Overlap::of_union);
  apply_corrections(windows);
  make_square(windows);
  windows = keep_best(look_closer(*second_, picture, windows, 24, options.thresholds[1]), 0.7, Overlap::of_union);
  apply_corrections(windows);
  make_square(windows);
  windows = look_closer(*third_, picture, windows, 48, options.thresholds[2]);
  apply_corrections(windows);
  std::vector<Face> faces;
  for (const Window& w : keep_best(std::move(windows), 0.7, Overlap::of_smaller))
    faces.push_back({w.left, w.top, w.right, w.bottom, w.score, w.points});
  return faces;
}

}  // namespace gluino::cli
