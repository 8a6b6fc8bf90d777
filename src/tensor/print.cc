// Printing like NumPy's: aligned columns, rows in brackets, long lines wrapped, the middle elided when there are many elements.
#include <cmath>
#include <ostream>

#include "base/format.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

// NumPy's default print options.
constexpr int64_t kElideAbove = 1000;
constexpr int64_t kEdge = 3;
constexpr int kPrecision = 8;
constexpr size_t kLineWidth = 75;

double round_to(DType dtype, double v) {
  switch (dtype) {
    case DType::float16: return float16(static_cast<float>(v));
    case DType::bfloat16: return bfloat16(static_cast<float>(v));
    case DType::float32: return static_cast<float>(v);
    default: return v;
  }
}

// The fewest digits that tell a value of its dtype from its neighbours, as digits after the first one.
int shortest_digits(DType dtype, double v) {
  int p = 0;
  while (p < 16 && round_to(dtype, std::stod(fmt::format("{:.{}e}", v, p))) != v) ++p;
  return p;
}

// "1.25", "3.": at most `precision` digits after the point, fewer where they say it all.
std::string positional(DType dtype, double v, int precision) {
  const int significant = shortest_digits(dtype, v);
  const std::string e = fmt::format("{:.{}e}", v, significant);
  const int digits = std::max(0, significant - std::stoi(e.substr(e.find('e') + 1)));
  std::string s = digits <= precision ? fmt::format("{:.{}f}", std::stod(e), digits) : fmt::format("{:.{}f}", v, precision);
  if (s.find('.') == std::string::npos) return s + '.';
  while (s.back() == '0') s.pop_back();
  return s;
}

// "1.5e-05" with exactly `digits` after the point; the point stays when there are none.
std::string scientific(double v, int digits) { return fmt::format("{:#.{}e}", v, digits); }
int scientific_digits(DType dtype, double v) {
  const std::string s = scientific(v, std::min(kPrecision, shortest_digits(dtype, v)));
  const size_t point = s.find('.'), last = s.find_last_not_of('0', s.find('e') - 1);
  return static_cast<int>(last - point);
}

// A tensor without axes prints like a NumPy scalar.
std::string scalar_text(DType dtype, double v) {
  const double size = std::abs(v);
  if (size == 0 || (size >= 1e-4 && size < 1e16)) {
    std::string s = positional(dtype, v, 20);
    return s.back() == '.' ? s + '0' : s;
  }
  return fmt::format("{:.{}e}", v, shortest_digits(dtype, v));
}

// How the elements that will be seen are written: widths before and after the point are common to all.
class Style {
 public:
  Style(DType dtype, const std::vector<double>& seen) : dtype_(dtype) {
    double largest = 0, smallest = HUGE_VAL;
    for (double v : seen) {
      const double size = std::abs(v);
      if (!std::isfinite(size) || size == 0) continue;
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
    }
    scientific_ = largest > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
    if (scientific_)
      for (double v : seen)
        if (std::isfinite(v)) digits_ = std::max(digits_, scientific_digits(dtype, v));
    for (double v : seen) measure(v);
    before_ = std::max(before_ + after_, others_) - after_;
  }

  std::string text(double v) const {
    std::string s = bare(v);
    if (std::isfinite(v)) s.append(after_ - (s.size() - point(s)), ' ');
    if (s.size() < before_ + after_) s.insert(0, before_ + after_ - s.size(), ' ');
    return s;
  }

 private:
  static size_t point(const std::string& s) { return s.find('.'); }
  std::string bare(double v) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    return scientific_ ? scientific(v, digits_) : positional(dtype_, v, kPrecision);
  }
  void measure(double v) {
    if (!std::isfinite(v)) {
      others_ = std::max(others_, bare(v).size());
    } else {
      const std::string s = bare(v);
      before_ = std::max(before_, point(s));
      after_ = std::max(after_, s.size() - point(s));
    }
  }

  DType dtype_;
  bool scientific_ = false;
  int digits_ = 0;                              // after the point, when scientific
  size_t before_ = 0, after_ = 0, others_ = 0;  // characters before the point, from the point on, and of nan and inf
};

class Printer {
 public:
  explicit Printer(const Tensor& t) : shape_(t.shape()), dtype_(t.dtype()), values_(t.to_vector<double>()), elide_(t.size() > kElideAbove) {
    if (dtype_ == DType::int64) whole_ = t.to_vector<int64_t>();
  }

  std::string print() {
    if (values_.empty()) return "[]";
    if (shape_.ndim() == 0) return is_floating(dtype_) && std::isfinite(values_[0]) ? scalar_text(dtype_, values_[0]) : exact_text(0);
    std::vector<int64_t> seen;
    collect(0, 0, seen);
    if (is_floating(dtype_)) {
      std::vector<double> numbers;
      for (int64_t i : seen) numbers.push_back(values_[i]);
      style_.emplace(dtype_, numbers);
    }
    for (int64_t i : seen) width_ = std::max(width_, exact_text(i).size());
    return block(0, 0, 1, kLineWidth);
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

  std::string exact_text(int64_t i) const {
    const double v = values_[i];
    if (dtype_ == DType::boolean) return v != 0 ? "True" : "False";
    if (dtype_ == DType::int64) return std::to_string(whole_[i]);
    if (!is_floating(dtype_)) return std::to_string(static_cast<int64_t>(v));
    if (style_) return style_->text(v);
    return std::isnan(v) ? "nan" : v < 0 ? "-inf" : "inf";
  }

  // Elements of one row, wrapped so that no line is longer than `width`.
  std::string row(int64_t offset, size_t indent, size_t width) const {
    const std::string margin(indent, ' ');
    std::string done, line = margin;
    auto add = [&](const std::string& word) {
      if (line.size() + word.size() > width - 1 && line.size() > indent) {
        line.resize(line.find_last_not_of(' ') + 1);
        done += line + '\n';
        line = margin;
      }
      line += word;
    };
    const int64_t n = shape_.back();
    for (int64_t i = 0; i < n; ++i) {
      if (elided(shape_.ndim() - 1) && i == kEdge) {
        add("...");
        line += ' ';
        i = n - kEdge;
      }
      add(fmt::format("{:>{}}", exact_text(offset + i), width_));
      if (i + 1 < n) line += ' ';
    }
    return done + line;
  }

  std::string block(int axis, int64_t offset, size_t indent, size_t width) const {
    const std::string margin(indent, ' ');
    std::string out;
    if (axis == shape_.ndim() - 1) {
      out = row(offset, indent, width);
    } else {
      const std::string between(shape_.ndim() - 1 - axis, '\n');
      for (int64_t i = 0; i < shape_[axis]; ++i) {
        if (elided(axis) && i == kEdge) {
          out.append(margin).append("...").append(between);
          i = shape_[axis] - kEdge;
        }
        out += margin + block(axis + 1, offset + i * stride(axis), indent + 1, width - 1);
        if (i + 1 < shape_[axis]) out += between;
      }
    }
    return '[' + out.substr(indent) + ']';
  }

  Shape shape_;
  DType dtype_;
  std::vector<double> values_;
  std::vector<int64_t> whole_;  // int64 beyond 2^53 does not survive in a double
  bool elide_;
  std::optional<Style> style_;  // for floating dtypes
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
