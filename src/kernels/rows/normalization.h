// Batch normalization over channels, and normalization of rows (layer, group and instance normalization).
// All sums run in an order that does not depend on the number of threads.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// A tensor seen as (outer, channels, inner).
struct ChannelLayout {
  int64_t outer, channels, inner;
};

// Mean and biased variance of each channel.
template <class T>
void channel_moments(const ChannelLayout& l, const T* x, T* mean, T* var);
// out = (x - mean) * scale + shift, per channel.
template <class T>
void channel_affine(const ChannelLayout& l, const T* x, const T* mean, const T* scale, const T* shift, T* out);
// head_sum = sum(head), head_x_sum = sum(head * (x - mean) * rstd), per channel.
template <class T>
void channel_head_sums(const ChannelLayout& l, const T* head, const T* x, const T* mean, const T* rstd, T* head_sum, T* head_x_sum);
// out = scale * (head - a - (x - mean) * rstd * b), per channel.
template <class T>
void channel_grad(const ChannelLayout& l, const T* head, const T* x, const T* mean, const T* rstd, const T* scale, const T* a, const T* b,
                  T* out);

// Rows of `extent` elements with a step; gamma and beta have one number per element of a row (layer normalization).
struct RowLayout {
  int64_t outer, extent, inner;
  int64_t rows() const { return outer * inner; }
  int64_t base(int64_t row) const { return row / inner * extent * inner + row % inner; }
};
// Gives the mean and the standard deviation of each row: the root of variance + eps.
template <class T>
void layer_norm(const RowLayout& l, const T* x, const T* gamma, const T* beta, T eps, T* out, T* mean, T* std);
// dx may be head or x.
template <class T>
void layer_norm_grad(const RowLayout& l, const T* head, const T* x, const T* gamma, const T* mean, const T* std, T* dx, T* dgamma,
                     T* dbeta);

// (batch, groups, segments, segment): a row is one group, gamma and beta have one number per (group, segment).
struct GroupLayout {
  int64_t batch, groups, segments, segment;
  int64_t extent() const { return segments * segment; }
};
template <class T>
void group_norm(const GroupLayout& l, const T* x, const T* gamma, const T* beta, T eps, T* out, T* mean, T* std);
template <class T>
void group_norm_grad(const GroupLayout& l, const T* head, const T* x, const T* gamma, const T* mean, const T* std, T* dx, T* dgamma,
                     T* dbeta);

}  // namespace gluino::kernels
