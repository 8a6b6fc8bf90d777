// Results whose shape depends on values: what is not 0, what differs, what survives.
#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

// Flat places of what is not 0.
Tensor places_of(const Tensor& x) {
  const Tensor flat = x.reshape({-1});
  return boolean_mask(arange(static_cast<double>(flat.size()), {.dtype = DType::int64}), flat.astype(DType::boolean));
}

Tensor not_zero(Call& c) {
  const Tensor& x = c.in(0);
  const Tensor places = places_of(x);
  if (x.ndim() == 0) return zeros({0, places.extent(0)}, {.dtype = DType::int64});
  return unravel_index(places, {.shape = x.shape()}).astype(DType::int64);
}

Tensor compressed(Call& c) {
  const Tensor places = places_of(c.in(1));
  if (!c.has_attribute("axis")) return take(c.in(0).reshape({-1}), places);
  return take(c.in(0), places, {.axis = c.axis(c.integer("axis", 0), c.rank(0))});
}

// Slices of x along an axis, compared number by number.
Tensors different(Call& c) {
  const Tensor x = c.in(0);
  const bool is_flat = !c.has_attribute("axis");
  const int axis = is_flat ? 0 : c.axis(c.integer("axis", 0), x.ndim());
  const Tensor slices = is_flat ? x.reshape({-1, 1}) : swapaxes(x, {.dim1 = 0, .dim2 = axis}).reshape({x.extent(axis), -1});
  const std::vector<double> numbers = slices.to_vector<double>();
  const int64_t rows = slices.extent(0), columns = slices.extent(1);
  const auto row = [&](int64_t i) {
    return std::span<const double>(numbers).subspan(static_cast<size_t>(i * columns), static_cast<size_t>(columns));
  };
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int64_t a, int64_t b) {
    return std::lexicographical_compare(row(a).begin(), row(a).end(), row(b).begin(), row(b).end());
  };
  std::stable_sort(order.begin(), order.end(), before);
  // One group per different row, led by its first place.
  std::vector<int64_t> first, count, group(static_cast<size_t>(rows));
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || before(order[i - 1], order[i])) {
      first.push_back(order[i]);
      count.push_back(0);
    }
    ++count.back();
    group[static_cast<size_t>(order[i])] = static_cast<int64_t>(first.size()) - 1;
  }
  if (!c.integer("sorted", 1)) {
    std::vector<int64_t> rank(first.size()), place(first.size());
    std::iota(rank.begin(), rank.end(), 0);
    std::sort(rank.begin(), rank.end(),
              [&](int64_t a, int64_t b) { return first[static_cast<size_t>(a)] < first[static_cast<size_t>(b)]; });
    std::vector<int64_t> f, n;
    for (size_t i = 0; i < rank.size(); ++i) {
      place[static_cast<size_t>(rank[i])] = static_cast<int64_t>(i);
      f.push_back(first[static_cast<size_t>(rank[i])]);
      n.push_back(count[static_cast<size_t>(rank[i])]);
    }
    first = f, count = n;
    for (int64_t& g : group) g = place[static_cast<size_t>(g)];
  }
  const Tensor at = from_vector(first);
  return {take(is_flat ? x.reshape({-1}) : x, at, {.axis = axis}), at, from_vector(group), from_vector(count)};
}

struct Box {
  double top, left, bottom, right;
  double area() const { return std::max(0.0, bottom - top) * std::max(0.0, right - left); }
};
double overlap(const Box& a, const Box& b) {
  const Box both{std::max(a.top, b.top), std::max(a.left, b.left), std::min(a.bottom, b.bottom), std::min(a.right, b.right)};
  const double common = both.area(), all = a.area() + b.area() - common;
  return all > 0 ? common / all : 0;
}

// Greedy, class by class: (batch, class, box) of those kept.
Tensor non_maximum_suppressed(Call& c) {
  const std::vector<double> boxes = c.in(0).to_vector<double>(), scores = c.in(1).to_vector<double>();
  const int64_t batch = c.in(1).extent(0), classes = c.in(1).extent(1), n = c.in(1).extent(2);
  const int64_t most = c.has(2) ? c.whole_number(2) : 0;
  const double least_overlap = c.has(3) ? c.number(3) : 0;
  const bool centred = c.integer("center_point_box", 0) != 0;
  const auto box_at = [&](int64_t b, int64_t i) {
    const double* p = boxes.data() + (b * n + i) * 4;
    if (centred) return Box{p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
    return Box{std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
  };
  std::vector<int64_t> kept;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t k = 0; k < classes; ++k) {
      const double* score = scores.data() + (b * classes + k) * n;
      std::vector<int64_t> order;
      for (int64_t i = 0; i < n; ++i)
        if (!c.has(4) || score[i] > c.number(4)) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return score[x] > score[y]; });
      std::vector<int64_t> chosen;
      for (const int64_t i : order) {
        if (static_cast<int64_t>(chosen.size()) >= most) break;
        const bool is_covered =
            std::any_of(chosen.begin(), chosen.end(), [&](int64_t j) { return overlap(box_at(b, i), box_at(b, j)) > least_overlap; });
        if (is_covered) continue;
        chosen.push_back(i);
        kept.insert(kept.end(), {b, k, i});
      }
    }
  const auto count = static_cast<int64_t>(kept.size()) / 3;
  return from_vector(kept, Shape{count, 3});
}

}  // namespace

void add_selection_rules(Rules& rules) {
  rules.add("NonZero", not_zero);
  rules.add("Compress", compressed);
  rules.add("Unique", different);
  rules.add("NonMaxSuppression", non_maximum_suppressed);
}

}  // namespace gluino::onnx
