// autograd::Function in traced programs: its forward is traced as it is, off the tape; its backward becomes the body of one operator
// that passes the results on.
#include "autograd/tape.h"
#include "base/format.h"
#include "control_flow/loop_support.h"
#include "dispatch/own_gradient.h"
#include "dispatch/untraceable.h"

namespace gluino::loops {
namespace {

// Inputs of the operator: results of forward, inputs of the function, other values that backward reads.
struct CustomGradientAttrs {
  int64_t num_outputs = 0, num_inputs = 0;
  OptionalInts head_locs, rest_locs;  // which input of the body the head gradients and the other values are
  OptionalInts gradient_locs;         // which output of the body is the gradient of each input; None: it has none
  Bodies bodies;                      // one, where any input has a gradient
  static void fields(AttrFields<CustomGradientAttrs>& f) {
    f.required("num_outputs", &CustomGradientAttrs::num_outputs, "number of results")
        .required("num_inputs", &CustomGradientAttrs::num_inputs, "number of inputs of the function")
        .required("head_locs", &CustomGradientAttrs::head_locs, "which inputs of the body the head gradients are")
        .required("rest_locs", &CustomGradientAttrs::rest_locs, "which inputs of the body the other values are")
        .required("gradient_locs", &CustomGradientAttrs::gradient_locs, "which output of the body is the gradient of each input");
  }
};

void check(const CustomGradientAttrs& a, size_t num_inputs) {
  need(a.num_outputs >= 1 && a.num_inputs >= 0 && a.num_outputs <= kMaxOutputs && a.num_inputs <= kMaxOutputs, "counts out of range");
  need(num_inputs == static_cast<size_t>(a.num_outputs + a.num_inputs) + a.rest_locs.size(),
       fmt::format("{} inputs are given for {} results, {} inputs and {} others", num_inputs, a.num_outputs, a.num_inputs,
                   a.rest_locs.size()));
  need(a.head_locs.size() == static_cast<size_t>(a.num_outputs) && a.gradient_locs.size() == static_cast<size_t>(a.num_inputs),
       "one place is needed for every head and every gradient");
  need(a.bodies.size() <= 1, "at most one body is possible");
  const size_t inputs = a.bodies.size() ? static_cast<size_t>(a.bodies[0].num_inputs()) : 0;
  check_places(a.head_locs, inputs, "head_locs");
  check_places(a.rest_locs, inputs, "rest_locs");
  check_places(a.gradient_locs, a.bodies.size() ? static_cast<size_t>(a.bodies[0].num_outputs()) : 0, "gradient_locs");
}

Tensors custom_gradients(const CustomGradientAttrs& a, const Gradient& g) {
  check(a, static_cast<size_t>(g.num_inputs()));
  Tensors result(static_cast<size_t>(g.num_inputs()));
  if (a.bodies.size() == 0) return result;
  Tensors in(a.bodies[0].num_inputs());
  for (size_t i = 0; i < a.head_locs.size(); ++i)
    if (a.head_locs[i]) in[*a.head_locs[i]] = g.head(static_cast<int>(i));
  const auto rest = static_cast<int>(a.num_outputs + a.num_inputs);
  for (size_t i = 0; i < a.rest_locs.size(); ++i)
    if (a.rest_locs[i]) in[*a.rest_locs[i]] = g.in(rest + static_cast<int>(i));
  const Tensors out = Body::Runner(a.bodies[0], in)(in);
  for (size_t i = 0; i < a.gradient_locs.size(); ++i)
    if (a.gradient_locs[i]) result[a.num_outputs + static_cast<int64_t>(i)] = out[*a.gradient_locs[i]];
  return result;
}

GLUINO_OP(_custom_gradient, CustomGradientAttrs) {
  op.doc("Results that a user's function computed, with the gradient that it defines.")
      .variadic("data")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .subgraphs(&CustomGradientAttrs::bodies)
      .num_outputs([](const CustomGradientAttrs& a) { return std::clamp<int64_t>(a.num_outputs, 1, kMaxOutputs); })
      .shape([](const CustomGradientAttrs& a, std::span<const Shape> in) {
        check(a, in.size());
        return std::vector<Shape>(in.begin(), in.begin() + a.num_outputs);
      })
      .dtype([](const CustomGradientAttrs& a, std::span<const DType> in, DType) {
        check(a, in.size());
        return std::vector<DType>(in.begin(), in.begin() + a.num_outputs);
      })
      .kernel([](const CustomGradientAttrs&, KernelContext& k) {
        for (int i = 0; i < k.num_outputs(); ++i) copy_into(k.in(i), k.out(i));
      })
      .gradient({.all_inputs = true}, custom_gradients);
  gives_own_gradient("_custom_gradient");
}

// A backward that reads values or fails belongs to a call that runs as it is: it fails in the backward pass, if there is one.
RecordedBody traced_backward(const std::function<RecordedBody()>& record) {
  try {
    return record();
  } catch (const Untraceable&) {
    throw;
  } catch (const std::exception& e) {
    if (Tracer* tracer = Tracer::current()) tracer->refuse(fmt::format("backward of an autograd::Function cannot be traced: {}", e.what()));
    throw;
  }
}

Tensors traced_call(const std::shared_ptr<autograd::Function>& function, const Tensors& inputs) {
  Tensors results;
  {
    const autograd::Scope paused(false, std::nullopt);
    results = function->forward(inputs);
  }
  autograd::check_results(results);
  if (!mode().recording) {  // what the function gives is its own, also where it is an input, or kept
    for (Tensor& t : results) t = call("_copy", {t});
    return results;
  }
  auto attrs = std::make_shared<CustomGradientAttrs>();
  attrs->num_outputs = static_cast<int64_t>(results.size());
  attrs->num_inputs = static_cast<int64_t>(inputs.size());
  std::vector<BodyInput> heads;
  for (size_t i = 0; i < results.size(); ++i) heads.push_back({.name = fmt::format("head{}", i), .like = results[i], .is_own = true});
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(impl_of(t).shape);
  int64_t given = 0;
  const RecordedBody body = traced_backward([&] {
    return record_body("backward of a user's Function", heads, [&](const Tensors& h) {
      Tensors present;
      for (const Tensor& t : autograd::checked_gradients(function->backward(h), shapes)) {
        attrs->gradient_locs.push_back(t.defined() ? std::optional(given++) : std::nullopt);
        if (t.defined()) present.push_back(t);
      }
      return present;
    });
  });
  Tensors all = results;
  all.insert(all.end(), inputs.begin(), inputs.end());
  attrs->head_locs.resize(results.size());
  if (given > 0) {
    attrs->head_locs = body.inputs;
    attrs->bodies = Bodies({body.symbol});
    all.insert(all.end(), body.free.begin(), body.free.end());
    for (int64_t place : body.free_places) attrs->rest_locs.push_back(place);
  }
  return apply(OpRegistry::global().get("_custom_gradient"), all, attrs);
}
const bool installed = (autograd::install_traced_function(traced_call), true);

}  // namespace
}  // namespace gluino::loops
