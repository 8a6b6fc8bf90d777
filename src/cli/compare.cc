#include "cli/compare.h"

#include <cmath>

#include "cli/command.h"
#include "base/format.h"

namespace gluino::cli {

void add_tolerance_options(Command& command, Tolerance& tolerance) {
  command.option("--rtol", tolerance.relative, "how far answers may be apart, relative to their size").with_default();
  command.option("--atol", tolerance.absolute, "and absolutely, beside that").with_default();
}

Difference compare(const Tensor& a, const Tensor& b, const Tolerance& tolerance) {
  if (!(a.shape() == b.shape())) return {false, 0, fmt::format("the shapes are {} and {}", a.shape(), b.shape())};
  Difference d;
  d.same = all_close(a.astype(DType::float64), b.astype(DType::float64), tolerance.relative, tolerance.absolute, true);
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    const double apart = std::abs(x[i] - y[i]);
    if (apart > d.largest || (std::isnan(apart) && std::isnan(x[i]) != std::isnan(y[i]))) d.largest = apart;
    if (std::isnan(d.largest)) break;
  }
  return d;
}

Difference compare(const Tensors& a, const Tensors& b, const Tolerance& tolerance) {
  if (a.size() != b.size()) return {false, 0, fmt::format("there are {} outputs and {}", a.size(), b.size())};
  Difference all;
  for (size_t i = 0; i < a.size(); ++i) {
    const Difference d = compare(a[i], b[i], tolerance);
    if (!d.same && all.same) all.why = d.why.empty() ? d.why : fmt::format("output {}: {}", i, d.why);
    all.same = all.same && d.same;
    if (!(d.largest <= all.largest)) all.largest = d.largest;
  }
  return all;
}

std::string difference_text(const Difference& d) {
  if (!d.why.empty()) return "differ: " + d.why;
  return fmt::format("{}, largest difference {:.3g}", d.same ? "the same answers" : "OTHER answers", d.largest);
}

Json difference_json(const Difference& d) {
  Json json{{"same", d.same}, {"largest_difference", std::isnan(d.largest) ? Json(nullptr) : Json(d.largest)}};
  if (!d.why.empty()) json["why"] = d.why;
  return json;
}

}  // namespace gluino::cli
