// Included by pooling_rows_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set.
#include <float.h>
#include <stdint.h>

#include <initializer_list>

#include "kernels/isa/lanes.h"
#include "kernels/pooling/pooling_rows.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <class V>
inline V larger(V best, V v) {
  return ((v > best) | (v != v)) ? v : best;
}

// kSide: the height and width of the windows, or 0.
template <bool kMax, int kSide>
void pool_windows(const PoolRow& r, const float* data, float* out) {
  const int64_t height = kSide ? kSide : r.height, width = kSide ? kSide : r.width;
  for (int64_t i = 0; i < r.count; ++i, data += r.window_step, out += r.out_step) {
    Lanes result = spread(kMax ? -FLT_MAX : 0.0f);
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const Lanes v = load(data + y * r.row_step + x * r.tap_step);
        if constexpr (kMax)
          result = larger(result, v);
        else
          result += v;
      }
    store(out, kMax ? result : result / r.divisor);
  }
}

template <bool kMax>
void pool(const PoolRow& r, const float* data, float* out) {
  if (r.height == 2 && r.width == 2) return pool_windows<kMax, 2>(r, data, out);
  if (r.height == 3 && r.width == 3) return pool_windows<kMax, 3>(r, data, out);
  pool_windows<kMax, 0>(r, data, out);
}

// Elements 0, 2, ... and 1, 3, ... of 16 numbers, and back.
inline Lanes even(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
inline Lanes odd(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
inline void store_pairs(float* to, Lanes first, Lanes second) {
  store(to, __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11));
  store(to + kLanes, __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15));
}

// What is left of `head` goes to v if it is the largest.
inline Lanes take(Lanes v, Lanes value, Lanes& head) {
  const Lanes zero = spread(0.0f), given = v == value ? head : zero;
  head = v == value ? zero : head;
  return given;
}

void max_grad(const PoolRow& r, const float* data, const float* values, const float* head, float* data_grad) {
  for (int64_t i = 0; i < r.count; ++i) {
    const Lanes value = load(values + i * r.out_step);
    Lanes left = load(head + i * r.out_step);
    for (int64_t y = 0; y < r.height; ++y)
      for (int64_t x = 0; x < r.width; ++x) {
        const int64_t at = i * r.window_step + y * r.row_step + x * r.tap_step;
        store(data_grad + at, load(data_grad + at) + take(load(data + at), value, left));
      }
  }
}

// Calls f(i) for groups of 8 outputs; the last group may overlap the one before. False: there are less than 8.
template <class F>
inline bool for_each_eight(int64_t count, F&& f) {
  if (count < kLanes) return false;
  for (int64_t i = 0; i < count; i += kLanes) f(i + kLanes <= count ? i : count - kLanes);
  return true;
}

void max_of_squares(int64_t count, const float* top, const float* bottom, float* out) {
  const bool done = for_each_eight(count, [&](int64_t i) {
    const Lanes a = load(top + 2 * i), b = load(top + 2 * i + kLanes), c = load(bottom + 2 * i), d = load(bottom + 2 * i + kLanes);
    Lanes best = spread(-FLT_MAX);
    for (const Lanes v : {even(a, b), odd(a, b), even(c, d), odd(c, d)}) best = larger(best, v);
    store(out + i, best);
  });
  if (done) return;
  for (int64_t i = 0; i < count; ++i) {
    float best = -FLT_MAX;
    for (const float v : {top[2 * i], top[2 * i + 1], bottom[2 * i], bottom[2 * i + 1]}) best = larger(best, v);
    out[i] = best;
  }
}

void max_of_squares_grad(int64_t count, const float* top, const float* bottom, const float* values, const float* head, float* top_grad,
                         float* bottom_grad) {
  const auto eight = [](const float* t, const float* b, const float* v, const float* h, float* to_top, float* to_bottom) {
    const Lanes a = load(t), e = load(t + kLanes), c = load(b), d = load(b + kLanes), value = load(v);
    Lanes left = load(h);
    const Lanes first = take(even(a, e), value, left), second = take(odd(a, e), value, left);
    const Lanes third = take(even(c, d), value, left), fourth = take(odd(c, d), value, left);
    store_pairs(to_top, first, second);
    store_pairs(to_bottom, third, fourth);
  };
  const bool done = for_each_eight(
      count, [&](int64_t i) { eight(top + 2 * i, bottom + 2 * i, values + i, head + i, top_grad + 2 * i, bottom_grad + 2 * i); });
  if (done) return;
  float row[6][2 * kLanes] = {};  // beside the memory
  const auto singles = static_cast<size_t>(count) * sizeof(float);
  memcpy(row[0], top, 2 * singles);
  memcpy(row[1], bottom, 2 * singles);
  memcpy(row[2], values, singles);
  memcpy(row[3], head, singles);
  eight(row[0], row[1], row[2], row[3], row[4], row[5]);
  memcpy(top_grad, row[4], 2 * singles);
  memcpy(bottom_grad, row[5], 2 * singles);
}

}  // namespace

extern const PoolTable kPoolTable;
const PoolTable kPoolTable = {pool<true>, pool<false>, max_grad, max_of_squares, max_of_squares_grad};

}  // namespace gluino::kernels::GLUINO_ISA
