// Self-exciting point processes (Hawkes, 1971) with exponential decay.
#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

Tensor column(const Tensor& x, int64_t i) { return slice_of(x, 1, i, i + 1); }
Tensor times(const Tensor& a, const Tensor& b) { return call("broadcast_mul", {a, b}); }
Tensor plus(const Tensor& a, const Tensor& b) { return call("broadcast_add", {a, b}); }
Tensor decayed(const Tensor& beta, const Tensor& time) { return call("exp", {-times(beta, time)}); }

// What flows since the last event of each mark: the integral of its intensity over `time`.
Tensor compensator(const Tensor& mu, const Tensor& alpha, const Tensor& state, const Tensor& decay, const Tensor& time) {
  return times(mu, time) + times(alpha, state * (1 - decay));
}

// All tensors are (sequences, marks); time since the last event of a mark is part of the state.
Tensors log_likelihood(std::span<const Tensor> in) {
  const Tensor &mu = in[0], &alpha = in[1], &beta = in[2], &lags = in[4], &marks = in[5];
  if (mu.ndim() != 2) raise<ShapeError>("lda has shape {}, but (sequences, marks) is needed", mu.shape());
  const int64_t sequences = mu.extent(0), kinds = mu.extent(1);
  for (const Tensor& t : {alpha, beta}) check_same_shape("alpha or beta", t.shape(), {kinds});
  check_same_shape("state", in[3].shape(), mu.shape());
  if (lags.ndim() != 2 || lags.extent(0) != sequences)
    raise<ShapeError>("lags have shape {}, but ({}, events) is needed", lags.shape(), sequences);
  check_same_shape("marks", marks.shape(), lags.shape());
  const Tensor length = reshaped(as_dtype(in[6], mu.dtype()), {sequences, 1}), end = reshaped(as_dtype(in[7], mu.dtype()), {sequences, 1});

  Tensor state = in[3], since = call("zeros_like", {mu}), now = call("zeros_like", {length}), sum = call("zeros_like", {length});
  for (int64_t event = 0; event < lags.extent(1); ++event) {
    const Tensor counts = as_dtype(length > static_cast<double>(event), mu.dtype());
    const Tensor is_mark =
        times(call("one_hot", {reshaped(column(marks, event), {-1})}, {{"depth", kinds}, {"dtype", mu.dtype()}}), counts);
    const Tensor lag = column(lags, event) * counts;
    now = now + lag;
    since = plus(since, lag);
    const Tensor decay = decayed(beta, since);
    const Tensor intensity = mu + times(alpha * beta, state * decay);
    // The logarithm is taken of this mark's intensity alone; the others contribute log 1.
    const Tensor gained = call("log", {intensity * is_mark + (1 - is_mark)}) - is_mark * compensator(mu, alpha, state, decay, since);
    sum = sum + call("sum", {gained}, {{"axis", Shape{1}}, {"keepdims", true}});
    state = is_mark * (1 + state * decay) + (1 - is_mark) * state;
    since = since * (1 - is_mark);
  }
  const Tensor left = plus(since, end - now), decay = decayed(beta, left);
  sum = sum - call("sum", {compensator(mu, alpha, state, decay, left)}, {{"axis", Shape{1}}, {"keepdims", true}});
  return {reshaped(sum, {sequences}), state * decay};
}

GLUINO_OP(_contrib_hawkesll, NoAttrs) {
  op.doc("The log likelihood of sequences of marked events up to a time, and the state then: how much each mark is still excited.");
  op.input("lda").input("alpha").input("beta").input("state").input("lags").input("marks").own_dtype().input("valid_length").own_dtype();
  composed(op.input("max_time").own_dtype().outputs({"loglike", "out_state"}),
           [](const NoAttrs&, std::span<const Tensor> in) { return log_likelihood(in); })
      .sample({uniform_sample({2, 3}, 0.5, 1), uniform_sample({3}, 0.2, 0.5), uniform_sample({3}, 1, 2), uniform_sample({2, 3}, 0, 1),
               uniform_sample({2, 4}, 0.1, 1), index_sample({2, 4}, 3), index_sample({2}, 5), uniform_sample({2}, 8, 9)});
}

}  // namespace
}  // namespace gluino::ops
