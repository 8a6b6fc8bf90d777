#include "kernels/strided.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/parallel.h"

namespace gluino::kernels {

Shape row_major_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.ndim(), 1);
  for (int i = shape.ndim() - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

Shape broadcast_strides(const Shape& from, const Shape& to) {
  const Shape own = row_major_strides(from);
  Shape strides = Shape::filled(to.ndim(), 0);
  const int shift = to.ndim() - from.ndim();
  for (int i = 0; i < from.ndim(); ++i) strides[i + shift] = from[i] == 1 ? 0 : own[i];
  return strides;
}

namespace {

struct Axis {
  int64_t extent, in, out;
};
struct Layout {
  std::array<Axis, Shape::kMaxAxes> axes;
  int count = 0;
};

// Drops axes of extent 1 and joins neighbours that step through memory as one axis would.
Layout simplify(const Shape& shape, const Shape& in, const Shape& out) {
  Layout l;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] == 1) continue;
    if (l.count) {
      Axis& last = l.axes[static_cast<size_t>(l.count - 1)];
      if (last.in == in[i] * shape[i] && last.out == out[i] * shape[i]) {
        last = {last.extent * shape[i], in[i], out[i]};
        continue;
      }
    }
    l.axes[static_cast<size_t>(l.count++)] = {shape[i], in[i], out[i]};
  }
  if (l.count == 0) l.axes[static_cast<size_t>(l.count++)] = {1, 1, 1};
  return l;
}

template <class T>
void copy_row(int64_t n, const T* in, int64_t in_step, T* out, int64_t out_step) {
  if (in_step == 1 && out_step == 1) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(T));
  } else if (in_step == 0 && out_step == 1) {
    std::fill_n(out, n, *in);
  } else if (out_step == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * in_step];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * out_step] = in[i * in_step];
  }
}

// Two axes at once in tiles that stay in the cache: `in` is contiguous along a, `out` along b.
template <class T>
void copy_tiled(const Axis& a, const Axis& b, const T* in, T* out) {
  constexpr int64_t kTile = 16;
  for (int64_t i = 0; i < a.extent; i += kTile)
    for (int64_t j = 0; j < b.extent; j += kTile) {
      const int64_t ni = std::min(kTile, a.extent - i), nj = std::min(kTile, b.extent - j);
      const T* from = in + i * a.in + j * b.in;
      T* to = out + i * a.out + j * b.out;
      if (ni == kTile && nj == kTile) {
        for (int64_t p = 0; p < kTile; ++p)
          for (int64_t q = 0; q < kTile; ++q) to[p * a.out + q * b.out] = from[p * a.in + q * b.in];
      } else {
        for (int64_t p = 0; p < ni; ++p)
          for (int64_t q = 0; q < nj; ++q) to[p * a.out + q * b.out] = from[p * a.in + q * b.in];
      }
    }
}

template <class T>
void copy_layout(const Layout& l, const T* in, T* out) {
  const int last = l.count - 1;
  // The last axis writes consecutively; where another one reads consecutively, go in tiles over both.
  int tiled = -1;
  if (l.axes[static_cast<size_t>(last)].in > 1 && l.axes[static_cast<size_t>(last)].extent >= 4)
    for (int i = 0; i < last; ++i)
      if (l.axes[static_cast<size_t>(i)].in == 1 && l.axes[static_cast<size_t>(i)].extent >= 4) tiled = i;
  int64_t outer = 1, inner = l.axes[static_cast<size_t>(last)].extent;
  for (int i = 0; i < last; ++i) (i == tiled ? inner : outer) *= l.axes[static_cast<size_t>(i)].extent;
  const Axis &fast = l.axes[static_cast<size_t>(last)], &slow = l.axes[static_cast<size_t>(tiled < 0 ? last : tiled)];
  // With one large plane, its rows are shared instead.
  const int64_t pieces = tiled >= 0 && outer == 1 ? (slow.extent + 63) / 64 : 1;
  parallel_for(outer * pieces, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, inner / pieces)), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      int64_t rest = o / pieces, from = 0, to = 0;
      for (int i = last - 1; i >= 0; --i) {
        if (i == tiled) continue;
        const Axis& a = l.axes[static_cast<size_t>(i)];
        from += rest % a.extent * a.in;
        to += rest % a.extent * a.out;
        rest /= a.extent;
      }
      if (tiled < 0) {
        copy_row(fast.extent, in + from, fast.in, out + to, fast.out);
      } else {
        const int64_t first = o % pieces * 64;
        const Axis part{pieces == 1 ? slow.extent : std::min<int64_t>(64, slow.extent - first), slow.in, slow.out};
        copy_tiled(part, fast, in + from + first * slow.in, out + to + first * slow.out);
      }
    }
  });
}


}  // namespace

void copy_strided(int element_bytes, const Shape& shape, const void* in, const Shape& in_strides, void* out, const Shape& out_strides) {
  if (shape.elements() == 0) return;
  const Layout l = simplify(shape, in_strides, out_strides);
  switch (element_bytes) {
    case 1: return copy_layout(l, static_cast<const uint8_t*>(in), static_cast<uint8_t*>(out));
    case 2: return copy_layout(l, static_cast<const uint16_t*>(in), static_cast<uint16_t*>(out));
    case 4: return copy_layout(l, static_cast<const uint32_t*>(in), static_cast<uint32_t*>(out));
    default: return copy_layout(l, static_cast<const uint64_t*>(in), static_cast<uint64_t*>(out));
  }
}

}  // namespace gluino::kernels
