// An array of the library's, as its handle names it.
#pragma once
#include "c_api/handles.h"
#include "gluino/c_api.h"
#include "gluino/tensor.h"

namespace gluino::c_api {

struct Array {
  Tensor tensor;
};

template <>
struct HandleKind<Array> {
  static constexpr int number = 2;
  static constexpr const char* name = "array";
};
using Arrays = HandleTable<Array>;

// Handles for tensors, all or none. A tensor that shares its memory with anything else is copied first: an array is the caller's alone.
void give_arrays(const Tensors& tensors, gluino_array* handles);

}  // namespace gluino::c_api
