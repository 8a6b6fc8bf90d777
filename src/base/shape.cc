#include "gluino/shape.h"

#include "base/format.h"

namespace gluino {

void Shape::assign(const int64_t* dims, int n) {
  if (n > kMaxAxes) raise<ShapeError>("a shape with {} axes is not supported, at most {}", n, kMaxAxes);
  size_ = n;
  if (n > kInline) {
    heap_ = new int64_t[n];
    capacity_ = n;
  }
  std::copy(dims, dims + n, data());
}

Shape Shape::filled(int n, int64_t value) {
  const int64_t zeros[kMaxAxes] = {};
  Shape s(zeros, std::min(n, kMaxAxes));
  std::fill(s.begin(), s.end(), value);
  return s;
}

void Shape::no_such_extent(int i) const { raise<IndexError>("extent {} of shape {} was asked for, which has {}", i, *this, size_); }

void Shape::insert(int position, int64_t extent) {
  if (position < 0 || position > size_) no_such_extent(position);
  int64_t buffer[kMaxAxes + 1];
  std::copy(begin(), begin() + position, buffer);
  buffer[position] = extent;
  std::copy(begin() + position, end(), buffer + position + 1);
  *this = Shape(buffer, size_ + 1);
}

void Shape::erase(int position) {
  checked(position);
  std::copy(begin() + position + 1, end(), begin() + position);
  --size_;
}

int64_t Shape::elements() const { return elements(0, size_); }

int64_t Shape::elements(int first, int last) const {
  int64_t n = 1;
  for (int i = first; i < last; ++i)
    if (__builtin_mul_overflow(n, data()[i], &n)) raise<ShapeError>("shape {} has more elements than 63 bits count", str());
  return n;
}

std::string Shape::str() const {
  std::string text = "(";
  for (int i = 0; i < size_; ++i) {
    if (i) text += ", ";
    text += data()[i] == kUnknown ? "?" : std::to_string(data()[i]);
  }
  return text + (size_ == 1 ? ",)" : ")");
}

int normalize_axis(int64_t axis, const Shape& shape) {
  const int n = shape.ndim();
  if (axis < -n || axis >= n)
    raise<ShapeError>("axis {} is out of range for data of shape {}, which has {} ax{}s", axis, shape, n, n == 1 ? "i" : "e");
  return static_cast<int>(axis < 0 ? axis + n : axis);
}

Shape broadcast_shapes(std::span<const Shape> shapes) {
  Shape out = shapes.empty() ? Shape() : shapes[0];
  for (size_t k = 1; k < shapes.size(); ++k) {
    const Shape& s = shapes[k];
    if (s == out) continue;
    while (out.ndim() < s.ndim()) out.insert(0, 1);
    const int shift = out.ndim() - s.ndim();
    for (int i = 0; i < s.ndim(); ++i) {
      int64_t& o = out[i + shift];
      if (o == 1) o = s[i];
      if (s[i] != o && s[i] != 1) {
        std::string all;
        for (const Shape& each : shapes) all += (all.empty() ? "" : " and ") + each.str();
        raise<ShapeError>("shapes {} do not broadcast: axis {} has extents {} and {}", all, i + shift, o, s[i]);
      }
    }
  }
  return out;
}

}  // namespace gluino
