// Element types of files that gluino has no dtype for are widened to one that holds them.
#pragma once
#include <optional>
#include <string_view>

#include "gluino/tensor.h"

namespace gluino::io {

struct FileDType {
  int code;              // in MXNet's files
  std::string_view npy;  // in NumPy's, without the byte order
  int bytes;
  DType loaded_as;
  bool exact;  // false: the elements are converted
};
const FileDType* file_dtype(int code);
const FileDType* file_dtype(std::string_view npy);
const FileDType& file_dtype(DType dtype);
// A tensor of the elements, which lie unaligned in `data`.
Tensor tensor_from_file(const FileDType& type, const Shape& shape, std::string_view data);

}  // namespace gluino::io
