#include "serve/tensors.h"

#include <cmath>
#include <cstring>

namespace gluino::serve {
namespace {

char* mutable_bytes_of(Tensor& t) {
  return visit_dtype(t.dtype(), [&]<class T>(T*) { return reinterpret_cast<char*>(t.mutable_data<T>()); });
}

}  // namespace

const char* bytes_of(const Tensor& t) {
  return visit_dtype(t.dtype(), [&]<class T>(T*) { return reinterpret_cast<const char*>(t.data<T>()); });
}

Tensor joined(const std::vector<const InferInput*>& inputs) {
  Shape shape = inputs[0]->shape;
  if (inputs.size() > 1) {
    shape[0] = 0;
    for (const InferInput* i : inputs) shape[0] += i->shape[0];
  }
  Tensor t = empty(shape, inputs[0]->dtype);
  char* to = mutable_bytes_of(t);
  for (const InferInput* i : inputs) {
    std::memcpy(to, i->data, i->bytes);
    to += i->bytes;
  }
  return t;
}
Tensor alone(const InferInput& input) { return joined({&input}); }

Tensor disturbed(const Tensor& t) {
  if (!is_floating(t.dtype())) return t;
  Tensor other = t.copy();
  visit_dtype(t.dtype(), [&]<class T>(T*) {
    T* values = other.mutable_data<T>();
    uint32_t state = 2463534242u;
    for (int64_t i = 0; i < other.size(); ++i) {
      state ^= state << 13, state ^= state >> 17, state ^= state << 5;
      const float noise = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f, value = static_cast<float>(values[i]);
      values[i] = static_cast<T>(value + noise * (std::abs(value) + 0.5f));
    }
  });
  return other;
}

Tensor stacked(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape[0] += b.shape()[0];
  Tensor t = empty(shape, a.dtype());
  char* to = mutable_bytes_of(t);
  std::memcpy(to, bytes_of(a), static_cast<size_t>(a.nbytes()));
  std::memcpy(to + a.nbytes(), bytes_of(b), static_cast<size_t>(b.nbytes()));
  return t;
}

bool rows_agree(const Tensor& whole, int64_t first, const Tensor& part) {
  if (whole.dtype() != part.dtype() || whole.ndim() != part.ndim() || part.ndim() == 0) return false;
  const Shape &w = whole.shape(), &p = part.shape();
  if (!std::equal(w.begin() + 1, w.end(), p.begin() + 1) || first + p[0] > w[0]) return false;
  return visit_dtype(part.dtype(), [&]<class T>(T*) {
    const int64_t row = p.elements(1, p.ndim());
    const T *x = whole.data<T>() + first * row, *y = part.data<T>();
    double largest = 0;
    for (int64_t i = 0; i < part.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(y[i])));
    // What joining mixes up is wrong by about as much as the rows differ; what another order of a sum does is far smaller.
    const double tolerance = is_floating(part.dtype()) ? largest * (sizeof(T) == 2 ? 2e-2 : 1e-3) : 0;
    for (int64_t i = 0; i < part.size(); ++i) {
      const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
      if (!(std::abs(a - b) <= tolerance) && !(std::isnan(a) && std::isnan(b)) && a != b) return false;
    }
    return true;
  });
}

}  // namespace gluino::serve
