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

Tensor pack(const std::vector<Rows>& parts, int64_t length) {
  const DType dtype = parts[0].dtype;
  Shape shape = parts[0].shape;
  if (parts.size() > 1) {
    shape[0] = 0;
    for (const Rows& p : parts) shape[0] += p.shape[0];
  }
  if (length > 0) shape[1] = length;
  Tensor t = empty(shape, dtype);
  char* to = mutable_bytes_of(t);
  for (const Rows& p : parts) {
    const size_t bytes = static_cast<size_t>(p.shape.elements()) * static_cast<size_t>(dtype_bytes(dtype));
    if (length == 0 || p.shape[1] == length) {
      std::memcpy(to, p.data, bytes);
      to += bytes;
      continue;
    }
    const auto rows = static_cast<size_t>(p.shape[0]);
    const size_t have = bytes / std::max<size_t>(rows, 1), want = static_cast<size_t>(t.nbytes() / shape[0]);
    for (size_t r = 0; r < rows; ++r, to += want) {
      std::memcpy(to, p.data + r * have, have);
      std::memset(to + have, 0, want - have);
    }
  }
  return t;
}

Tensor cut(const Tensor& whole, int64_t first, int64_t rows, int64_t length) {
  Shape shape = whole.shape();
  const auto stride = static_cast<size_t>(whole.nbytes() / std::max<int64_t>(shape[0], 1));
  shape[0] = rows;
  if (length > 0) shape[1] = length;
  Tensor part = empty(shape, whole.dtype());
  const auto wanted = static_cast<size_t>(part.nbytes() / std::max<int64_t>(rows, 1));
  char* to = mutable_bytes_of(part);
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + static_cast<size_t>(r) * wanted, bytes_of(whole) + static_cast<size_t>(first + r) * stride, wanted);
  return part;
}

void limit_from_above(Tensor& t, int64_t first, int64_t rows, int64_t limit) {
  visit_dtype(t.dtype(), [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, bool>) {
      const int64_t row = t.size() / std::max<int64_t>(t.shape()[0], 1);
      T* values = t.mutable_data<T>() + first * row;
      for (int64_t i = 0; i < rows * row; ++i)
        if (static_cast<double>(values[i]) > static_cast<double>(limit)) values[i] = static_cast<T>(static_cast<float>(limit));
    }
  });
}

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

bool agree(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return visit_dtype(a.dtype(), [&]<class T>(T*) {
    const T *x = a.data<T>(), *y = b.data<T>();
    double largest = 0;
    for (int64_t i = 0; i < b.size(); ++i)
      if (std::isfinite(static_cast<double>(y[i]))) largest = std::max(largest, std::abs(static_cast<double>(y[i])));
    // What joining mixes up is wrong by about as much as the rows differ; what another order of a sum does is far smaller.
    const double tolerance = is_floating(b.dtype()) ? largest * (sizeof(T) == 2 ? 2e-2 : 1e-3) : 0;
    for (int64_t i = 0; i < b.size(); ++i) {
      const double u = static_cast<double>(x[i]), v = static_cast<double>(y[i]);
      if (!(std::abs(u - v) <= tolerance) && !(std::isnan(u) && std::isnan(v)) && u != v) return false;
    }
    return true;
  });
}

}  // namespace gluino::serve
