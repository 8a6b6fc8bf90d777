// Boxes as offsets from anchors, matching of boxes, and the proposals of region networks (Ren et al., 2015).
#include <cmath>
#include <numeric>

#include "base/extents.h"
#include "base/parallel.h"
#include "ops/nets.h"
#include "ops/numpy/composed.h"
#include "ops/vision/boxes.h"

namespace gluino::ops {
namespace {

constexpr const char* kDiscrete = "it chooses boxes";

// ---- offsets of boxes from anchors

// Four columns of boxes, each with the last axis kept.
std::array<Tensor, 4> columns_of(const Tensor& boxes) {
  std::array<Tensor, 4> columns;
  for (int64_t i = 0; i < 4; ++i) columns[i] = slice_of(boxes, -1, i, i + 1);
  return columns;
}
struct CentredBoxes {
  Tensor x, y, width, height;
};
CentredBoxes from_corners(const Tensor& boxes) {
  const auto [x0, y0, x1, y1] = columns_of(boxes);
  return {(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0};
}
void check_boxes(const char* name, const Shape& s) {
  if (s.ndim() != 3 || s[2] != 4) raise<ShapeError>("{} have shape {}, but (batch, boxes, 4) is needed", name, s);
}

GLUINO_OP(_contrib_box_encode, NoAttrs) {
  op.doc("Offsets of the matched boxes from anchors, and a mask of those that count: where samples are 1.").input("samples");
  for (const char* name : {"matches", "anchors", "refs", "means", "stds"}) op.input(name);
  composed(op.outputs({"targets", "masks"}),
           [](const NoAttrs&, std::span<const Tensor> in) -> Tensors {
             const Tensor &samples = in[0], &matches = in[1], &anchors = in[2], &refs = in[3];
             check_boxes("anchors", anchors.shape());
             check_boxes("refs", refs.shape());
             check_same_shape("means", in[4].shape(), {4});
             check_same_shape("stds", in[5].shape(), {4});
             const Shape needed{anchors.extent(0), anchors.extent(1)};
             check_same_shape("samples", samples.shape(), needed);
             check_same_shape("matches", matches.shape(), needed);
             // Row b, box matches[b, i] of refs, as a row of all boxes.
             const int64_t count = refs.extent(1);
             const Tensor first =
                 reshaped(call("_arange", {}, {{"stop", static_cast<double>(refs.extent(0))}}) * static_cast<double>(count), {-1, 1});
             const Tensor rows = call(
                 "broadcast_add",
                 {call("clip", {as_dtype(matches, DType::float32)}, {{"a_min", 0.0}, {"a_max", static_cast<double>(count - 1)}}), first});
             const CentredBoxes box = from_corners(taken(reshaped(refs, {-1, 4}), rows, 0)), anchor = from_corners(anchors);
             const Tensor offsets = joined({(box.x - anchor.x) / anchor.width, (box.y - anchor.y) / anchor.height,
                                            call("log", {box.width / anchor.width}), call("log", {box.height / anchor.height})},
                                           -1);
             const Tensor scaled = call("broadcast_div", {call("broadcast_sub", {offsets, in[4]}), in[5]});
             const Tensor counts =
                 as_dtype(call("broadcast_like", {call("expand_dims", {samples > 0.5}, {{"axis", int64_t{-1}}}), scaled}), scaled.dtype());
             return {chosen(counts, scaled, call("zeros_like", {scaled})), counts};
           })
      .not_differentiable("it makes targets")
      .sample({index_sample({2, 3}, 2),
               index_sample({2, 3}, 4),
               uniform_sample({2, 3, 4}, 0, 1),
               uniform_sample({2, 4, 4}, 0, 1),
               {4},
               uniform_sample({4}, 0.1, 1)});
}

enum class BoxFormat : uint8_t { corner, center };
struct BoxDecodeAttrs {
  double std0 = 1, std1 = 1, std2 = 1, std3 = 1, clip = -1;
  BoxFormat format = BoxFormat::center;
  static void fields(AttrFields<BoxDecodeAttrs>& f) {
    f.field("std0", &BoxDecodeAttrs::std0, "factor of the offset of x")
        .field("std1", &BoxDecodeAttrs::std1, "factor of the offset of y")
        .field("std2", &BoxDecodeAttrs::std2, "factor of the offset of the width")
        .field("std3", &BoxDecodeAttrs::std3, "factor of the offset of the height")
        .field("clip", &BoxDecodeAttrs::clip, "greatest logarithm of a size; none where it is not positive")
        .choice("format", &BoxDecodeAttrs::format, {"corner", "center"}, "how anchors are given");
  }
};
GLUINO_OP(_contrib_box_decode, BoxDecodeAttrs) {
  composed(op.doc("Boxes from their offsets from anchors.").input("data").input("anchors"),
           [](const BoxDecodeAttrs& a, std::span<const Tensor> in) {
             check_boxes("data", in[0].shape());
             check_boxes("anchors", in[1].shape());
             const auto [dx, dy, dw, dh] = columns_of(in[0]);
             const auto [x, y, w, h] = columns_of(in[1]);
             const CentredBoxes anchor = a.format == BoxFormat::corner ? from_corners(in[1]) : CentredBoxes{x, y, w, h};
             const auto moved = [](const Tensor& offset, double factor, const Tensor& size, const Tensor& from) {
               return call("broadcast_add", {call("broadcast_mul", {offset * factor, size}), from});
             };
             const auto half = [&](const Tensor& offset, double factor, const Tensor& size) {
               const Tensor log = a.clip > 0 ? call("_minimum_scalar", {offset * factor}, {{"scalar", a.clip}}) : offset * factor;
               return call("broadcast_mul", {call("exp", {log}), size}) / 2;
             };
             const Tensor cx = moved(dx, a.std0, anchor.width, anchor.x), cy = moved(dy, a.std1, anchor.height, anchor.y);
             const Tensor hw = half(dw, a.std2, anchor.width), hh = half(dh, a.std3, anchor.height);
             return joined({cx - hw, cy - hh, cx + hw, cy + hh}, -1);
           })
      .sample({{2, 3, 4}, uniform_sample({1, 3, 4}, 0, 1)}, {.std0 = 0.1})
      .sample({{2, 3, 4}, uniform_sample({1, 3, 4}, 0, 1)}, {.clip = 1, .format = BoxFormat::corner});
}

// ---- matching

struct MatchingAttrs {
  bool is_ascend = false;
  double threshold = 0;
  int64_t topk = -1;
  static void fields(AttrFields<MatchingAttrs>& f) {
    f.field("is_ascend", &MatchingAttrs::is_ascend, "the smallest scores first")
        .required("threshold", &MatchingAttrs::threshold, "scores that are not better match nothing")
        .field("topk", &MatchingAttrs::topk, "at most so many matches; negative for all");
  }
};
template <class T>
void match(const MatchingAttrs& a, const T* scores, int64_t rows, int64_t columns, T* of_rows, T* of_columns) {
  std::vector<int64_t> order(rows * columns);
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](T x, T y) { return a.is_ascend ? x < y : x > y; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return better(scores[i], scores[j]); });
  std::fill_n(of_rows, rows, T(-1));
  std::fill_n(of_columns, columns, T(-1));
  int64_t count = 0;
  for (int64_t i : order) {
    if (!better(scores[i], static_cast<T>(a.threshold)) || (a.topk > 0 && count >= a.topk)) break;
    T &row = of_rows[i / columns], &column = of_columns[i % columns];
    if (row >= 0 || column >= 0) continue;
    row = static_cast<T>(i % columns);
    column = static_cast<T>(i / columns);
    ++count;
  }
}
GLUINO_OP(_contrib_bipartite_matching, MatchingAttrs) {
  op.doc("Matches rows with columns, best scores first, each at most once: the column of each row and the row of each column, or -1.")
      .input("data")
      .outputs({"rows", "columns"})
      .kernel_dtypes(real_dtypes())
      .shape([](const MatchingAttrs&, std::span<const Shape> in) {
        const Shape& s = in[0];
        if (s.ndim() < 2) raise<ShapeError>("data has shape {}, but (..., rows, columns) is needed", s);
        Shape of_rows = s, of_columns = s;
        of_rows.erase(s.ndim() - 1);
        of_columns.erase(s.ndim() - 2);
        return std::vector<Shape>{of_rows, of_columns};
      })
      .kernel([](const MatchingAttrs& a, KernelContext& k) {
        const Shape& s = k.in(0).shape();
        const int64_t rows = s[s.ndim() - 2], columns = s.back(), batches = s.elements(0, s.ndim() - 2);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t b = 0; b < batches; ++b)
            match(a, k.data<T>(0) + b * rows * columns, rows, columns, k.out_data<T>(0) + b * rows, k.out_data<T>(1) + b * columns);
        });
      })
      .not_differentiable(kDiscrete)
      .sample({uniform_sample({2, 3, 2}, 0, 1)}, {.threshold = 0.2})
      .sample({uniform_sample({3, 4}, 0, 1)}, {.is_ascend = true, .threshold = 0.9, .topk = 1});
}

// ---- proposals

struct ProposalAttrs {
  int64_t rpn_pre_nms_top_n = 6000, rpn_post_nms_top_n = 300, rpn_min_size = 16, feature_stride = 16;
  double threshold = 0.7;
  Floats scales{4, 8, 16, 32}, ratios{0.5, 1, 2};
  bool output_score = false, iou_loss = false;
  static void fields(AttrFields<ProposalAttrs>& f) {
    f.field("rpn_pre_nms_top_n", &ProposalAttrs::rpn_pre_nms_top_n,
            "how many of the best boxes are looked at; all where it is not positive")
        .field("rpn_post_nms_top_n", &ProposalAttrs::rpn_post_nms_top_n,
               "how many boxes are given; the best ones again where there are fewer")
        .field("threshold", &ProposalAttrs::threshold, "boxes that overlap more than this with a better one are left out")
        .field("rpn_min_size", &ProposalAttrs::rpn_min_size, "least size of a box in the image before it was scaled")
        .field("scales", &ProposalAttrs::scales, "sizes of the anchors, in cells")
        .field("ratios", &ProposalAttrs::ratios, "height by width of the anchors")
        .field("feature_stride", &ProposalAttrs::feature_stride, "pixels per cell of the feature map")
        .field("output_score", &ProposalAttrs::output_score, "also give the scores")
        .field("iou_loss", &ProposalAttrs::iou_loss, "offsets are those of the corners");
  }
};
template <class T>
struct Scored {
  Box<T> box;
  T score;
};
// Coordinates are those of pixels: a box of one pixel has equal corners.
template <class T>
T pixel_overlap(const Box<T>& a, const Box<T>& b) {
  const auto grown = [](const Box<T>& x) { return Box<T>{x.x0, x.y0, x.x1 + 1, x.y1 + 1}; };
  return overlap(grown(a), grown(b));
}
// The anchors around cell (0, 0): ratios first, then scales.
std::vector<Box<double>> base_anchors(const ProposalAttrs& a) {
  std::vector<Box<double>> anchors;
  const auto stride = static_cast<double>(a.feature_stride), centre = (stride - 1) / 2;
  for (double ratio : a.ratios)
    for (double scale : a.scales) {
      const double width = std::floor(std::sqrt(stride * stride / ratio) + 0.5), height = std::floor(width * ratio + 0.5);
      const double w = (width * scale - 1) / 2, h = (height * scale - 1) / 2;
      anchors.push_back({centre - w, centre - h, centre + w, centre + h});
    }
  return anchors;
}
template <class T>
Box<T> moved_box(const ProposalAttrs& a, const Box<T>& anchor, T dx, T dy, T dw, T dh, T width, T height) {
  Box<T> box{anchor.x0 + dx, anchor.y0 + dy, anchor.x1 + dw, anchor.y1 + dh};
  if (!a.iou_loss) {
    const T w = anchor.x1 - anchor.x0 + 1, h = anchor.y1 - anchor.y0 + 1;
    const T x = dx * w + anchor.x0 + (w - 1) / 2, y = dy * h + anchor.y0 + (h - 1) / 2;
    const T half_w = (std::exp(dw) * w - 1) / 2, half_h = (std::exp(dh) * h - 1) / 2;
    box = {x - half_w, y - half_h, x + half_w, y + half_h};
  }
  const auto keep = [](T v, T most) { return std::max(std::min(v, most), T(0)); };
  return {keep(box.x0, width - 1), keep(box.y0, height - 1), keep(box.x1, width - 1), keep(box.y1, height - 1)};
}
// All boxes of one image. Those of padding and those that are too small have score -1.
template <class T>
std::vector<Scored<T>> all_boxes(const ProposalAttrs& a, const Shape& s, const T* scores, const T* offsets, const T* info) {
  const std::vector<Box<double>> anchors = base_anchors(a);
  const auto count = static_cast<int64_t>(anchors.size()), area = s[2] * s[3];
  const T min_size = static_cast<T>(a.rpn_min_size) * info[2];
  const T rows = std::floor(info[0] / static_cast<T>(a.feature_stride)), columns = std::floor(info[1] / static_cast<T>(a.feature_stride));
  std::vector<Scored<T>> boxes(count * area);
  for (int64_t cell = 0; cell < area; ++cell)
    for (int64_t i = 0; i < count; ++i) {
      const auto y = static_cast<T>(cell / s[3]), x = static_cast<T>(cell % s[3]), stride = static_cast<T>(a.feature_stride);
      const Box<double>& base = anchors[i];
      const Box<T> anchor{static_cast<T>(base.x0) + x * stride, static_cast<T>(base.y0) + y * stride, static_cast<T>(base.x1) + x * stride,
                          static_cast<T>(base.y1) + y * stride};
      const auto offset = [&](int64_t k) { return offsets[(4 * i + k) * area + cell]; };
      Box<T> box = moved_box(a, anchor, offset(0), offset(1), offset(2), offset(3), info[1], info[0]);
      T score = scores[(count + i) * area + cell];
      if (y >= rows || x >= columns) score = -1;
      if (box.x1 - box.x0 + 1 < min_size || box.y1 - box.y0 + 1 < min_size) {
        box = {box.x0 - min_size / 2, box.y0 - min_size / 2, box.x1 + min_size / 2, box.y1 + min_size / 2};
        score = -1;
      }
      boxes[cell * count + i] = {box, score};
    }
  return boxes;
}
template <class T>
std::vector<Scored<T>> best_boxes(const ProposalAttrs& a, std::vector<Scored<T>> boxes) {
  std::stable_sort(boxes.begin(), boxes.end(), [](const auto& p, const auto& q) { return p.score > q.score; });
  if (a.rpn_pre_nms_top_n > 0 && static_cast<int64_t>(boxes.size()) > a.rpn_pre_nms_top_n) boxes.resize(a.rpn_pre_nms_top_n);
  std::vector<Scored<T>> kept;
  for (const Scored<T>& b : boxes) {
    if (static_cast<int64_t>(kept.size()) == a.rpn_post_nms_top_n) break;
    const auto covers = [&](const Scored<T>& k) { return pixel_overlap(k.box, b.box) > static_cast<T>(a.threshold); };
    if (std::none_of(kept.begin(), kept.end(), covers)) kept.push_back(b);
  }
  return kept;
}
void define_proposal(OpBuilder<ProposalAttrs>& op) {
  op.input("cls_prob")
      .input("bbox_pred")
      .input("im_info")
      .ignores({"workspace"})
      .outputs({"output", "score"})
      .visible_outputs([](const ProposalAttrs& a) { return a.output_score ? 2 : 1; })
      .kernel_dtypes(real_dtypes())
      .shape([](const ProposalAttrs& a, std::span<const Shape> in) {
        const auto anchors = static_cast<int64_t>(a.scales.size() * a.ratios.size());
        check_pixels(in[0]);
        if (anchors == 0 || a.feature_stride < 1 || a.feature_stride > 1 << 20 || a.rpn_post_nms_top_n < 1)
          throw AttrError("scales, ratios, a positive feature_stride and a positive rpn_post_nms_top_n are needed");
        if (in[0][1] != 2 * anchors)
          raise<ShapeError>("cls_prob has shape {}, but {} anchors need {} channels", in[0], anchors, 2 * anchors);
        check_same_shape("bbox_pred", in[1], {in[0][0], 4 * anchors, in[0][2], in[0][3]});
        check_same_shape("im_info", in[2], {in[0][0], 3});
        const int64_t rows = saturated_product(in[0][0], a.rpn_post_nms_top_n);
        return std::vector<Shape>{{rows, 5}, {rows, 1}};
      })
      .kernel([](const ProposalAttrs& a, KernelContext& k) {
        const Shape& s = k.in(0).shape();
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          T *out = k.out_data<T>(0), *score = k.out_data<T>(1);
          for (int64_t n = 0; n < s[0]; ++n) {
            const int64_t image = s[1] * s[2] * s[3];
            const auto kept =
                best_boxes(a, all_boxes<T>(a, s, k.data<T>(0) + n * image, k.data<T>(1) + n * image * 2, k.data<T>(2) + n * 3));
            for (int64_t i = 0; i < a.rpn_post_nms_top_n; ++i) {
              const Scored<T>& b = kept[i % static_cast<int64_t>(kept.size())];
              for (T v : {static_cast<T>(n), b.box.x0, b.box.y0, b.box.x1, b.box.y1}) *out++ = v;
              *score++ = b.score;
            }
          }
        });
      })
      .not_differentiable(kDiscrete)
      .sample({uniform_sample({1, 8, 3, 4}, 0, 1), uniform_sample({1, 16, 3, 4}, -0.5, 0.5), uniform_sample({1, 3}, 40, 60)},
              {.rpn_pre_nms_top_n = 20,
               .rpn_post_nms_top_n = 6,
               .rpn_min_size = 0,
               .scales = {1, 2},
               .ratios = {0.5, 1},
               .output_score = true});
}
GLUINO_OP(_contrib_Proposal, ProposalAttrs) {
  define_proposal(op.doc("The best boxes of a region proposal network: rows of (image, x0, y0, x1, y1)."));
}
GLUINO_OP(_contrib_MultiProposal, ProposalAttrs) {
  define_proposal(op.doc("The best boxes of a region proposal network for each image of a batch: rows of (image, x0, y0, x1, y1)."));
}

}  // namespace
}  // namespace gluino::ops
