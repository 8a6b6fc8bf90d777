// Printing like NumPy's: aligned columns, rows in brackets, the middle elided when there are many elements.
#include <cmath>
#include <ostream>
#include <sstream>

#include "base/format.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

constexpr int64_t kElideAbove = 1000;
constexpr int64_t kEdge = 3;
constexpr int kPrecision = 8;

// The elements that will be seen, and how each is written.
class Printer {
 public:
  explicit Printer(const Tensor& t) : shape_(t.shape()), dtype_(t.dtype()), values_(t.to_vector<double>()), elide_(t.size() > kElideAbove) {
    if (dtype_ == DType::int64) whole_ = t.to_vector<int64_t>();
    std::vector<int64_t> seen;
    collect(0, 0, seen);
    choose_style(seen);
    for (int64_t i : seen) width_ = std::max(width_, text(i).size());
  }

  std::string print() const {
    std::string out;
    if (shape_.ndim() == 0) return text(0);
    block(0, 0, 1, out);
    return out;
  }

 private:
  int64_t stride(int axis) const { return shape_.elements(axis + 1, shape_.ndim()); }
  bool elided(int axis) const { return elide_ && shape_[axis] > 2 * kEdge; }

  void collect(int axis, int64_t offset, std::vector<int64_t>& seen) const {
    if (axis == shape_.ndim()) return seen.push_back(offset);
    for (int64_t i = 0; i < shape_[axis]; ++i) {
      if (elided(axis) && i == kEdge) i = shape_[axis] - kEdge;
      collect(axis + 1, offset + i * stride(axis), seen);
    }
  }

  void choose_style(const std::vector<int64_t>& seen) {
    if (!is_floating(dtype_)) return;
    double largest = 0, smallest = HUGE_VAL;
    for (int64_t i : seen) {
      const double v = std::abs(values_[static_cast<size_t>(i)]);
      if (!std::isfinite(v) || v == 0) continue;
      largest = std::max(largest, v);
      smallest = std::min(smallest, v);
    }
    scientific_ = largest >= 1e8 || (largest > 0 && (smallest < 1e-4 || largest / smallest > 1e3 * 1e5));
    for (int64_t i : seen) {
      const double v = values_[static_cast<size_t>(i)];
      if (std::isfinite(v)) digits_ = std::max(digits_, fraction_digits(v));
    }
  }

  // Digits after the point that tell this value of its dtype from its neighbours, at most kPrecision.
  int fraction_digits(double v) const {
    const std::string shortest = shortest_text(v);
    const size_t point = shortest.find('.'), e = shortest.find('e');
    if (point == std::string::npos) return 0;
    return std::min<int>(kPrecision, static_cast<int>((e == std::string::npos ? shortest.size() : e) - point - 1));
  }
  std::string shortest_text(double v) const {
    const char* style = scientific_ ? "{:e}" : "{}";
    const bool narrow = dtype_ != DType::float64;
    if (scientific_) {
      for (int p = 0; p <= kPrecision; ++p) {
        std::string s = fmt::format("{:.{}e}", v, p);
        const double back = std::stod(s);
        if (narrow ? static_cast<float>(back) == static_cast<float>(v) : back == v) return s;
      }
      return fmt::format("{:.{}e}", v, kPrecision);
    }
    std::string s = narrow ? fmt::format(fmt::runtime(style), static_cast<float>(v)) : fmt::format(fmt::runtime(style), v);
    if (s.find('e') != std::string::npos) s = fmt::format("{:.{}f}", v, kPrecision);
    while (s.find('.') != std::string::npos && s.back() == '0') s.pop_back();
    return s;
  }

  std::string text(int64_t i) const {
    const double v = values_[static_cast<size_t>(i)];
    if (dtype_ == DType::boolean) return v != 0 ? "True" : "False";
    if (dtype_ == DType::int64) return std::to_string(whole_[static_cast<size_t>(i)]);
    if (!is_floating(dtype_)) return std::to_string(static_cast<int64_t>(v));
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    if (scientific_) return fmt::format("{:.{}e}", v, digits_);
    std::string s = fmt::format("{:.{}f}", v, digits_);
    if (digits_ == 0) s += '.';
    // NumPy pads with blanks where a shorter text says it all.
    size_t last = s.size();
    if (s.find('.') != std::string::npos)
      while (last > 0 && s[last - 1] == '0') --last;
    for (size_t k = last; k < s.size(); ++k) s[k] = shape_.ndim() == 0 ? '\0' : ' ';
    while (!s.empty() && s.back() == '\0') s.pop_back();
    return s;
  }

  void block(int axis, int64_t offset, int indent, std::string& out) const {
    out += '[';
    const bool last = axis == shape_.ndim() - 1;
    const std::string between = last ? " " : std::string(static_cast<size_t>(shape_.ndim() - 1 - axis), '\n') + std::string(static_cast<size_t>(indent), ' ');
    for (int64_t i = 0; i < shape_[axis]; ++i) {
      if (i) out += between;
      if (elided(axis) && i == kEdge) {
        out += "..." + between;
        i = shape_[axis] - kEdge;
      }
      if (last) {
        out += fmt::format("{:>{}}", text(offset + i), width_);
      } else {
        block(axis + 1, offset + i * stride(axis), indent + 1, out);
      }
    }
    out += ']';
  }

  Shape shape_;
  DType dtype_;
  std::vector<double> values_;
  std::vector<int64_t> whole_;  // int64 beyond 2^53 does not survive in a double
  bool elide_;
  bool scientific_ = false;
  int digits_ = 0;
  size_t width_ = 0;
};

}  // namespace

std::string Tensor::str() const {
  if (!impl_) return "<null Tensor>";
  if (impl_->symbolic) return impl_->symbolic->describe();
  if (!impl_->storage) return fmt::format("<shape-only Tensor {} {}>", impl_->shape, impl_->dtype);
  return Printer(*this).print() + fmt::format("\n<Tensor {} {} @{}>", impl_->shape, impl_->dtype, impl_->device.str());
}

std::ostream& operator<<(std::ostream& os, const Tensor& t) { return os << t.str(); }

}  // namespace gluino
