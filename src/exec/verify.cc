// hybridize(verify): every call is made both ways from the same state, and all that a user could see is compared.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "dispatch/random.h"
#include "exec/hybrid_cache.h"
#include "gluino/autograd.h"
#include "graph/interpret.h"

namespace gluino {
namespace {

// How far two ways to compute the same may be apart. Eager code rounds what every operator gives; a program what a layer, or some layers
// that were joined, give, which tells where numbers are half wide.
class Tolerance {
 public:
  explicit Tolerance(const Graph& graph) {
    for (const auto& node : graph.nodes)
      for (const OutputInfo& o : node.outputs) unit_ = std::max(unit_, o.dtype ? unit_of(*o.dtype) : 0);
  }
  bool agree(const Tensor& a, const Tensor& b) const {
    if (!a.defined() || !b.defined()) return a.defined() == b.defined();
    if (a.dtype() != b.dtype()) return false;
    if (unit_ == 0 || !is_floating(a.dtype())) return all_close(a.detach(), b.detach(), 1e-4, 1e-5, true);
    // What is left where larger numbers cancel each other is as rough as they were.
    return all_close(a.detach(), b.detach(), kUnits * unit_, unit_ + kUnits * unit_ * largest(b), true);
  }

 private:
  static constexpr double kUnits = 4;
  static double unit_of(DType dtype) { return dtype == DType::float16 ? 0x1p-11 : dtype == DType::bfloat16 ? 0x1p-8 : 0; }
  static double largest(const Tensor& t) {
    double found = 0;
    for (const double x : t.detach().to_vector<double>())
      if (std::isfinite(x)) found = std::max(found, std::abs(x));
    return found;
  }
  double unit_ = 0;  // what rounding the widest step does to 1; 0: nothing is half wide
};

Tensor value_copy(const Tensor& t) {
  const autograd::Scope scope(false, std::nullopt);
  return t.detach().copy();
}

// The tensors that a call may change, as they are at some moment.
class State {
 public:
  explicit State(const Tensors& tensors) : tensors_(tensors) {
    for (const Tensor& t : tensors) values_.push_back(value_copy(t));
    for (size_t k = 0; k < tensors_.size(); ++k)  // what is written through a view reaches its base
      if (impl_of(tensors_[k]).view)
        if (Tensor base = impl_of(tensors_[k]).view->base(); base.defined()) tensors_.push_back(std::move(base));
    for (const Tensor& t : tensors_) {
      const detail::TensorImpl& i = impl_of(t);
      places_.push_back({i.storage, i.data, i.autograd, value_copy(t)});
    }
  }
  const Tensors& values() const { return values_; }
  void restore() const {
    for (size_t k = 0; k < tensors_.size(); ++k) {
      detail::TensorImpl& i = impl_of(tensors_[k]);
      const bool is_rebound = i.data != places_[k].data || i.autograd != places_[k].autograd;
      i.storage = places_[k].storage;
      i.data = places_[k].data;
      i.autograd = places_[k].autograd;
      std::memcpy(i.data, bytes_of(places_[k].value), i.shape.elements() * dtype_bytes(i.dtype));
      if (is_rebound) i.next_version();  // views that are not known here look again
    }
    for (const Tensor& t : tensors_)
      if (impl_of(t).view) impl_of(t).view->set_current();
  }

 private:
  struct Place {
    Ref<Storage> storage;
    char* data;
    Ref<AutogradEntry> autograd;
    Tensor value;
  };
  Tensors tensors_, values_;  // the former with the bases of views behind them
  std::vector<Place> places_;
};

// Of all results together, with a head of ones each. Nothing where a value that they need is gone: the user's backward says so, if it is
// called.
std::optional<Tensors> gradients_of(const Tensors& results, const Tensors& sources) {
  Tensors heads;
  for (const Tensor& t : results)
    if (on_tape(t) && is_floating(t.dtype())) heads.push_back(t);
  if (heads.empty() || sources.empty()) return Tensors(sources.size());
  try {
    return autograd::grad(heads, sources, {}, {.retain_graph = true, .train_mode = mode().training});
  } catch (const UserError&) {
    return {};
  }
}

// While it lives, what is hybridized runs as it is: otherwise every level of a network would make the calls below it both ways.
struct Comparing {
  const bool before = std::exchange(mode().comparing, true);
  Comparing() = default;
  ~Comparing() { mode().comparing = before; }
  Comparing(const Comparing&) = delete;
  Comparing& operator=(const Comparing&) = delete;
};

TensorMap all_values(const Graph& graph, const Tensors& variables) {
  Graph g = graph;
  g.nodes.resize(g.count_forward_nodes());
  g.outputs.clear();
  std::vector<std::string> names;
  std::vector<Tensor> values(g.nodes.size());
  size_t next = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (g.nodes[i].is_variable()) values[i] = variables[next++];
    g.outputs.push_back({static_cast<int>(i), 0});
    names.push_back(g.nodes[i].name);
  }
  const autograd::Scope scope(false, std::nullopt);
  const Tensors all = interpret(g, values);
  TensorMap map;
  for (size_t i = 0; i < names.size(); ++i) map[names[i]] = all[i];
  return map;
}
// Runs the graph before and after the passes with every node's value kept; passes keep names.
std::string first_difference(const Compiled& c, const Tensors& variables, const Tolerance& tolerance) {
  const auto before = all_values(c.graph.before, variables), after = all_values(c.graph.after, variables);
  for (const auto& n : c.graph.before.nodes) {
    const auto a = before.find(n.name), b = after.find(n.name);
    if (n.op && a != before.end() && b != after.end() && !tolerance.agree(a->second, b->second))
      return fmt::format("the first operator that differs is {} ('{}')", n.op->name, n.name);
  }
  return "the graphs before and after the passes agree, so the function itself does something else each time";
}

}  // namespace

HybridCache::Result HybridCache::Impl::verified(const std::shared_ptr<Compiled>& c, const Function& function, const Tensors& inputs) {
  const Trace& t = c->program->trace;
  Tensors tensors;
  std::vector<std::string> names;
  const std::vector<std::string> of_inputs = input_names(inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) tensors.push_back(inputs[i]), names.push_back(of_inputs[i]);
  for (size_t k = 0; k < t.captured.size(); ++k) tensors.push_back(t.captured[k]->live()), names.push_back(t.captured_names[k]);
  Tensors sources;
  std::vector<std::string> source_names;
  for (size_t k = 0; k < tensors.size(); ++k)
    if (on_tape(tensors[k])) {
      sources.push_back(make_view(tensors[k], impl_of(tensors[k]).shape, 0));  // the tensor itself may take another value
      impl_of(sources.back()).autograd = impl_of(tensors[k]).autograd;
      source_names.push_back(names[k]);
    }

  const Device device = current_device();
  const RandomStream first = peek_random_stream(device);
  const State before(tensors);
  const Tensors variables = variables_of(*c->program, inputs);
  Result compiled;
  try {
    compiled = run_compiled(*c, inputs);
  } catch (const UserError&) {
    return fail_as_eager(*c, function, inputs, first);
  }
  const RandomStream last = peek_random_stream(device);
  const std::optional<Tensors> gradients = gradients_of(compiled.tensors, sources);
  const State after(tensors);
  Tensors results;
  for (const Tensor& r : compiled.tensors) results.push_back(r.defined() ? value_copy(r) : r);

  before.restore();
  Tensors eager_results, eager_tensors;
  std::optional<Tensors> eager_gradients;
  RandomStream eager_last;
  try {
    const ReplayRandom random(device, first);
    const Comparing comparing;
    const Tensors eager = function(inputs).tensors;
    eager_last = random.next();
    eager_gradients = gradients_of(eager, sources);
    for (const Tensor& r : eager) eager_results.push_back(r.defined() ? value_copy(r) : r);
    eager_tensors = State(tensors).values();
  } catch (...) {
    after.restore();
    throw;
  }
  const Tolerance tolerance(c->graph.before);
  std::string difference;
  if (results.size() != eager_results.size())
    difference = fmt::format("there are {} outputs, but {} in eager mode", results.size(), eager_results.size());
  for (size_t i = 0; difference.empty() && i < results.size(); ++i)
    if (!tolerance.agree(results[i], eager_results[i])) {
      before.restore();
      difference = fmt::format("output {} differs between the two modes; {}", i,
                               draws_random(c->graph.before) ? "random numbers are drawn" : first_difference(*c, variables, tolerance));
    }
  for (size_t k = 0; difference.empty() && k < tensors.size(); ++k)
    if (!tolerance.agree(after.values()[k], eager_tensors[k]))
      difference = fmt::format("'{}' holds something else after the call", names[k]);
  for (size_t k = 0; difference.empty() && gradients && eager_gradients && k < sources.size(); ++k)
    if (!tolerance.agree((*gradients)[k], (*eager_gradients)[k]))
      difference = fmt::format("the gradient of '{}' differs between the two modes", source_names[k]);
  if (difference.empty() && eager_last.stream != last.stream)
    difference =
        fmt::format("{} random streams were drawn, but {} in eager mode", last.stream - first.stream, eager_last.stream - first.stream);
  after.restore();
  if (!difference.empty()) raise<UserError>("verify: {}", difference);
  return compiled;
}

}  // namespace gluino
