// Boxes of object detection: overlap, suppression, priors and decoding.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "ops/nets.h"
#include "ops/vision/boxes.h"

namespace gluino::ops {
namespace {

constexpr const char* kDiscrete = "it chooses boxes";
enum class BoxFormat : uint8_t { corner, center };

template <class T>
static Box<T> read_box(const T* p, BoxFormat format) {
  if (format == BoxFormat::corner) return {p[0], p[1], p[2], p[3]};
  return {p[0] - p[2] / 2, p[1] - p[3] / 2, p[0] + p[2] / 2, p[1] + p[3] / 2};
}
template <class T>
static void write_box(const Box<T>& b, BoxFormat format, T* p) {
  if (format == BoxFormat::corner)
    std::tie(p[0], p[1], p[2], p[3]) = std::tuple(b.x0, b.y0, b.x1, b.y1);
  else
    std::tie(p[0], p[1], p[2], p[3]) = std::tuple((b.x0 + b.x1) / 2, (b.y0 + b.y1) / 2, b.x1 - b.x0, b.y1 - b.y0);
}
struct BoxIouAttrs {
  BoxFormat format = BoxFormat::corner;
  static void fields(AttrFields<BoxIouAttrs>& f) {
    f.choice("format", &BoxIouAttrs::format, {"corner", "center"}, "corners, or center and size");
  }
};
GLUINO_OP(_contrib_box_iou, BoxIouAttrs) {
  op.doc("Intersection over union of every box of lhs with every box of rhs.")
      .input("lhs")
      .input("rhs")
      .kernel_dtypes(real_dtypes())
      .shape([](const BoxIouAttrs&, std::span<const Shape> in) {
        Shape out;
        for (const Shape& s : in) {
          if (s.empty() || s.back() != 4) raise<ShapeError>("boxes have shape {}, but the last extent must be 4", s);
          for (int i = 0; i + 1 < s.ndim(); ++i) out.push_back(s[i]);
        }
        return out;
      })
      .kernel([](const BoxIouAttrs& a, KernelContext& k) {
        const int64_t rows = k.in(0).size() / 4, columns = k.in(1).size() / 4;
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j)
              k.out_data<T>()[i * columns + j] =
                  overlap(read_box(k.data<T>(0) + i * 4, a.format), read_box(k.data<T>(1) + j * 4, a.format));
        });
      })
      .not_differentiable("the overlap is used to choose boxes")
      .sample({uniform_sample({2, 4}, 0, 1), uniform_sample({3, 4}, 0, 1)})
      .sample({uniform_sample({2, 4}, 0, 1), uniform_sample({3, 4}, 0, 1)}, {.format = BoxFormat::center});
}

// ---- suppression of overlapping boxes
struct BoxNmsAttrs {
  double overlap_thresh = 0.5, valid_thresh = 0;
  int64_t topk = -1, coord_start = 2, score_index = 1, id_index = -1, background_id = -1;
  bool force_suppress = false;
  BoxFormat in_format = BoxFormat::corner, out_format = BoxFormat::corner;
  static void fields(AttrFields<BoxNmsAttrs>& f) {
    f.field("overlap_thresh", &BoxNmsAttrs::overlap_thresh, "boxes that overlap more than this with a better one are left out")
        .field("valid_thresh", &BoxNmsAttrs::valid_thresh, "boxes with a lower score are left out")
        .field("topk", &BoxNmsAttrs::topk, "how many of the best boxes are looked at; negative for all")
        .field("coord_start", &BoxNmsAttrs::coord_start, "where the 4 coordinates of a record start")
        .field("score_index", &BoxNmsAttrs::score_index, "where the score of a record is")
        .field("id_index", &BoxNmsAttrs::id_index, "where the class of a record is; negative for none")
        .field("background_id", &BoxNmsAttrs::background_id, "the class that is left out")
        .field("force_suppress", &BoxNmsAttrs::force_suppress, "boxes of different classes suppress each other too")
        .choice("in_format", &BoxNmsAttrs::in_format, {"corner", "center"}, "how boxes are given")
        .choice("out_format", &BoxNmsAttrs::out_format, {"corner", "center"}, "how boxes are written");
  }
};

// The records to keep, best first.
template <class T>
static std::vector<int64_t> suppress(const BoxNmsAttrs& a, const T* records, int64_t count, int64_t width) {
  std::vector<int64_t> order, kept;
  for (int64_t i = 0; i < count; ++i) {
    const T* r = records + i * width;
    const bool background = a.id_index >= 0 && a.background_id >= 0 && static_cast<int64_t>(r[a.id_index]) == a.background_id;
    if (r[a.score_index] > static_cast<T>(a.valid_thresh) && !background) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return records[i * width + a.score_index] > records[j * width + a.score_index]; });
  if (a.topk > 0 && static_cast<int64_t>(order.size()) > a.topk) order.resize(a.topk);
  for (int64_t i : order) {
    const T* r = records + i * width;
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](int64_t j) {
      const T* other = records + j * width;
      if (!a.force_suppress && a.id_index >= 0 && r[a.id_index] != other[a.id_index]) return false;
      return overlap(read_box(r + a.coord_start, a.in_format), read_box(other + a.coord_start, a.in_format)) >
             static_cast<T>(a.overlap_thresh);
    });
    if (!covered) kept.push_back(i);
  }
  return kept;
}

GLUINO_OP(_contrib_box_nms, BoxNmsAttrs) {
  op.doc("Keeps the best of overlapping boxes, best first; what is left out becomes -1.")
      .alias("_contrib_box_non_maximum_suppression")
      .input("data")
      .kernel_dtypes(real_dtypes())
      .shape([](const BoxNmsAttrs& a, std::span<const Shape> in) {
        if (in[0].ndim() < 2) raise<ShapeError>("data has shape {}, but (..., boxes, record) is needed", in[0]);
        const int64_t width = in[0].back();
        if (a.coord_start < 0 || a.coord_start > width - 4 || a.score_index < 0 || a.score_index >= width || a.id_index >= width)
          raise<AttrError>("coord_start = {}, score_index = {} and id_index = {} do not fit records of {} numbers", a.coord_start,
                           a.score_index, a.id_index, width);
        return in[0];
      })
      .kernel([](const BoxNmsAttrs& a, KernelContext& k) {
        const Shape& s = k.in(0).shape();
        const int64_t width = s.back(), count = s[s.ndim() - 2], batches = s.elements(0, s.ndim() - 2);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          std::fill_n(k.out_data<T>(), k.out().size(), T(-1));
          parallel_for(batches, 1, [&](int64_t begin, int64_t end) {
            for (int64_t b = begin; b < end; ++b) {
              const T* records = k.data<T>(0) + b * count * width;
              T* out = k.out_data<T>() + b * count * width;
              for (int64_t i : suppress(a, records, count, width)) {
                std::copy_n(records + i * width, width, out);
                if (a.in_format != a.out_format)
                  write_box(read_box(records + i * width + a.coord_start, a.in_format), a.out_format, out + a.coord_start);
                out += width;
              }
            }
          });
        });
      })
      .not_differentiable(kDiscrete)
      .sample({uniform_sample({2, 5, 6}, 0, 1)})
      .sample({uniform_sample({5, 5}, 0, 1)}, {.coord_start = 1, .score_index = 0, .out_format = BoxFormat::center});
}

// ---- single shot detection
struct MultiBoxPriorAttrs {
  Floats sizes{1.0}, ratios{1.0}, steps{-1.0, -1.0}, offsets{0.5, 0.5};
  bool clip = false;
  static void fields(AttrFields<MultiBoxPriorAttrs>& f) {
    f.field("sizes", &MultiBoxPriorAttrs::sizes, "heights of the boxes, as parts of the image")
        .field("ratios", &MultiBoxPriorAttrs::ratios, "width by height")
        .field("clip", &MultiBoxPriorAttrs::clip, "keep the boxes inside of the image")
        .field("steps", &MultiBoxPriorAttrs::steps, "distance of centers in y and x; negative: one cell")
        .field("offsets", &MultiBoxPriorAttrs::offsets, "place of the centers within a cell, y and x");
  }
  int64_t boxes() const { return static_cast<int64_t>(sizes.size() + ratios.size()) - 1; }
};
GLUINO_OP(_contrib_MultiBoxPrior, MultiBoxPriorAttrs) {
  op.doc("Prior boxes of several sizes and ratios around every cell of a feature map.")
      .alias("MultiBoxPrior")
      .input("data")
      .shape_only()
      .shape([](const MultiBoxPriorAttrs& a, std::span<const Shape> in) {
        if (in[0].ndim() != 4) raise<ShapeError>("data has shape {}, but (batch, channels, height, width) is needed", in[0]);
        if (a.sizes.empty() || a.ratios.empty() || a.steps.size() != 2 || a.offsets.size() != 2)
          raise<AttrError>("at least one size and ratio, two steps and two offsets are needed");
        return Shape{1, in[0][2] * in[0][3] * a.boxes(), 4};
      })
      .kernel([](const MultiBoxPriorAttrs& a, KernelContext& k) {
        const int64_t height = k.in(0).extent(2), width = k.in(0).extent(3);
        const double step_y = a.steps[0] > 0 ? a.steps[0] : 1.0 / static_cast<double>(height),
                     step_x = a.steps[1] > 0 ? a.steps[1] : 1.0 / static_cast<double>(width);
        const double aspect = static_cast<double>(height) / static_cast<double>(width);
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          const auto put = [&](double x, double y, double size, double ratio) {
            const double w = size * aspect * std::sqrt(ratio) / 2, h = size / std::sqrt(ratio) / 2;
            for (double v : {x - w, y - h, x + w, y + h}) *out++ = static_cast<T>(static_cast<float>(a.clip ? std::clamp(v, 0.0, 1.0) : v));
          };
          for (int64_t i = 0; i < height; ++i)
            for (int64_t j = 0; j < width; ++j) {
              const double y = (static_cast<double>(i) + a.offsets[0]) * step_y, x = (static_cast<double>(j) + a.offsets[1]) * step_x;
              for (double size : a.sizes) put(x, y, size, a.ratios[0]);
              for (size_t r = 1; r < a.ratios.size(); ++r) put(x, y, a.sizes[0], a.ratios[r]);
            }
        });
      })
      .not_differentiable("it depends on a shape only")
      .sample({{1, 2, 2, 3}}, {.sizes = {0.3, 0.5}, .ratios = {1, 2}});
}

struct MultiBoxDetectionAttrs {
  bool clip = true, force_suppress = false;
  double threshold = 0.01, nms_threshold = 0.5;
  int64_t background_id = 0, nms_topk = -1;
  Floats variances{0.1, 0.1, 0.2, 0.2};
  static void fields(AttrFields<MultiBoxDetectionAttrs>& f) {
    f.field("clip", &MultiBoxDetectionAttrs::clip, "keep the boxes inside of the image")
        .field("threshold", &MultiBoxDetectionAttrs::threshold, "least score")
        .field("background_id", &MultiBoxDetectionAttrs::background_id, "the class that means nothing was found")
        .field("nms_threshold", &MultiBoxDetectionAttrs::nms_threshold,
               "boxes that overlap at least this much with a better one are left out")
        .field("force_suppress", &MultiBoxDetectionAttrs::force_suppress, "boxes of different classes suppress each other too")
        .field("variances", &MultiBoxDetectionAttrs::variances, "factors of the predicted offsets")
        .field("nms_topk", &MultiBoxDetectionAttrs::nms_topk, "how many of the best boxes are kept; negative for all");
  }
};

template <class T>
struct Detection {
  int64_t id;
  T score;
  Box<T> box;
};

template <class T>
static Box<T> decode(const MultiBoxDetectionAttrs& a, const T* anchor, const T* offset) {
  const T width = anchor[2] - anchor[0], height = anchor[3] - anchor[1], x = (anchor[0] + anchor[2]) / 2, y = (anchor[1] + anchor[3]) / 2;
  const auto v = [&](size_t i) { return static_cast<T>(a.variances[i]); };
  const T cx = offset[0] * v(0) * width + x, cy = offset[1] * v(1) * height + y;
  const T w = std::exp(offset[2] * v(2)) * width / 2, h = std::exp(offset[3] * v(3)) * height / 2;
  const auto keep = [&](T t) { return a.clip ? std::clamp(t, T(0), T(1)) : t; };
  return {keep(cx - w), keep(cy - h), keep(cx + w), keep(cy + h)};
}

// scores: (classes, anchors). The best class of every anchor, best score first, with overlapping ones marked by id -1.
template <class T>
static std::vector<Detection<T>> detect(const MultiBoxDetectionAttrs& a, const T* scores, int64_t classes, int64_t anchors,
                                        const T* offsets, const T* boxes) {
  std::vector<Detection<T>> found;
  for (int64_t i = 0; i < anchors; ++i) {
    int64_t best = -1;
    for (int64_t c = 0; c < classes; ++c)
      if (c != a.background_id && (best < 0 || scores[c * anchors + i] > scores[best * anchors + i])) best = c;
    if (best < 0 || scores[best * anchors + i] < static_cast<T>(a.threshold)) continue;
    found.push_back({best > a.background_id ? best - 1 : best, scores[best * anchors + i], decode(a, boxes + i * 4, offsets + i * 4)});
  }
  if (a.nms_threshold <= 0 || a.nms_threshold > 1) return found;
  std::stable_sort(found.begin(), found.end(), [](const auto& x, const auto& y) { return x.score > y.score; });
  const size_t kept = a.nms_topk > 0 ? std::min(found.size(), static_cast<size_t>(a.nms_topk)) : found.size();
  for (size_t i = kept; i < found.size(); ++i) found[i].id = -1;
  for (size_t i = 0; i < kept; ++i)
    for (size_t j = i + 1; j < kept && found[i].id >= 0; ++j)
      if (found[j].id >= 0 && (a.force_suppress || found[i].id == found[j].id) &&
          overlap(found[i].box, found[j].box) >= static_cast<T>(a.nms_threshold))
        found[j].id = -1;
  return found;
}

GLUINO_OP(_contrib_MultiBoxDetection, MultiBoxDetectionAttrs) {
  op.doc("Boxes found by a single shot detector: rows of (class, score, x0, y0, x1, y1), class -1 for none.")
      .alias("MultiBoxDetection")
      .input("cls_prob")
      .input("loc_pred")
      .input("anchor")
      .kernel_dtypes(real_dtypes())
      .shape([](const MultiBoxDetectionAttrs& a, std::span<const Shape> in) {
        if (in[0].ndim() != 3 || in[1].ndim() != 2 || in[2].ndim() != 3 || in[2][0] != 1 || in[2][2] != 4 || in[2][1] != in[0][2] ||
            in[1][1] != 4 * in[0][2] || in[1][0] != in[0][0])
          raise<ShapeError>(
              "cls_prob (batch, classes, anchors), loc_pred (batch, anchors * 4) and anchor (1, anchors, 4) are needed, but they are {}, "
              "{} and {}",
              in[0], in[1], in[2]);
        if (a.variances.size() != 4) raise<AttrError>("variances has {} numbers, but 4 are needed", a.variances.size());
        return Shape{in[0][0], in[0][2], 6};
      })
      .kernel([](const MultiBoxDetectionAttrs& a, KernelContext& k) {
        const int64_t batch = k.in(0).extent(0), classes = k.in(0).extent(1), anchors = k.in(0).extent(2);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          std::fill_n(k.out_data<T>(), k.out().size(), T(-1));
          for (int64_t n = 0; n < batch; ++n) {
            T* out = k.out_data<T>() + n * anchors * 6;
            for (const Detection<T>& d :
                 detect(a, k.data<T>(0) + n * classes * anchors, classes, anchors, k.data<T>(1) + n * anchors * 4, k.data<T>(2))) {
              for (T v : {static_cast<T>(d.id), d.score, d.box.x0, d.box.y0, d.box.x1, d.box.y1}) *out++ = v;
            }
          }
        });
      })
      .not_differentiable(kDiscrete)
      .sample({uniform_sample({2, 3, 4}, 0, 1), {2, 16}, uniform_sample({1, 4, 4}, 0, 1)});
}

}  // namespace
}  // namespace gluino::ops
