// Normalizations.
#include <numeric>

#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

// (channels,) as it broadcasts over (batch, channels, ...).
Tensor per_channel(const Tensor& t, int rank) {
  Shape shape = Shape::filled(std::max(2, rank) - 1, 1);
  shape[0] = -1;
  return t.reshape(shape);
}

Tensors normalize_in_training(Call& c, double epsilon) {
  const Tensor x = c.in(0), scale = c.in(1), bias = c.in(2), mean_before = c.in(3), variance_before = c.in(4);
  const double momentum = c.number("momentum", 0.9);
  Shape axes{0};
  for (int i = 2; i < x.ndim(); ++i) axes.push_back(i);
  const Tensor centre = mean(x, {.axis = axes});
  const Tensor spread = mean(square(broadcast_sub(x, per_channel(centre, x.ndim()))), {.axis = axes});
  const Tensor normal = broadcast_mul(broadcast_sub(x, per_channel(centre, x.ndim())), per_channel(rsqrt(spread + epsilon), x.ndim()));
  const Tensor y = broadcast_add(broadcast_mul(normal, per_channel(scale, x.ndim())), per_channel(bias, x.ndim()));
  const auto kept = [&](const Tensor& before, const Tensor& now) { return before * momentum + now * (1 - momentum); };
  return {y.astype(x.dtype()), kept(mean_before, centre), kept(variance_before, spread)};
}

Tensors batch_normalize(Call& c) {
  const double epsilon = c.number("epsilon", 1e-5);
  if (c.integer("training_mode", 0) || c.wants(1)) return normalize_in_training(c, epsilon);
  const Tensor& x = c.in(0);
  if (x.ndim() >= 2)
    return {batch_norm(x, c.in(1), c.in(2), c.in(3), c.in(4), {.eps = epsilon, .momentum = c.number("momentum", 0.9), .fix_gamma = false})};
  return {(x - c.in(3)) * rsqrt(c.in(4) + epsilon) * c.in(1) + c.in(2)};
}

Tensors layer_normalize(Call& c) {
  const Tensor x = c.in(0);
  const int axis = c.axis(c.integer("axis", -1), x.ndim());
  const double epsilon = c.number("epsilon", 1e-5);
  if (axis == x.ndim() - 1 && c.num_outputs() == 1 && c.has(2) && c.rank(1) == 1 && c.rank(2) == 1)
    return {layer_norm(x, c.in(1), c.in(2), {.eps = epsilon})};
  Shape axes;
  for (int i = axis; i < x.ndim(); ++i) axes.push_back(i);
  const Tensor centre = mean(x, {.axis = axes, .keepdims = true});
  const Tensor centred = broadcast_sub(x, centre);
  const Tensor inverse = rsqrt(mean(square(centred), {.axis = axes, .keepdims = true}) + epsilon);
  Tensor y = broadcast_mul(broadcast_mul(centred, inverse), c.in(1));
  if (c.has(2)) y = broadcast_add(y, c.in(2));
  return {y, centre, inverse};
}

Tensor group_normalize(Call& c) {
  const Tensor x = c.in(0);
  const int64_t groups = c.integer("num_groups", 1), channels = x.extent(1);
  if (groups < 1 || channels % groups != 0) raise<AttrError>("{} channels cannot be put into {} groups", channels, groups);
  const double epsilon = c.number("epsilon", 1e-5);
  const Tensor grouped = x.reshape({0, groups, -1});
  const Tensor centred = broadcast_sub(grouped, mean(grouped, {.axis = Shape{2}, .keepdims = true}));
  const Tensor normal = broadcast_mul(centred, rsqrt(mean(square(centred), {.axis = Shape{2}, .keepdims = true}) + epsilon));
  const Tensor back = reshape_like(normal, x);
  // Until operator set 20 there is one scale per group.
  const auto wide = [&](const Tensor& t) {
    const bool per_group = t.extent(0) == groups && groups != channels;
    return per_channel(per_group ? repeat(t, {.repeats = static_cast<int>(channels / groups)}) : t, x.ndim());
  };
  return broadcast_add(broadcast_mul(back, wide(c.in(1))), wide(c.in(2)));
}

Tensor mean_variance_normalize(Call& c) {
  const Tensor x = c.in(0);
  std::vector<int64_t> axes = c.integers("axes");
  if (axes.empty()) axes = {0, 2, 3};
  const Shape over = to_shape(axes);
  const Tensor centred = broadcast_sub(x, mean(x, {.axis = over, .keepdims = true}));
  return broadcast_div(centred, sqrt(mean(square(centred), {.axis = over, .keepdims = true})) + 1e-9);
}

Tensor norm_normalize(Call& c) {
  const Tensor& x = c.in(0);
  const Shape axis{c.axis(c.integer("axis", -1), x.ndim())};
  const Tensor length =
      c.integer("p", 2) == 1 ? sum(abs(x), {.axis = axis, .keepdims = true}) : sqrt(sum(square(x), {.axis = axis, .keepdims = true}));
  return broadcast_div(x, length);
}

Tensor instance_normalize(Call& c) { return instance_norm(c.in(0), c.in(1), c.in(2), {.eps = c.number("epsilon", 1e-5)}); }

Tensor local_response(Call& c) {
  return lrn(
      c.in(0),
      {.nsize = c.integer("size", 1), .alpha = c.number("alpha", 0.0001), .beta = c.number("beta", 0.75), .knorm = c.number("bias", 1)});
}

}  // namespace

void add_normalization_rules(Rules& rules) {
  rules.add("BatchNormalization", batch_normalize);
  rules.add("LayerNormalization", layer_normalize);
  rules.add("GroupNormalization", group_normalize);
  rules.add("InstanceNormalization", instance_normalize);
  rules.add("MeanVarianceNormalization", mean_variance_normalize);
  rules.add("LpNormalization", norm_normalize);
  rules.add("LRN", local_response);
}

}  // namespace gluino::onnx
