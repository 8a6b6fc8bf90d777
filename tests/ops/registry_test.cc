// Walks the registry: every operator x sample x dtype. Nothing here names an operator.
#include <cmath>

#include "dispatch/infer.h"
#include "gluino/autograd.h"
#include "gluino/random.h"
#include "gluino/symbol.h"
#include "support/support.h"

namespace gluino::test {
namespace {

std::vector<const OpDef*> all_operators() {
  std::vector<const OpDef*> ops;
  for (const auto& op : OpRegistry::global().all()) ops.push_back(op.get());
  return ops;
}
class Operator : public ::testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }
  // Every sample with the text that says which one failed.
  template <class F>
  void for_samples(F&& f) {
    for (size_t i = 0; i < op().samples.size(); ++i) {
      SCOPED_TRACE("operator " + op().name + ", sample " + std::to_string(i));
      f(op().samples[i], 1000 * i + 17);
    }
  }
};

Tensors copies(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& t : tensors) out.push_back(t.copy());
  return out;
}

TEST_P(Operator, GivesWhatItsRulesDeclare) {
  for_samples([&](const Sample& sample, uint64_t seed) {
    for (DType dtype : kAllDTypes) {
      if (!accepts(op(), dtype)) continue;
      SCOPED_TRACE(dtype_name(dtype));
      const Tensors inputs = sample_inputs(op(), sample, dtype, seed);
      for (bool training : {false, true}) {
        if (training && !op().is_mode_dependent) continue;
        const autograd::Scope scope(false, training);
        const Tensors outputs = apply(op(), inputs, sample.attrs);
        std::vector<DType> types, out_types;
        std::vector<Shape> shapes, out_shapes;
        for (const Tensor& t : inputs) {
          types.push_back(t.dtype());
          shapes.push_back(t.shape());
        }
        infer_dtypes(op(), sample.attrs, types, out_types);
        ASSERT_EQ(outputs.size(), static_cast<size_t>(op().num_outputs(sample.attrs)));
        for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i].dtype(), out_types[i]) << "output " << i;
        if (op().is_dynamic_shape) continue;
        infer_shapes(op(), sample.attrs, shapes, out_shapes);
        for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i].shape().str(), out_shapes[i].str()) << "output " << i;
      }
    }
  });
}

// The same kernels run in both ways, so the results have the same bits. Random operators draw from the same seed.
TEST_P(Operator, EagerIsTheSameAsThroughASymbol) {
  for_samples([&](const Sample& sample, uint64_t seed_value) {
    for (DType dtype : {DType::float32, DType::float64, DType::int32}) {
      if (!accepts(op(), dtype)) continue;
      SCOPED_TRACE(dtype_name(dtype));
      for (bool training : {false, true}) {
        if (training && !op().is_mode_dependent) continue;
        const autograd::Scope scope(false, training);
        const Tensors inputs = sample_inputs(op(), sample, dtype, seed_value);
        Tensors eager_inputs = copies(inputs);
        TensorMap named;
        std::vector<Symbol> variables;
        for (size_t i = 0; i < inputs.size(); ++i) {
          variables.push_back(sym::var("v" + std::to_string(i)));
          named.emplace("v" + std::to_string(i), inputs[i]);
        }
        seed(11);
        const Tensors want = apply(op(), eager_inputs, sample.attrs);
        seed(11);
        const Symbol symbol = sym::apply(op().name, variables, op().print_attrs(sample.attrs));
        const Tensors got = symbol.eval(named);
        ASSERT_EQ(got.size(), static_cast<size_t>(op().num_visible_outputs(sample.attrs)));
        for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << "output " << i;
        for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(same_bits(inputs[i], eager_inputs[i])) << "input or state " << i;
      }
    }
  });
}

TEST_P(Operator, GivesNearlyTheSameInEveryFloatingDType) {
  for_samples([&](const Sample& sample, uint64_t seed) {
    if (op().draws_random(sample.attrs)) return;
    // Values that float16 holds exactly, so that only the arithmetic differs.
    const Tensors half = sample_inputs(op(), sample, DType::float16, seed);
    Tensors exact;
    for (size_t i = 0; i < half.size(); ++i) exact.push_back(half[i].dtype() == DType::float16 ? half[i].astype(DType::float64) : half[i]);
    const Tensors want = apply(op(), copies(exact), sample.attrs);
    const Tensors got = apply(op(), copies(half), sample.attrs);
    for (size_t i = 0; i < static_cast<size_t>(op().num_visible_outputs(sample.attrs)); ++i)
      if (got[i].dtype() == DType::float16) {
        EXPECT_TRUE(close(got[i], want[i], 2e-2, 2e-2)) << "output " << i;
      }
  });
}

// d(sum of weights * outputs) / d(input i) by central differences, in float64.
class NumericGradient {
 public:
  NumericGradient(const OpDef& op, const Sample& sample, uint64_t seed)
      : op_(op), sample_(sample), inputs_(sample_inputs(op, sample, DType::float64, seed)) {
    const Tensors outputs = run(inputs_);
    for (size_t i = 0; i < static_cast<size_t>(op.num_visible_outputs(sample.attrs)); ++i)
      weights_.push_back(random_tensor(outputs[i].shape(), DType::float64, seed + 31 * i));
  }
  bool applies() const { return op_.not_differentiable.empty() && sample_.numeric_gradient && !op_.draws_random(sample_.attrs); }
  const Tensors& inputs() const { return inputs_; }
  const Tensors& weights() const { return weights_; }
  Tensors run(const Tensors& inputs) const { return apply(op_, copies(inputs), sample_.attrs); }
  double loss(const Tensors& inputs) const {
    double total = 0;
    const Tensors outputs = run(inputs);
    for (size_t k = 0; k < weights_.size(); ++k) {
      const std::vector<double> y = outputs[k].to_vector<double>(), w = weights_[k].to_vector<double>();
      for (size_t j = 0; j < y.size(); ++j) total += y[j] * w[j];
    }
    return total;
  }
  Tensor of_input(size_t i, double h) const {
    Tensor gradient = zeros(inputs_[i].shape(), {DType::float64});
    for (int64_t j = 0; j < gradient.size(); ++j) {
      Tensors up = copies(inputs_), down = copies(inputs_);
      up[i].mutable_data<double>()[j] += h;
      down[i].mutable_data<double>()[j] -= h;
      gradient.mutable_data<double>()[j] = (loss(up) - loss(down)) / (2 * h);
    }
    return gradient;
  }

 private:
  const OpDef& op_;
  const Sample& sample_;
  Tensors inputs_, weights_;
};

TEST_P(Operator, GradientIsTheNumericOne) {
  for_samples([&](const Sample& sample, uint64_t seed) {
    for (bool training : {true, false}) {
      if (!training && !op().is_mode_dependent) continue;
      const autograd::Scope scope(false, training);
      const NumericGradient numeric(op(), sample, seed);
      if (!numeric.applies()) return;
      if (std::none_of(numeric.inputs().begin(), numeric.inputs().end(), [](const Tensor& t) { return t.dtype() == DType::float64; }))
        return;
      Tensors inputs = copies(numeric.inputs());
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].dtype() == DType::float64) inputs[i].attach_grad();
      Tensors outputs;
      {
        const auto record = autograd::record(training);
        outputs = apply(op(), inputs, sample.attrs);
      }
      outputs.resize(numeric.weights().size());
      autograd::backward(outputs, numeric.weights(), {.train_mode = training});
      for (size_t i = 0; i < inputs.size(); ++i) {
        const InputSpec& spec = op().input_spec(sample.attrs, i);
        if (spec.is_state || !inputs[i].grad().defined()) continue;
        EXPECT_TRUE(close(inputs[i].grad(), numeric.of_input(i, 1e-5), 1e-4, 1e-6))
            << "input " << i << (training ? ", training" : ", predicting");
      }
    }
  });
}

// What large gradients are made of is computed in one sweep, and written in its place, unless it shall be differentiated again.
TEST_P(Operator, LargeGradientsHaveTheBitsOfTheirParts) {
  if (!op().gradient || op().is_dynamic_shape) return;
  for_samples([&](const Sample& sample, uint64_t seed) {
    if (op().draws_random(sample.attrs)) return;
    Sample large = sample;
    int64_t longest = 0, elements = 1;
    for (const SampleInput& s : sample.inputs) {
      longest = std::max(longest, s.shape.empty() ? 0 : s.shape.back());
      elements = std::max(elements, s.shape.elements());
    }
    for (SampleInput& s : large.inputs)
      if (!s.shape.empty() && s.shape.back() == longest && longest > 1) s.shape[s.shape.ndim() - 1] = (4096 / elements + 1) * longest;
    for (DType dtype : {DType::float32, DType::float64, DType::float16}) {
      if (!accepts(op(), dtype)) continue;
      SCOPED_TRACE(dtype_name(dtype));
      Tensors inputs = sample_inputs(op(), large, dtype, seed), leaves, outputs;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (is_floating(inputs[i].dtype()) && !op().is_state_input(sample.attrs, i)) {
          inputs[i].attach_grad();
          leaves.push_back(inputs[i]);
        }
      if (leaves.empty()) return;
      try {
        const auto record = autograd::record();
        outputs = apply(op(), inputs, sample.attrs);
      } catch (const UserError&) {
        return;  // the attributes ask for the sample's own extents
      }
      outputs.resize(static_cast<size_t>(op().num_visible_outputs(sample.attrs)));
      std::erase_if(outputs, [](const Tensor& t) { return !is_floating(t.dtype()); });
      if (outputs.empty()) return;
      Tensors heads;
      for (size_t i = 0; i < outputs.size(); ++i) heads.push_back(random_tensor(outputs[i].shape(), outputs[i].dtype(), seed + i));
      const Tensors apart = autograd::grad(outputs, leaves, heads, {.retain_graph = true, .create_graph = true});
      autograd::backward(outputs, heads);
      for (size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(same_bits(leaves[i].grad(), apart[i])) << "input " << i;
    }
  });
}

TEST_P(Operator, TakesZeroSizeInputs) {
  for_samples([&](const Sample& sample, uint64_t seed) {
    if (sample.inputs.empty() || sample.inputs[0].shape.empty()) return;
    Sample empty = sample;
    const int64_t extent = sample.inputs[0].shape[0];
    for (SampleInput& s : empty.inputs)
      if (!s.shape.empty() && s.shape[0] == extent && s.shape.ndim() == sample.inputs[0].shape.ndim()) s.shape[0] = 0;
    const Tensors inputs = sample_inputs(op(), empty, DType::float32, seed);
    try {
      for (const Tensor& t : apply(op(), inputs, sample.attrs)) EXPECT_TRUE(t.defined());
    } catch (const UserError&) {
      // Some operators need at least one element (a maximum, for instance) and say so.
    }
  });
}

TEST_P(Operator, RefusesWrongNumbersOfInputsByName) {
  const Tensors many(20, ones({2, 3}));
  if (op().is_variadic) return;
  GLUINO_EXPECT_ERROR(UserError, op().name, apply(op(), many, op().samples[0].attrs));
}

TEST_P(Operator, AttributesRoundTripThroughText) {
  for_samples([&](const Sample& sample, uint64_t) {
    const StringMap text = op().print_attrs(sample.attrs, true);
    EXPECT_EQ(op().print_attrs(op().parse_attrs(text), true), text);
    EXPECT_EQ(op().print_attrs(op().parse_attrs(op().print_attrs(sample.attrs)), true), text);
  });
  if (op().has_subgraphs()) return;  // no samples: bodies are no text
  StringMap unknown = op().print_attrs(op().samples[0].attrs);
  unknown["no_such_attribute"] = "1";
  GLUINO_EXPECT_ERROR(AttrError, "no_such_attribute", op().parse_attrs(unknown));
}

TEST_P(Operator, EveryAliasResolves) {
  for (const std::string& alias : op().aliases) EXPECT_EQ(&OpRegistry::global().get(alias), &op());
}

INSTANTIATE_TEST_SUITE_P(Registry, Operator, ::testing::ValuesIn(all_operators()),
                         [](const ::testing::TestParamInfo<const OpDef*>& info) { return "op_" + info.param->name; });

}  // namespace
}  // namespace gluino::test
