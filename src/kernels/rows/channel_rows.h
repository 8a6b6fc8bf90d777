// What batch normalization does to one row of neighbouring elements of a channel, one table per instruction set.
#pragma once
#include <cstdint>

#include "kernels/rows/rows.h"

namespace gluino::kernels {

template <class T>
struct ChannelRows {
  T (*sum)(const T* x, int64_t n);
  T (*squares)(const T* x, int64_t n, T mean);  // sum((x - mean) ^ 2)
  // sum(head) and sum(head * (x - mean) * rstd)
  void (*head_sums)(const T* head, const T* x, int64_t n, T mean, T rstd, T* head_sum, T* head_x_sum);
  void (*affine)(const T* x, int64_t n, T mean, T scale, T shift, T* out);  // (x - mean) * scale + shift
  // scale * (head - a - (x - mean) * rstd * b)
  void (*grad)(const T* head, const T* x, int64_t n, T mean, T rstd, T scale, T a, T b, T* out);
};
struct ChannelTable {
  ChannelRows<float> f32;
  ChannelRows<double> f64;
};
const ChannelTable& channel_table();

template <class T>
const ChannelRows<T>& channel_rows() {
  return functions_for<T>(channel_table());
}

}  // namespace gluino::kernels
