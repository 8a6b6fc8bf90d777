// How far two answers are apart.
#pragma once
#include "cli/report.h"
#include "gluino/tensor.h"

namespace gluino::cli {

class Command;

struct Tolerance {
  double relative = 1e-4, absolute = 1e-5;
};
void add_tolerance_options(Command& command, Tolerance& tolerance);

struct Difference {
  bool same = true;    // within the tolerance
  double largest = 0;  // of the absolute differences of the elements
  std::string why;     // where they cannot be compared: shapes, types
};
Difference compare(const Tensor& a, const Tensor& b, const Tolerance& tolerance);
Difference compare(const Tensors& a, const Tensors& b, const Tolerance& tolerance);
std::string difference_text(const Difference& difference);
Json difference_json(const Difference& difference);

}  // namespace gluino::cli
