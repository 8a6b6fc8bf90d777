// What batch normalization does to one element, or to a vector of them. For files that are compiled once per instruction set, too:
// everything here belongs to the file that includes it.
#pragma once

namespace gluino::kernels {
namespace {

template <class V, class T>
[[gnu::always_inline]] inline V normalised(V x, T mean, T rstd) {
  return (x - mean) * rstd;
}
template <class V, class T>
[[gnu::always_inline]] inline V affine_of(V x, T mean, T scale, T shift) {
  return normalised(x, mean, scale) + shift;
}
// `a` and `b` are the means of the head and of head * normalised(x).
template <class V, class T>
[[gnu::always_inline]] inline V grad_of(V head, V x, T mean, T rstd, T scale, T a, T b) {
  return scale * (head - a - normalised(x, mean, rstd) * b);
}

}  // namespace
}  // namespace gluino::kernels
