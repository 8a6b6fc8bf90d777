// Programs with control flow, run eagerly, hybridized, and loaded from a file, with their gradients.
#pragma once
#include <functional>

#include "gluino/autograd.h"
#include "gluino/hybrid.h"
#include "gluino/ops.h"
#include "support/support.h"

namespace gluino::test {

using Program = std::function<Tensors(const Tensors&)>;

struct Results {
  Tensors outputs, gradients;
};

// Outputs, and gradients of sum(weights * outputs) with respect to the inputs and to `parameters`.
inline Results run_with_gradients(const Program& program, Tensors inputs, Tensors parameters) {
  Tensors leaves;
  for (Tensor& t : inputs) {
    t = t.copy();
    t.attach_grad();
    leaves.push_back(t);
  }
  for (Tensor& t : parameters) {
    t.attach_grad();
    leaves.push_back(t);
  }
  Results r;
  {
    const auto record = autograd::record();
    r.outputs = program(inputs);
  }
  Tensors heads, head_grads;
  for (size_t i = 0; i < r.outputs.size(); ++i) {
    heads.push_back(r.outputs[i]);
    head_grads.push_back(random_tensor(r.outputs[i].shape(), r.outputs[i].dtype(), 100 + i));
  }
  autograd::backward(heads, head_grads);
  for (const Tensor& t : leaves) r.gradients.push_back(t.grad().copy());
  return r;
}

inline void expect_same(const Results& got, const Results& want, const char* what) {
  ASSERT_EQ(got.outputs.size(), want.outputs.size()) << what;
  for (size_t i = 0; i < want.outputs.size(); ++i) EXPECT_TRUE(close(got.outputs[i], want.outputs[i])) << what << ", output " << i;
  for (size_t i = 0; i < want.gradients.size(); ++i) EXPECT_TRUE(close(got.gradients[i], want.gradients[i])) << what << ", gradient " << i;
}

// The traced program written as JSON, read back, and run operator by operator.
inline Program reloaded(const HybridCache& cache, const Tensors& inputs) {
  const Symbol loaded = Symbol::from_json(cache.symbol().to_json());
  EXPECT_EQ(loaded.to_json(), cache.symbol().to_json());
  return [loaded, &cache, count = inputs.size()](const Tensors& in) {
    TensorMap map;
    for (const std::string& name : loaded.list_inputs()) {
      const bool is_input = name.starts_with("data");
      map[name] = is_input ? in[count == 1 ? 0 : std::stoul(name.substr(4))] : cache.captured(name);
    }
    return loaded.eval(map);
  };
}

// Eager, hybridized and loaded from a file, forward and backward.
inline void expect_same_everywhere(const Program& program, const Tensors& inputs, const Tensors& parameters = {}) {
  const Results eager = run_with_gradients(program, inputs, parameters);
  const auto f = hybrid(program);
  expect_same(run_with_gradients(f, inputs, parameters), eager, "traced");
  expect_same(run_with_gradients(f, inputs, parameters), eager, "cached");
  EXPECT_EQ(f.cache().stats().traces, 1);
  expect_same(run_with_gradients(reloaded(f.cache(), inputs), inputs, parameters), eager, "loaded");
}

inline Tensor input(const Shape& shape, uint64_t seed) { return random_tensor(shape, DType::float64, seed); }

}  // namespace gluino::test
