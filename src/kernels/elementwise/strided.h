// Copies between two layouts of the same logical shape: transposition, slices, reversal, broadcasting.
#pragma once
#include "gluino/shape.h"

namespace gluino::kernels {

// out[sum(i * out_strides)] = in[sum(i * in_strides)] for every index i of `shape`. Strides count elements and may be 0
// (in only) or negative. Threads share the outermost axes, so different indices must not write the same element.
void copy_strided(int element_bytes, const Shape& shape, const void* in, const Shape& in_strides, void* out, const Shape& out_strides);

// n times the same element.
void fill_elements(int element_bytes, const void* value, void* out, int64_t n);

Shape row_major_strides(const Shape& shape);
// Strides that read a tensor of shape `from` as if broadcast to `to` (aligned at the last axis).
Shape broadcast_strides(const Shape& from, const Shape& to);

}  // namespace gluino::kernels
