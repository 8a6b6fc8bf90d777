// Detection: prior boxes, and the suppression of boxes that overlap. Where MXNet marks records or moves them to the end, ONNX gives the
// places of those that are kept, so they become a mask, and the order is that of the scores under it.
#include "base/format.h"
#include "gluino/ops.h"
#include "onnx/export/exporter.h"

namespace gluino::onnx {
namespace {

constexpr double kLowest = -1e30;  // the score of what is left out

struct Names {
  const ExportCall& c;
  std::string number(double v) const { return c.number_of(v, DType::float32); }
  std::string whole(int64_t v) const { return c.whole_numbers({v}); }
  std::string shape(const std::string& x) const { return c.add("Shape", {x}); }
  // Elements begin to end of the last axis.
  std::string columns(const std::string& x, int64_t begin, int64_t end) const {
    return c.add("Slice", {x, whole(begin), whole(end), whole(-1)});
  }
  std::string column(const std::string& x, int64_t at) const { return c.add("Squeeze", {columns(x, at, at + 1), whole(-1)}); }
  std::string last_axis(const std::string& x) const { return c.add("Unsqueeze", {x, whole(-1)}); }
  std::string filled(double value, const std::string& shape_of) const { return c.add("Expand", {number(value), shape_of}); }

  // Numbers 0 to the extent of axis 1, from best to worst score; and the rows of `records` (batch, boxes, n) in this order.
  std::string best_first(const std::string& scores, const std::string& count) const {
    return c.add_all("TopK", {scores, count}, {{"axis", attribute_of(int64_t{1})}}, 2).at(1);
  }
  std::string in_order(const std::string& records, const std::string& order, int64_t width) const {
    const std::string places = c.add("Expand", {last_axis(order), c.whole_numbers({1, 1, width})});
    return c.add("GatherElements", {records, places}, {{"axis", attribute_of(int64_t{1})}});
  }

  // 1 for the boxes (batch, boxes, 4) that no better one of the same class covers, else 0: (batch, boxes). `ids` may be "".
  std::string kept(std::string boxes, const std::string& scores, const std::string& ids, bool centers, double overlap,
                   const std::string& count) const {
    if (!ids.empty()) {  // boxes of different classes are moved apart
      const std::string widest = c.add("ReduceMax", {c.add("Abs", {boxes})}, {{"keepdims", attribute_of(int64_t{0})}});
      const std::string far = c.add("Add", {c.add("Mul", {widest, number(4)}), number(1)});
      const std::string moved = c.add("Mul", {last_axis(ids), far});
      const Tensor axes = from_vector(centers ? std::vector<float>{1, 1, 0, 0} : std::vector<float>{1, 1, 1, 1});
      boxes = c.add("Add", {boxes, c.add("Mul", {moved, c.constant(axes)})});
    }
    const std::string chosen =
        c.add("NonMaxSuppression",
              {boxes, c.add("Unsqueeze", {scores, whole(1)}), count, c.constant(full({1}, overlap)), c.constant(full({1}, kLowest))},
              {{"center_point_box", attribute_of(int64_t{centers})}});
    const std::string places = c.add("Gather", {chosen, c.whole_numbers({0, 2})}, {{"axis", attribute_of(int64_t{1})}});
    const std::string how_many = c.add("Gather", {shape(chosen), whole(0)}, {{"axis", attribute_of(int64_t{0})}});
    return c.add("ScatterND", {filled(0, shape(scores)), places, filled(1, how_many)});
  }
  std::string is_one(const std::string& mask) const { return c.add("Greater", {mask, number(0.5)}); }
};

// (..., boxes, record) as (batch, boxes, record).
std::string in_batches(const ExportCall& c) {
  if (c.rank(0) == 3) return c.in(0);
  if (c.rank(0) == 2) return c.add("Unsqueeze", {c.in(0), c.whole_numbers({0})});
  const int64_t boxes = c.shape(0)[c.rank(0) - 2];
  if (c.is_free(0, c.rank(0) - 2)) c.refuse("a free number of boxes below several axes of batches");
  return c.add("Reshape", {c.in(0), c.whole_numbers({-1, boxes, c.shape(0).back()})});
}

// Corners from centers or the other way round; records of `width` numbers with the box at `start`.
std::string with_boxes_as(const Names& n, const std::string& records, int64_t start, int64_t width, bool to_corners) {
  const ExportCall& c = n.c;
  const std::string a = n.columns(records, start, start + 2), b = n.columns(records, start + 2, start + 4);
  std::string first, second;
  if (to_corners) {
    const std::string half = c.add("Mul", {b, n.number(0.5)});
    first = c.add("Sub", {a, half}), second = c.add("Add", {a, half});
  } else {
    first = c.add("Mul", {c.add("Add", {a, b}), n.number(0.5)}), second = c.add("Sub", {b, a});
  }
  std::vector<std::string> parts;
  if (start > 0) parts.push_back(n.columns(records, 0, start));
  parts.insert(parts.end(), {first, second});
  if (start + 4 < width) parts.push_back(n.columns(records, start + 4, width));
  return c.add("Concat", parts, {{"axis", attribute_of(int64_t{-1})}});
}

void box_nms(const ExportCall& c) {
  const Names n{c};
  const int64_t start = c.integer("coord_start"), id = c.integer("id_index"), background = c.integer("background_id"),
                topk = c.integer("topk"), width = c.shape(0).back();
  const bool centers = c.text("in_format") == "center", centers_out = c.text("out_format") == "center";
  const std::string all = in_batches(c);
  const std::string count = c.add("Gather", {n.shape(all), n.whole(1)}, {{"axis", attribute_of(int64_t{0})}});
  const auto scores_of = [&](const std::string& records) {
    const std::string scores = n.column(records, c.integer("score_index"));
    std::string valid = c.add("Greater", {scores, n.number(c.number("valid_thresh"))});
    if (id >= 0 && background >= 0) {
      const std::string whole_id = c.add("Cast", {n.column(records, id)}, {{"to", attribute_of(static_cast<int64_t>(ElementType::int64))}});
      const std::string is_background = c.add("Equal", {whole_id, c.number_of(static_cast<double>(background), DType::int64)});
      valid = c.add("And", {valid, c.add("Not", {is_background})});
    }
    return c.add("Where", {valid, scores, n.number(kLowest)});
  };
  const std::string scores = scores_of(all), order = n.best_first(scores, count);
  const std::string records = n.in_order(all, order, width);  // best first
  std::string ranked = c.add("GatherElements", {scores, order}, {{"axis", attribute_of(int64_t{1})}});
  if (topk > 0) {
    const std::string places = c.add("Range", {c.number_of(0, DType::int64), c.add("Squeeze", {count}), c.number_of(1, DType::int64)});
    ranked = c.add("Where", {c.add("Less", {places, c.number_of(static_cast<double>(topk), DType::int64)}), ranked, n.number(kLowest)});
  }
  const bool by_class = id >= 0 && !c.flag("force_suppress");
  const std::string mask = n.kept(n.columns(records, start, start + 4), ranked, by_class ? n.column(records, id) : "", centers,
                                  c.number("overlap_thresh"), count);
  // Those that are left out go behind the others, as -1.
  const std::string last = n.best_first(c.add("Where", {n.is_one(mask), ranked, n.number(2 * kLowest)}), count);
  std::string found = n.in_order(records, last, width);
  if (centers != centers_out) found = with_boxes_as(n, found, start, width, centers);
  const std::string there = c.add("GatherElements", {mask, last}, {{"axis", attribute_of(int64_t{1})}});
  const std::string out = c.add("Where", {n.is_one(n.last_axis(there)), found, n.number(-1)});
  if (c.rank(0) == 3) return c.put_as(out);
  c.put("Reshape", {out, n.shape(c.in(0))});
}

void multibox_prior(const ExportCall& c) {
  if (c.is_free(0, 2) || c.is_free(0, 3)) c.refuse("prior boxes of a picture whose height or width is free");
  c.put_as(c.constant(c.computed({zeros(c.shape(0), c.dtype(0))})));
}

// The best class of every anchor, best score first; those that a better one covers keep their place, with class -1.
void multibox_detection(const ExportCall& c) {
  const Names n{c};
  const double overlap = c.number("nms_threshold");
  if (overlap <= 0 || overlap > 1) c.refuse(fmt::format("nms_threshold = {}, which leaves all boxes in the order of anchors,", overlap));
  const int64_t classes = c.shape(0)[1], background = c.integer("background_id"), topk = c.integer("nms_topk");
  std::vector<int64_t> wanted;
  for (int64_t k = 0; k < classes; ++k)
    if (k != background) wanted.push_back(k);
  const std::string real = c.add("Gather", {c.in(0), c.whole_numbers(wanted)}, {{"axis", attribute_of(int64_t{1})}});
  const ExportCall::Attributes over_classes{{"axis", attribute_of(int64_t{1})}, {"keepdims", attribute_of(int64_t{0})}};
  const std::string best = c.add("ReduceMax", {real}, {{"axes", attribute_of(Shape{1})}, {"keepdims", attribute_of(int64_t{0})}});
  const std::string ids = c.add("Cast", {c.add("ArgMax", {real}, over_classes)}, {{"to", attribute_of(int64_t{1})}});
  // Boxes from anchors and predicted offsets.
  const Floats v = c.numbers("variances");
  const std::string anchors = c.in(2), offsets = c.add("Reshape", {c.in(1), c.whole_numbers({0, -1, 4})});
  const std::string low = n.columns(anchors, 0, 2), high = n.columns(anchors, 2, 4);
  const std::string size = c.add("Sub", {high, low}), middle = c.add("Mul", {c.add("Add", {low, high}), n.number(0.5)});
  const auto pair = [&](size_t i) {
    return c.constant(from_vector(std::vector<float>{static_cast<float>(v.at(i)), static_cast<float>(v.at(i + 1))}));
  };
  const std::string shift = c.add("Mul", {c.add("Mul", {n.columns(offsets, 0, 2), pair(0)}), size});
  const std::string center = c.add("Add", {shift, middle});
  const std::string grown = c.add("Mul", {c.add("Exp", {c.add("Mul", {n.columns(offsets, 2, 4), pair(2)})}), size});
  const std::string half = c.add("Mul", {grown, n.number(0.5)});
  std::string boxes = c.add("Concat", {c.add("Sub", {center, half}), c.add("Add", {center, half})}, {{"axis", attribute_of(int64_t{-1})}});
  if (c.flag("clip")) boxes = c.add("Clip", {boxes, n.number(0), n.number(1)});
  // Best first; what is below the threshold is at the end and becomes -1.
  const std::string below = c.add("Less", {best, n.number(c.number("threshold"))});
  const std::string scores = c.add("Where", {below, n.number(kLowest), best});
  const std::string count = c.add("Gather", {n.shape(scores), n.whole(1)}, {{"axis", attribute_of(int64_t{0})}});
  const std::string order = n.best_first(scores, count);
  const auto sorted = [&](const std::string& x) { return c.add("GatherElements", {x, order}, {{"axis", attribute_of(int64_t{1})}}); };
  const std::string ranked = sorted(scores), ranked_ids = sorted(ids), ranked_boxes = n.in_order(boxes, order, 4);
  std::string looked_at = ranked;
  if (topk > 0) {
    const std::string places = c.add("Range", {c.number_of(0, DType::int64), c.add("Squeeze", {count}), c.number_of(1, DType::int64)});
    looked_at = c.add("Where", {c.add("Less", {places, c.number_of(static_cast<double>(topk), DType::int64)}), ranked, n.number(kLowest)});
  }
  const std::string mask = n.kept(ranked_boxes, looked_at, c.flag("force_suppress") ? "" : ranked_ids, false, overlap, count);
  const std::string named = c.add("Where", {n.is_one(mask), ranked_ids, n.number(-1)});
  const std::string rows = c.add("Concat", {n.last_axis(named), n.last_axis(ranked), ranked_boxes}, {{"axis", attribute_of(int64_t{-1})}});
  const std::string is_found = n.last_axis(c.add("Greater", {ranked, n.number(kLowest / 2)}));
  c.put("Where", {is_found, rows, n.number(-1)});
}

}  // namespace

void add_detection_exports(ExportRules& rules) {
  rules["_contrib_box_nms"] = box_nms;
  rules["_contrib_MultiBoxPrior"] = multibox_prior;
  rules["_contrib_MultiBoxDetection"] = multibox_detection;
}

}  // namespace gluino::onnx
