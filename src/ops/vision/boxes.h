// Boxes as the operators of object detection see them.
#pragma once
#include <algorithm>

namespace gluino::ops {

template <class T>
struct Box {
  T x0, y0, x1, y1;  // corners
  T area() const { return x1 < x0 || y1 < y0 ? T(0) : (x1 - x0) * (y1 - y0); }
};
// Intersection over union.
template <class T>
T overlap(const Box<T>& a, const Box<T>& b) {
  const T width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0), height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (width <= 0 || height <= 0) return 0;
  const T shared = width * height, all = a.area() + b.area() - shared;
  return all > 0 ? shared / all : T(0);
}

}  // namespace gluino::ops
