// What softmax, layer norm and their gradients do to a row, each written once. `Rows` says what is done with the formulas: EagerRows
// (rows_impl.h) runs loops over arrays, RecordedRows (row_sweeps.cc) notes them down for the compiler.
//   rows.sum(f), rows.largest(f): of f(at) over the places of the row, where at(x) is the element of x at the place;
//   rows.each(f): f(at, put, add) for every place; put(x, value) gives x an element, add(x, value) adds to one;
//   rows.count(): how many places there are; rows.exp(x), rows.sqrt(x); rows.wide_log(x): the logarithm, computed in double.
#pragma once

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <class N>
struct Moments {
  N mean, variance;
};

// `exps` is memory that may be `out`; both may be x.
template <class Rows, class In, class Out>
inline void softmax_of(const Rows& rows, In x, Out exps, Out out) {
  const auto largest = rows.largest([&](auto&& at) { return at(x); });
  rows.each([&](auto&& at, auto&& put, auto&&) { put(exps, rows.exp(at(x) - largest)); });
  const auto factor = 1 / rows.sum([&](auto&& at) { return at(exps); });
  rows.each([&](auto&& at, auto&& put, auto&&) { put(out, at(exps) * factor); });
}
// `exps` is memory of its own.
template <class Rows, class In, class Out>
inline void log_softmax_of(const Rows& rows, In x, Out exps, Out out) {
  const auto largest = rows.largest([&](auto&& at) { return at(x); });
  rows.each([&](auto&& at, auto&& put, auto&&) { put(exps, rows.exp(at(x) - largest)); });
  const auto offset = rows.wide_log(rows.sum([&](auto&& at) { return at(exps); }));
  rows.each([&](auto&& at, auto&& put, auto&&) { put(out, at(x) - largest - offset); });
}

template <class Rows, class In, class Out, class N>
inline void softmax_grad_of(const Rows& rows, In head, In y, N scale, Out out) {
  const auto sum = rows.sum([&](auto&& at) { return at(head) * at(y); });
  rows.each([&](auto&& at, auto&& put, auto&&) { put(out, scale * at(y) * (at(head) - sum)); });
}
template <class Rows, class In, class Out, class N>
inline void log_softmax_grad_of(const Rows& rows, In head, In y, N scale, Out out) {
  const auto sum = rows.sum([&](auto&& at) { return at(head); });
  rows.each([&](auto&& at, auto&& put, auto&&) { put(out, scale * (at(head) - rows.exp(at(y)) * sum)); });
}

template <class Rows, class In>
inline auto moments_of(const Rows& rows, In x) {
  const auto mean = rows.sum([&](auto&& at) { return at(x); }) / rows.count();
  const auto squares = rows.sum([&](auto&& at) { return (at(x) - mean) * (at(x) - mean); });
  return Moments<decltype(mean / mean)>{mean, squares / rows.count()};
}
// Gives mean and standard deviation, too: the root of variance + eps.
template <class Rows, class In, class Out, class N>
inline void layer_norm_of(const Rows& rows, In x, N eps, In gamma, In beta, Out out, N& mean_given, N& deviation_given) {
  const auto [mean, variance] = moments_of(rows, x);
  const auto deviation = rows.sqrt(variance + eps), factor = 1 / deviation;
  mean_given = mean;
  deviation_given = deviation;
  rows.each([&, mean = mean](auto&& at, auto&& put, auto&&) { put(out, (at(x) - mean) * factor * at(gamma) + at(beta)); });
}
// With y = (x - mean) * factor and h = head * gamma: (h - mean(h) - y * mean(h * y)) * factor. out may be head or x.
template <class Rows, class In, class Out, class N>
inline void layer_norm_grad_of(const Rows& rows, In head, In x, In gamma, N mean, N deviation, Out out, Out gamma_sum, Out beta_sum) {
  const auto factor = 1 / deviation;
  const auto offset = rows.sum([&](auto&& at) { return at(head) * at(gamma); }) / rows.count();
  const auto slope = rows.sum([&](auto&& at) { return at(head) * at(gamma) * ((at(x) - mean) * factor); }) / rows.count();
  rows.each([&](auto&& at, auto&& put, auto&& add) {
    const auto up = at(head), y = (at(x) - mean) * factor;
    put(out, (up * at(gamma) - offset - y * slope) * factor);
    add(gamma_sum, up * y);
    add(beta_sum, up);
  });
}

}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA
