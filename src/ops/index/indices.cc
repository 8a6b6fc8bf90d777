#include "ops/index/indices.h"

namespace gluino::ops {

std::vector<int64_t> integers(const Tensor& t) {
  const Tensor whole = with_dtype(t, DType::int64);
  const int64_t* values = whole.data<int64_t>();
  return {values, values + whole.size()};
}

const char* mode_name(IndexMode mode) {
  static constexpr const char* kNames[] = {"clip", "wrap", "raise"};
  return kNames[static_cast<size_t>(mode)];
}

Indices::Indices(const Tensor& t, int64_t extent, IndexMode mode, int axis) : values_(integers(t)) {
  if (extent == 0 && !values_.empty()) raise<IndexError>("index {} cannot be taken from axis {}, which has no elements", values_[0], axis);
  for (int64_t& v : values_) {
    if (mode == IndexMode::clip) {
      v = std::clamp<int64_t>(v, 0, extent - 1);
    } else if (mode == IndexMode::wrap) {
      v %= extent;
      if (v < 0) v += extent;
    } else {
      if (v < -extent || v >= extent) raise<IndexError>("index {} is out of range for axis {}, which has {} elements", v, axis, extent);
      if (v < 0) v += extent;
    }
  }
}

}  // namespace gluino::ops
