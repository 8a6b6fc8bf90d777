// Reading data sets.
#pragma once
#include "gluino/tensor.h"

namespace gluino::data {

// A table of numbers, comma separated, gzipped or not: float32 of shape (lines, columns).
Tensor load_csv(const std::string& path);

}  // namespace gluino::data
