#include "kernels/elementwise/strided.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/copy_bytes.h"
#include "base/parallel.h"
#include "kernels/isa/primitives.h"

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
      Axis& last = l.axes[l.count - 1];
      if (last.in == in[i] * shape[i] && last.out == out[i] * shape[i]) {
        last = {last.extent * shape[i], in[i], out[i]};
        continue;
      }
    }
    l.axes[l.count++] = {shape[i], in[i], out[i]};
  }
  if (l.count == 0) l.axes[l.count++] = {1, 1, 1};
  return l;
}

template <class T>
void fill_run(T* out, int64_t n, T value) {
  if (value == T(0)) return static_cast<void>(std::memset(out, 0, n * sizeof(T)));
  primitives().fill[std::countr_zero(sizeof(T))](&value, out, n);
}

// Steps that a compiler knows become vectors.
template <int64_t step, class T>
void copy_every(const T* in, T* out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) out[j] = in[j * step];
}

// The same row again and again: some one by one, then those together, since a call for each takes longer than a row of the cache.
template <class T>
void repeat_row(const T* in, int64_t n, int64_t rows, T* out) {
  constexpr int64_t kBytes = 16384, width = sizeof(T);
  const int64_t all = rows * n, block = std::min(rows, std::max<int64_t>(1, kBytes / width / n)) * n;
  for (int64_t at = 0; at < block; at += n) copy_bytes(out + at, in, n * width);
  for (int64_t at = block; at < all; at += block) copy_bytes(out + at, out, std::min(block, all - at) * width);
}

// Rows along b, one after the other along a.
template <class T>
void copy_rows(const Axis& a, const Axis& b, const T* in, T* out) {
  const int64_t n = b.extent;
  if (b.out == 1 && b.in == 1 && a.in == 0 && a.out == n) return repeat_row(in, n, a.extent, out);
  for (int64_t i = 0; i < a.extent; ++i, in += a.in, out += a.out) {
    if (b.out == 1 && b.in == 1 && n > 16)
      copy_bytes(out, in, n * static_cast<int64_t>(sizeof(T)));
    else if (b.out == 1 && b.in == 0)
      fill_run(out, n, *in);
    else if (b.out == 1 && b.in == 1)
      for (int64_t j = 0; j < n; ++j) out[j] = in[j];
    else if (b.out == 1 && b.in == -1)
      std::reverse_copy(in - (n - 1), in + 1, out);
    else if (b.out == 1 && b.in == 2)
      copy_every<2>(in, out, n);
    else if (b.out == 1 && b.in == 3)
      copy_every<3>(in, out, n);
    else if (b.out == 1 && b.in == 4)
      copy_every<4>(in, out, n);
    else
      for (int64_t j = 0; j < n; ++j) out[j * b.out] = in[j * b.in];
  }
}

// Rows become columns in registers: each pass interleaves the first half of the rows with the second one.
template <class T>
struct Square {
  typedef T Row __attribute__((vector_size(16)));
  static constexpr int kRows = 16 / sizeof(T);
  Row v[kRows];

  void turn() {
    for (int pass = 1; pass < kRows; pass *= 2) interleave(std::make_index_sequence<kRows>());
  }

 private:
  template <size_t... k>
  void interleave(std::index_sequence<k...>) {
    Row next[kRows];
    for (int i = 0; i < kRows / 2; ++i) {
      next[2 * i] = __builtin_shufflevector(v[i], v[i + kRows / 2], (k / 2 + k % 2 * kRows)...);
      next[2 * i + 1] = __builtin_shufflevector(v[i], v[i + kRows / 2], (k / 2 + k % 2 * kRows + kRows / 2)...);
    }
    std::memcpy(v, next, sizeof v);
  }
};

// A square of neighbouring elements turned, through memory of its own: every line of both arrays is touched once, also where a power
// of two between rows gives them all one place in the cache.
constexpr int64_t kTile = 16;
template <class T>
void turn_tile(const T* from, int64_t from_step, T* to, int64_t to_step) {
  alignas(64) T turned[kTile][kTile];
  constexpr int64_t rows = Square<T>::kRows;
  for (int64_t q = 0; q < kTile; q += rows)
    for (int64_t p = 0; p < kTile; p += rows) {
      Square<T> square;
      for (int64_t r = 0; r < rows; ++r) std::memcpy(&square.v[r], from + (q + r) * from_step + p, sizeof square.v[r]);
      square.turn();
      for (int64_t r = 0; r < rows; ++r) std::memcpy(&turned[p + r][q], &square.v[r], sizeof square.v[r]);
    }
  for (int64_t p = 0; p < kTile; ++p) std::memcpy(to + p * to_step, turned[p], sizeof turned[p]);
}

// Two axes at once in tiles that stay in the cache: `in` is contiguous along a, `out` along b.
template <class T>
void copy_tiled(const Axis& a, const Axis& b, const T* in, T* out) {
  for (int64_t i = 0; i < a.extent; i += kTile)
    for (int64_t j = 0; j < b.extent; j += kTile) {
      const int64_t ni = std::min(kTile, a.extent - i), nj = std::min(kTile, b.extent - j);
      const T* from = in + i * a.in + j * b.in;
      T* to = out + i * a.out + j * b.out;
      if (ni == kTile && nj == kTile && a.in == 1 && b.out == 1) {
        turn_tile(from, b.in, to, a.out);
      } else {
        for (int64_t p = 0; p < ni; ++p)
          for (int64_t q = 0; q < nj; ++q) to[p * a.out + q * b.out] = from[p * a.in + q * b.in];
      }
    }
}

template <class T>
void copy_layout(const Layout& l, const T* in, T* out) {
  auto axis = [&](int i) -> const Axis& { return l.axes[i]; };
  const int last = l.count - 1;
  // The last axis writes consecutively; where another one reads consecutively, go in tiles over both.
  int slow_axis = last - 1;
  bool tiled = false;
  if (axis(last).in > 1 && axis(last).extent >= 4)
    for (int i = 0; i < last; ++i)
      if (axis(i).in == 1 && axis(i).extent >= 4) {
        slow_axis = i;
        tiled = true;
      }
  const Axis fast = axis(last), slow = slow_axis >= 0 ? axis(slow_axis) : Axis{1, 0, 0};
  int64_t outer = 1;
  for (int i = 0; i < last; ++i)
    if (i != slow_axis) outer *= axis(i).extent;
  // Threads share planes of the two axes, cut into parts of the slow one.
  constexpr int64_t kPart = 64;
  const int64_t pieces = (slow.extent + kPart - 1) / kPart, work = std::min(slow.extent, kPart) * fast.extent;
  parallel_for(outer * pieces, std::max<int64_t>(1, kParallelGrain / work), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t first = o % pieces * kPart;
      int64_t rest = o / pieces, from = first * slow.in, to = first * slow.out;
      for (int i = last - 1; i >= 0; --i) {
        if (i == slow_axis) continue;
        from += rest % axis(i).extent * axis(i).in;
        to += rest % axis(i).extent * axis(i).out;
        rest /= axis(i).extent;
      }
      const Axis part{std::min(kPart, slow.extent - first), slow.in, slow.out};
      if (tiled)
        copy_tiled(part, fast, in + from, out + to);
      else
        copy_rows(part, fast, in + from, out + to);
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

void fill_elements(int element_bytes, const void* value, void* out, int64_t n) {
  const Shape shape{n}, step{1}, none{0};
  copy_strided(element_bytes, shape, value, none, out, step);
}

}  // namespace gluino::kernels
