// If, Loop, Scan: the bodies run through the same rules, as branches and loops of Gluino.
#include <algorithm>

#include "base/format.h"
#include "control_flow/body.h"
#include "gluino/control_flow.h"
#include "graph/trace.h"
#include "onnx/program.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

Tensors tensors_of(Values values) {
  Tensors tensors;
  for (Value& v : values) tensors.push_back(tensor_of(v));
  return tensors;
}
Values values_of(const Tensors& tensors) {
  Values values;
  for (const Tensor& t : tensors) values.push_back(Value::computed(t));
  return values;
}

const GraphData& body_of(Call& c, const char* name) {
  const Attribute& a = c.attribute(name);
  if (!a.graph) raise<AttrError>("attribute '{}' is no graph", name);
  return *a.graph;
}

// The condition is looked at: the branches may differ in shapes, which no single program of both could have. Only within the body of a
// loop, which is one program, nothing can be looked at.
Tensors branch(Call& c) {
  const auto run = [&](bool condition) { return tensors_of(c.scope().run(body_of(c, condition ? "then_branch" : "else_branch"), {})); };
  bool condition = false;
  try {
    condition = c.number(0) != 0;
  } catch (const BodyReadsValue&) {
    return cond(
        c.in(0), [&] { return run(true); }, [&] { return run(false); });
  }
  return run(condition);
}

Tensor stacked(const Tensors& parts) { return stack(parts, {.axis = 0}); }

Tensors loop(Call& c) {
  const GraphData& body = body_of(c, "body");
  const int64_t most = c.has(0) ? c.whole_number(0) : INT64_MAX;
  bool goes_on = !c.has(1) || c.number(1) != 0;
  Values carried;
  for (int i = 2; i < c.num_inputs(); ++i) carried.push_back(c.value(i));
  const size_t states = carried.size();
  if (body.outputs.size() < states + 1)
    raise<UserError>("the body gives {} results, at least {} are needed", body.outputs.size(), states + 1);
  std::vector<Tensors> collected(body.outputs.size() - states - 1);
  for (int64_t step = 0; step < most && goes_on; ++step) {
    Values inputs;
    {
      const PauseTracing pause;  // constants are values, not nodes of a trace
      inputs = {Value::constant(from_vector(std::vector<int64_t>{step}, Shape{})), Value::constant(full({}, 1, {.dtype = DType::boolean}))};
    }
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Values results = c.scope().run(body, std::move(inputs));
    // A condition that only hands on its input says nothing.
    goes_on = numbers_of(results[0]).at(0) != 0;
    carried.assign(results.begin() + 1, results.begin() + 1 + static_cast<long>(states));
    for (size_t i = 0; i < collected.size(); ++i) collected[i].push_back(tensor_of(results[i + 1 + states]));
  }
  Tensors outputs = tensors_of(carried);
  for (const Tensors& parts : collected) {
    if (parts.empty()) raise<UserError>("the loop made no step: the shape of what it collects is not known");
    outputs.push_back(stacked(parts));
  }
  return outputs;
}

// Axes other than the first are brought there and back.
Tensor axis_first(const Tensor& t, int axis) {
  Shape order{axis};
  for (int i = 0; i < t.ndim(); ++i)
    if (i != axis) order.push_back(i);
  return axis == 0 ? t : transpose(t, {.axes = order});
}
Tensor axis_back(const Tensor& t, int axis) {
  Shape order;
  for (int i = 1; i < t.ndim(); ++i) order.push_back(i);
  order.insert(axis, 0);
  return axis == 0 ? t : transpose(t, {.axes = order});
}

Tensors scan(Call& c) {
  const GraphData& body = body_of(c, "body");
  const auto sequences = static_cast<int>(c.integer("num_scan_inputs", 1));
  // Operator set 8 has lengths first and a batch axis around all.
  const bool batched = c.version() < 9;
  const int begin = batched ? 1 : 0, states = c.num_inputs() - begin - sequences;
  if (states < 0 || sequences < 1) raise<UserError>("{} inputs are too few for {} sequences", c.num_inputs(), sequences);
  if (batched && c.has(0)) c.refuse("sequence lengths of Scan's operator set 8 are not supported");
  const auto choice = [&](const char* name, size_t i) {
    const std::vector<int64_t> all = c.integers(name);
    return i < all.size() ? all[i] : 0;
  };
  const auto run = [&](const Tensors& initial, const Tensors& data) -> Tensors {
    const ForeachBody step = [&](const Tensors& slices, const Tensors& now) -> TensorsPair {
      Tensors inputs = now;
      inputs.insert(inputs.end(), slices.begin(), slices.end());
      const Tensors results = tensors_of(c.scope().run(body, values_of(inputs)));
      return {Tensors(results.begin() + states, results.end()), Tensors(results.begin(), results.begin() + states)};
    };
    auto [outputs, final_states] = foreach (step, data, initial);
    final_states.insert(final_states.end(), outputs.begin(), outputs.end());
    return final_states;
  };
  Tensors initial, data;
  for (int i = 0; i < states; ++i) initial.push_back(c.in(begin + i));
  for (int i = 0; i < sequences; ++i) {
    Tensor t = c.in(begin + states + i);
    if (!batched) t = axis_first(t, c.axis(choice("scan_input_axes", static_cast<size_t>(i)), t.ndim()));
    const bool backwards = choice(batched ? "directions" : "scan_input_directions", static_cast<size_t>(i)) != 0;
    data.push_back(backwards ? flip(t, {.axis = Shape{batched ? 1 : 0}}) : t);
  }
  if (batched) {
    std::vector<Tensors> all;
    for (int64_t b = 0; b < data[0].extent(0); ++b) {
      const auto one = [&](const Tensors& from) {
        Tensors out;
        for (const Tensor& t : from)
          out.push_back(squeeze(slice_axis(t, {.axis = 0, .begin = b, .end = std::optional<int64_t>(b + 1)}), {.axis = Shape{0}}));
        return out;
      };
      all.push_back(run(one(initial), one(data)));
    }
    Tensors outputs;
    for (size_t k = 0; k < all.at(0).size(); ++k) {
      Tensors parts;
      for (const Tensors& t : all) parts.push_back(t[k]);
      outputs.push_back(stacked(parts));
    }
    return outputs;
  }
  Tensors outputs = run(initial, data);
  for (size_t i = static_cast<size_t>(states); i < outputs.size(); ++i) {
    const size_t k = i - static_cast<size_t>(states);
    if (choice("scan_output_directions", k) != 0) outputs[i] = flip(outputs[i], {.axis = Shape{0}});
    outputs[i] = axis_back(outputs[i], c.axis(choice("scan_output_axes", k), outputs[i].ndim()));
  }
  return outputs;
}

}  // namespace

void add_control_flow_rules(Rules& rules) {
  rules.add("If", branch);
  rules.add("Loop", loop);
  rules.add("Scan", scan);
}

}  // namespace gluino::onnx
