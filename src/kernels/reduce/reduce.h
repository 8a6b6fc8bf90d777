// Reductions over any set of axes. The result does not depend on the number of threads.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gluino/dtype.h"
#include "gluino/shape.h"
#include "kernels/reduce/reduce_rows.h"

namespace gluino::kernels {

// Reduces `in` of shape `shape` over the axes i with reduced[i]; `out` holds the remaining axes in order.
// Floats are accumulated in double (blocks of float32 inside), integers in int64.
void reduce(ReduceOp op, ReduceFinish finish, const void* in, DType in_type, const Shape& shape, const bool* reduced, void* out,
            DType out_type);

// The same over elements that are computed when they are asked for, at most a few thousand at a time: bit for bit the reduction of
// an array of them of that `type`. 16-bit floats are given as float32.
struct ComputedElements {
  std::function<void(int64_t begin, int64_t end, void* elements)> read;
  // acc[i] = combine(acc[i], map(the element at row + i)) for i < n, row after row. May be empty; used where the last axes stay.
  std::function<void(std::span<const int64_t> rows, int64_t n, double* acc)> combine;
};
void reduce_computed(ReduceOp op, ReduceFinish finish, const ComputedElements& elements, DType type, const Shape& shape,
                     const bool* reduced, void* out, DType out_type);
// How many neighbouring elements belong to different results; 0: the last axes are reduced.
int64_t elements_side_by_side(const Shape& shape, const bool* reduced);

// Some rows of `length` neighbouring elements, of `all_rows`: what reduce() over the last axes gives for them. 16-bit floats are given, and
// given back, as float32.
void reduce_neighbours(ReduceOp op, ReduceFinish finish, const void* in, DType type, int64_t rows, int64_t length, int64_t all_rows,
                       void* out);
// Whether it takes so many rows in parts, because they are few and long.
bool splits_neighbours(int64_t rows, int64_t length);

}  // namespace gluino::kernels
