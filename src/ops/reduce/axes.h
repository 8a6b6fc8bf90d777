// Which axes a reduction removes, from MXNet's attributes axis and exclude.
#pragma once
#include <array>

#include "kernels/reduce/reduce.h"
#include "ops/common.h"

namespace gluino::ops {

using kernels::kFinishNames;
using kernels::kReduceNames;

class ReducedAxes {
 public:
  explicit ReducedAxes(int ndim) : ndim_(ndim) { flags_.fill(false); }
  // No axis, or an empty tuple, means all of them.
  ReducedAxes(const Shape& shape, const std::optional<Shape>& axis, bool exclude) : ReducedAxes(shape.ndim()) {
    if (!axis || axis->empty()) {
      flags_.fill(true);
      return;
    }
    for (int64_t a : *axis) {
      bool& flag = flags_[normalize_axis(a, shape)];
      if (flag) raise<AttrError>("attribute 'axis' {} lists an axis of shape {} twice", *axis, shape);
      flag = true;
    }
    if (exclude)
      for (bool& flag : flags_) flag = !flag;
  }
  void set(int axis, bool reduced) { flags_[axis] = reduced; }
  bool operator[](int axis) const { return flags_[axis]; }
  const bool* flags() const { return flags_.data(); }
  Shape list() const {
    Shape axes;
    for (int i = 0; i < ndim_; ++i)
      if ((*this)[i]) axes.push_back(i);
    return axes;
  }

  // The shape that remains. MXNet's operators give (1,) where nothing remains.
  Shape result(const Shape& shape, bool keepdims) const {
    Shape out;
    for (int i = 0; i < ndim_; ++i)
      if (!(*this)[i])
        out.push_back(shape[i]);
      else if (keepdims)
        out.push_back(1);
    if (out.empty() && !keepdims) out.push_back(1);
    return out;
  }

 private:
  int ndim_;
  std::array<bool, Shape::kMaxAxes> flags_;
};

}  // namespace gluino::ops
