#include "graph/solve_extents.h"

#include <algorithm>

#include "dispatch/infer.h"

namespace gluino {
namespace {

constexpr int64_t kTried = 96;  // divisible by what reshapes commonly divide by

struct Place {
  size_t input;
  int axis;
  bool operator==(const Place&) const = default;
};
using Places = std::vector<Place>;

class Solver {
 public:
  Solver(const OpDef& op, const Attrs& attrs, OptionalShapes& in, const OptionalShapes& out) : op_(op), attrs_(attrs), in_(in), out_(out) {}

  void solve() {
    if (!knows_an_output()) return;
    if (op_.is_elementwise() && !op_.is_same_shape) return solve_broadcast();
    solve_rank();
    for (size_t i = 0; i < in_.size(); ++i)
      for (int axis = 0; in_[i] && axis < in_[i]->ndim(); ++axis)
        if ((*in_[i])[axis] == Shape::kUnknown) solve_extent({i, axis});
  }

 private:
  bool knows_an_output() const {
    return std::any_of(out_.begin(), out_.end(), [](const auto& s) {
      return s && std::any_of(s->begin(), s->end(), [](int64_t extent) { return extent != Shape::kUnknown; });
    });
  }

  // Beside extents of 1 alone an unknown one is that of the output.
  void solve_broadcast() {
    const Shape& result = *out_[0];
    for (const auto& s : in_)
      if (!s || s->ndim() > result.ndim()) return;
    for (int from_end = 1; from_end <= result.ndim(); ++from_end) {
      const int64_t wanted = result[result.ndim() - from_end];
      std::vector<int64_t*> open;
      bool beside_ones = true;
      for (auto& s : in_) {
        if (s->ndim() < from_end) continue;
        int64_t& extent = (*s)[s->ndim() - from_end];
        if (extent == Shape::kUnknown)
          open.push_back(&extent);
        else
          beside_ones &= extent == 1;
      }
      if (wanted == 1 || (wanted != Shape::kUnknown && beside_ones && open.size() == 1))
        for (int64_t* extent : open) *extent = wanted;
    }
  }

  // Only the first input: the others (weights, labels) follow from it.
  void solve_rank() {
    if (in_.empty() || in_[0] || !out_[0]) return;
    std::optional<Shape> only;
    for (int rank = 0; rank <= out_[0]->ndim() + 3; ++rank) {
      OptionalShapes tried = in_;
      tried[0] = Shape::filled(rank, Shape::kUnknown);
      const auto result = shapes_with(tried, {}, 0);
      if (!result || (*result)[0].ndim() != out_[0]->ndim()) continue;
      if (only) return;
      only = tried[0];
    }
    if (only) in_[0] = only;
  }

  void solve_extent(Place place) {
    Places together{place};
    if (!shapes_with(in_, together, 2 * kTried)) {
      together = that_change_together(place);
      // Where one of them may also be 1, extents are broadcast: the output does not say which is which.
      if (together.empty() || shapes_with(in_, {place}, 1)) return;
    }
    const auto first = shapes_with(in_, together, kTried), second = shapes_with(in_, together, 2 * kTried),
               third = shapes_with(in_, together, 3 * kTried);
    if (!first || !second || !third) return;
    for (size_t o = 0; o < out_.size(); ++o)
      for (int axis = 0; out_[o] && axis < out_[o]->ndim(); ++axis) {
        const int64_t wanted = (*out_[o])[axis];
        if (wanted == Shape::kUnknown || (*first)[o].ndim() != out_[o]->ndim()) continue;
        const int64_t step = (*second)[o][axis] - (*first)[o][axis];
        if (step == 0 || (*third)[o][axis] - (*second)[o][axis] != step) continue;
        const int64_t distance = (wanted - (*first)[o][axis]) * kTried;
        if (distance % step != 0) continue;
        const int64_t found = kTried + distance / step;
        const auto gives = [&](int64_t extent) {
          if (extent < 0) return false;
          const auto result = shapes_with(in_, together, extent);
          return result && (*result)[o].ndim() == out_[o]->ndim() && (*result)[o][axis] == wanted;
        };
        if (!gives(found) || gives(found - 1) || gives(found + 1)) continue;
        for (const Place& p : together) (*in_[p.input])[p.axis] = found;
        return;
      }
  }

  // The fewest unknown extents, this one among them, that can only be changed at once; none: these cannot either.
  Places that_change_together(Place place) const {
    Places all;
    for (size_t i = 0; i < in_.size(); ++i)
      for (int axis = 0; in_[i] && axis < in_[i]->ndim(); ++axis)
        if ((*in_[i])[axis] == Shape::kUnknown) all.push_back({i, axis});
    if (!shapes_with(in_, all, 2 * kTried)) return {};
    for (size_t k = all.size(); k-- > 0;) {
      if (all[k] == place) continue;
      Places fewer = all;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
      if (shapes_with(in_, fewer, 2 * kTried)) all = std::move(fewer);
    }
    return all;
  }

  // The outputs' shapes with `extent` at some places and kTried at all others that are unknown; nothing where the rule refuses them.
  std::optional<std::vector<Shape>> shapes_with(OptionalShapes in, const Places& places, int64_t extent) const {
    for (const Place& p : places) (*in[p.input])[p.axis] = extent;
    for (auto& s : in)
      if (s) std::replace(s->begin(), s->end(), Shape::kUnknown, kTried);
    try {
      if (op_.complete_inputs) op_.complete_inputs(attrs_.get(), in, OptionalShapes(out_.size()));
      std::vector<Shape> known, result;
      for (const auto& s : in) {
        if (!s || !s->is_known()) return std::nullopt;
        known.push_back(*s);
      }
      infer_shapes(op_, attrs_, known, result);
      if (result.size() != out_.size()) return std::nullopt;
      return result;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const OpDef& op_;
  const Attrs& attrs_;
  OptionalShapes& in_;
  const OptionalShapes& out_;
};

}  // namespace

void solve_input_extents(const OpDef& op, const Attrs& attrs, OptionalShapes& in, const OptionalShapes& out) {
  Solver(op, attrs, in, out).solve();
}

}  // namespace gluino
