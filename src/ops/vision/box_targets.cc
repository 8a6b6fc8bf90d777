// What a single shot detector is trained towards (Liu et al., 2016): which prior box stands for which object.
#include <cmath>

#include "ops/nets.h"
#include "ops/vision/boxes.h"

namespace gluino::ops {
namespace {

struct MultiBoxTargetAttrs {
  double overlap_threshold = 0.5, ignore_label = -1, negative_mining_ratio = -1, negative_mining_thresh = 0.5;
  int64_t minimum_negative_samples = 0;
  Floats variances{0.1, 0.1, 0.2, 0.2};
  static void fields(AttrFields<MultiBoxTargetAttrs>& f) {
    f.field("overlap_threshold", &MultiBoxTargetAttrs::overlap_threshold, "boxes that overlap more than this with an object stand for it")
        .field("ignore_label", &MultiBoxTargetAttrs::ignore_label, "the class of boxes that are not to be looked at")
        .field("negative_mining_ratio", &MultiBoxTargetAttrs::negative_mining_ratio,
               "how many boxes of background are used for each one of an object; negative for all")
        .field("negative_mining_thresh", &MultiBoxTargetAttrs::negative_mining_thresh,
               "boxes that overlap less than this with every object may be background")
        .field("minimum_negative_samples", &MultiBoxTargetAttrs::minimum_negative_samples, "least number of boxes of background")
        .field("variances", &MultiBoxTargetAttrs::variances, "divisors of the offsets");
  }
};

enum class Role : int8_t { ignored, background, object };

template <class T>
class Matching {
 public:
  // anchors: (count, 4); labels: rows of `width` numbers (class, x0, y0, x1, y1, ...), a class of -1 ends them.
  Matching(const MultiBoxTargetAttrs& a, const T* anchors, int64_t count, const T* labels, int64_t rows, int64_t width)
      : attrs_(a), anchors_(anchors), labels_(labels), width_(width), matches_(static_cast<size_t>(count)) {
    while (objects_ < rows && labels[objects_ * width] != T(-1)) ++objects_;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < objects_; ++j) overlaps_.push_back(overlap(box(anchors + i * 4), box(labels + j * width + 1)));
  }

  bool is_empty() const { return objects_ == 0; }

  // Every object gets the box that overlaps most with it; other boxes stand for what they overlap with enough.
  void choose_objects() {
    std::vector<bool> taken(objects_, false);
    while (take_best(taken)) {}
    for (Match& m : matches_) {
      if (m.role == Role::object) continue;
      const size_t i = static_cast<size_t>(&m - matches_.data());
      for (int64_t j = 0; j < objects_; ++j)
        if (overlap_of(i, j) > m.overlap) m.overlap = overlap_of(i, j), m.object = j;
      if (attrs_.overlap_threshold > 0 && m.overlap > static_cast<T>(attrs_.overlap_threshold)) m.role = Role::object;
    }
  }

  // scores: (classes, boxes), class 0 is the background. The boxes that are least taken for it are the ones to learn from.
  void choose_background(const T* scores, int64_t classes) {
    const auto count = static_cast<int64_t>(matches_.size()),
               objects = std::count_if(matches_.begin(), matches_.end(), [](const Match&m) { return m.role == Role::object; });
    if (attrs_.negative_mining_ratio <= 0) {
      for (Match& m : matches_)
        if (m.role != Role::object) m.role = Role::background;
      return;
    }
    std::vector<std::pair<T, size_t>> candidates;
    for (size_t i = 0; i < matches_.size(); ++i)
      if (matches_[i].role != Role::object && matches_[i].overlap < static_cast<T>(attrs_.negative_mining_thresh))
        candidates.emplace_back(background_probability(scores + i, classes, count), i);
    const auto wanted =
        std::max(static_cast<int64_t>(static_cast<double>(objects) * attrs_.negative_mining_ratio), attrs_.minimum_negative_samples);
    const size_t used = std::min(candidates.size(), static_cast<size_t>(std::max(wanted, int64_t{0})));
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    for (size_t i = 0; i < used; ++i) matches_[candidates[i].second].role = Role::background;
  }

  void write(T* offsets, T* mask, T* classes) const {
    for (size_t i = 0; i < matches_.size(); ++i) {
      const Match& m = matches_[i];
      if (m.role == Role::background) classes[i] = 0;
      if (m.role != Role::object) continue;
      const T* label = labels_ + m.object * width_;
      classes[i] = label[0] + 1;
      std::fill_n(mask + i * 4, 4, T(1));
      write_offsets(box(anchors_ + i * 4), box(label + 1), offsets + i * 4);
    }
  }

 private:
  struct Match {
    Role role = Role::ignored;
    T overlap = -1;
    int64_t object = -1;
  };
  static Box<T> box(const T* p) { return {p[0], p[1], p[2], p[3]}; }
  T overlap_of(size_t box, int64_t object) const { return overlaps_[box * static_cast<size_t>(objects_) + static_cast<size_t>(object)]; }

  bool take_best(std::vector<bool>& taken) {
    constexpr T kLeast = T(1e-6);
    T best = kLeast;
    Match* box = nullptr;
    int64_t object = -1;
    for (size_t i = 0; i < matches_.size(); ++i)
      for (int64_t j = 0; j < objects_ && matches_[i].role != Role::object; ++j)
        if (!taken[j] && overlap_of(i, j) > best) best = overlap_of(i, j), box = &matches_[i], object = j;
    if (!box) return false;
    *box = {Role::object, best, object};
    taken[object] = true;
    return true;
  }
  static T background_probability(const T* scores, int64_t classes, int64_t stride) {
    T most = scores[0], sum = 0;
    for (int64_t c = 1; c < classes; ++c) most = std::max(most, scores[c * stride]);
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(scores[c * stride] - most);
    return std::exp(scores[0] - most) / sum;
  }
  void write_offsets(const Box<T>& from, const Box<T>& to, T* out) const {
    const T width = from.x1 - from.x0, height = from.y1 - from.y0;
    const auto v = [&](size_t i) { return static_cast<T>(attrs_.variances[i]); };
    out[0] = ((to.x0 + to.x1) / 2 - (from.x0 + from.x1) / 2) / width / v(0);
    out[1] = ((to.y0 + to.y1) / 2 - (from.y0 + from.y1) / 2) / height / v(1);
    out[2] = std::log((to.x1 - to.x0) / width) / v(2);
    out[3] = std::log((to.y1 - to.y0) / height) / v(3);
  }

  const MultiBoxTargetAttrs& attrs_;
  const T *anchors_, *labels_;
  int64_t width_, objects_ = 0;
  std::vector<T> overlaps_;  // (boxes, objects)
  std::vector<Match> matches_;
};

GLUINO_OP(_contrib_MultiBoxTarget, MultiBoxTargetAttrs) {
  op.doc("What a single shot detector should answer: offsets of the prior boxes to the objects they stand for, a mask of these, classes.")
      .alias("MultiBoxTarget")
      .input("anchor")
      .input("label")
      .input("cls_pred")
      .outputs({"loc_target", "loc_mask", "cls_target"})
      .kernel_dtypes(real_dtypes())
      .shape([](const MultiBoxTargetAttrs& a, std::span<const Shape> in) {
        if (in[0].ndim() != 3 || in[0][0] != 1 || in[0][2] != 4 || in[1].ndim() != 3 || in[1][2] < 5 || in[2].ndim() != 3 ||
            in[2][0] != in[1][0] || in[2][2] != in[0][1] || in[2][1] < 1)
          raise<ShapeError>(
              "anchor (1, boxes, 4), label (batch, objects, 5 or more) and cls_pred (batch, classes, boxes) are needed, but they are {}, "
              "{} "
              "and {}",
              in[0], in[1], in[2]);
        if (a.variances.size() != 4) raise<AttrError>("variances has {} numbers, but 4 are needed", a.variances.size());
        const Shape offsets{in[1][0], in[0][1] * 4};
        return std::vector<Shape>{offsets, offsets, {in[1][0], in[0][1]}};
      })
      .kernel([](const MultiBoxTargetAttrs& a, KernelContext& k) {
        const int64_t boxes = k.in(0).extent(1), rows = k.in(1).extent(1), width = k.in(1).extent(2), classes = k.in(2).extent(1);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          std::fill_n(k.out_data<T>(0), k.out(0).size(), T(0));
          std::fill_n(k.out_data<T>(1), k.out(1).size(), T(0));
          std::fill_n(k.out_data<T>(2), k.out(2).size(), static_cast<T>(a.ignore_label));
          for (int64_t n = 0; n < k.in(1).extent(0); ++n) {
            Matching<T> matching(a, k.data<T>(0), boxes, k.data<T>(1) + n * rows * width, rows, width);
            if (matching.is_empty()) continue;
            matching.choose_objects();
            matching.choose_background(k.data<T>(2) + n * classes * boxes, classes);
            matching.write(k.out_data<T>(0) + n * boxes * 4, k.out_data<T>(1) + n * boxes * 4, k.out_data<T>(2) + n * boxes);
          }
        });
      })
      .not_differentiable("it chooses boxes")
      .sample({uniform_sample({1, 4, 4}, 0, 1), uniform_sample({2, 2, 5}, 0, 1), {2, 3, 4}})
      .sample({uniform_sample({1, 4, 4}, 0, 1), uniform_sample({2, 2, 5}, 0, 1), {2, 3, 4}},
              {.negative_mining_ratio = 3, .negative_mining_thresh = 0.4});
}

}  // namespace
}  // namespace gluino::ops
