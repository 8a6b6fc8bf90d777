// Index inputs: any dtype comes in, checked whole numbers come out.
#pragma once
#include "ops/common.h"

namespace gluino::ops {

enum class IndexMode { clip, wrap, raise };

// The values of an index tensor, mapped into [0, extent) by `mode`.
class Indices {
 public:
  Indices(const Tensor& t, int64_t extent, IndexMode mode, int axis = 0);
  int64_t operator[](int64_t i) const { return values_[i]; }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }

 private:
  std::vector<int64_t> values_;
};

// Whole numbers of a tensor, fractions cut off.
std::vector<int64_t> integers(const Tensor& t);
const char* mode_name(IndexMode mode);

}  // namespace gluino::ops
