// The protocol's names of element types.
#pragma once
#include <string>
#include <string_view>

#include "gluino/dtype.h"

namespace gluino::serve {

std::string_view datatype_name(DType dtype);    // "FP32"
DType parse_datatype(const std::string& name);  // raises HttpError

}  // namespace gluino::serve
