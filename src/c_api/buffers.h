// Memory of C programs as tensors, and results written into it.
#pragma once
#include "gluino/c_api.h"
#include "gluino/tensor.h"

namespace gluino::c_api {

// What messages name: "inputs[0]". The text is made only when one is needed.
struct Where {
  const char* list;
  size_t index;
  std::string str() const { return std::string(list) + '[' + std::to_string(index) + ']'; }
};

// Raises for a number that names no dtype.
DType checked_dtype(gluino_dtype dtype, Where what);
// Raises for extents that no tensor can have.
Shape checked_shape(const int64_t* extents, int32_t ndim, Where what);
int64_t bytes_for(const Shape& shape, DType dtype, Where what);

// The elements where they are; a copy where they have strides or are not aligned. The memory must outlive the tensor.
Tensor input_tensor(const gluino_buffer& buffer, Where what);

// Whether memory of two buffers is the same in part.
bool overlap(const gluino_buffer& a, const gluino_buffer& b);

// A tensor of bytes over an output's memory, for results to be computed in; null where they cannot be.
Tensor destination(const gluino_buffer& buffer);

// What the result is: dtype, ndim and shape. With strides the caller has said, and it is checked.
void describe(const Tensor& result, gluino_buffer& buffer, Where what);
// Copies the elements unless they are there already. Raises where there is no room.
void write_result(const Tensor& result, const gluino_buffer& buffer, Where what);

// The memory of a tensor, whatever its dtype.
void* memory_of(const Tensor& tensor);

}  // namespace gluino::c_api
