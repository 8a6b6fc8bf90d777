// Symbol::eval and bind.
#include "autograd/tape.h"
#include "base/format.h"
#include "gluino/autograd.h"
#include "graph/interpret.h"

namespace gluino {
namespace {

Graph inferred_graph(const Symbol& symbol, const TensorMap& tensors) {
  Graph g = symbol.graph();
  ShapeMap shapes;
  DTypeMap types;
  for (const auto& [name, t] : tensors) {
    if (!t.defined()) continue;
    shapes[name] = t.shape();
    types[name] = t.dtype();
  }
  infer_graph(g, shapes, types);
  return g;
}

void check_names(const Symbol& symbol, const auto& given, std::string_view what) {
  const std::vector<std::string> names = symbol.list_inputs();
  for (const auto& [name, value] : given)
    if (std::find(names.begin(), names.end(), name) == names.end())
      raise<UserError>("{}: no input is named '{}'{}", what, name, did_you_mean(name, names));
}

}  // namespace

Tensors Symbol::eval(const TensorMap& inputs) const {
  check_names(*this, inputs, "eval");
  const Graph g = inferred_graph(*this, inputs);
  return interpret(g, bind_variables(g, inputs, "eval"));
}

Executor Symbol::bind(const TensorMap& arguments, const TensorMap& gradients, const std::map<std::string, GradReq>& grad_req,
                      const TensorMap& auxiliary_states) const {
  check_names(*this, arguments, "bind");
  check_names(*this, gradients, "bind");
  check_names(*this, auxiliary_states, "bind");
  Executor e;
  e.arguments_ = arguments;
  e.gradients_ = gradients;
  e.states_ = auxiliary_states;
  e.grad_req_ = grad_req;
  for (const auto& [name, t] : gradients) e.grad_req_.try_emplace(name, GradReq::write);
  TensorMap all = arguments;
  all.insert(auxiliary_states.begin(), auxiliary_states.end());
  auto graph = std::make_shared<Graph>(inferred_graph(*this, all));
  bind_variables(*graph, all, "bind");
  e.graph_ = graph;
  return e;
}

Executor Symbol::simple_bind(const ShapeMap& inputs, GradReq grad_req, const DTypeMap& types) const {
  const InferredShapes shapes = infer_shape(inputs);
  const InferredTypes dtypes = infer_type(types);
  TensorMap arguments, gradients, states;
  const std::vector<std::string> names = list_arguments(), state_names = list_auxiliary_states();
  for (size_t i = 0; i < names.size(); ++i) {
    arguments[names[i]] = zeros(*shapes.arguments[i], dtypes.arguments[i]);
    if (grad_req != GradReq::null && is_floating(dtypes.arguments[i]))
      gradients[names[i]] = zeros(*shapes.arguments[i], dtypes.arguments[i]);
  }
  for (size_t i = 0; i < state_names.size(); ++i) states[state_names[i]] = zeros(*shapes.auxiliary_states[i], dtypes.auxiliary_states[i]);
  std::map<std::string, GradReq> reqs;
  for (const auto& [name, t] : gradients) reqs[name] = grad_req;
  return bind(arguments, gradients, reqs, states);
}

// Runs a graph on these tensors. Where it is recorded, a variable with a gradient is a leaf of its own: the caller's tensor stays off the
// tape.
static Tensors run_bound(const Graph& graph, const TensorMap& arguments, const TensorMap& states, const TensorMap& gradients,
                         Tensors& leaves, bool records, bool is_train) {
  std::vector<Tensor> values(graph.nodes.size());
  leaves.assign(graph.nodes.size(), Tensor());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& node = graph.nodes[i];
    if (!node.is_variable()) continue;
    const auto state = states.find(node.name);
    values[i] = state != states.end() ? state->second : arguments.at(node.name);
    if (records && gradients.contains(node.name)) {
      values[i] = leaves[i] = values[i].detach();
      leaves[i].attach_grad();
    }
  }
  const autograd::Scope scope(records, is_train);
  return interpret(graph, values);
}

const Tensors& Executor::forward(bool is_train) {
  outputs_.clear();  // and with it what the last run kept for backward()
  outputs_ = run_bound(*graph_, arguments_, states_, gradients_, leaves_, is_train, is_train);
  return outputs_;
}

void Executor::backward(const Tensors& head_grads) {
  if (leaves_.empty()) throw UserError("backward: call forward() first");
  // forward(false) kept nothing to go back over.
  if (!gradients_.empty() && std::none_of(leaves_.begin(), leaves_.end(), [](const Tensor& t) { return t.defined(); }))
    outputs_ = run_bound(*graph_, arguments_, states_, gradients_, leaves_, true, false);
  // An output that depends on nothing learnt is no head.
  Tensors heads, grads;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!autograd::is_on_tape(outputs_[i])) continue;
    heads.push_back(outputs_[i]);
    if (head_grads.size() == outputs_.size()) grads.push_back(head_grads[i]);
  }
  if (!head_grads.empty() && head_grads.size() != outputs_.size())
    raise<UserError>("backward: {} gradients were given for {} outputs", head_grads.size(), outputs_.size());
  // It may be asked again, with other gradients of the heads.
  if (!heads.empty()) autograd::backward(heads, grads, {.retain_graph = true});
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!leaves_[i].defined()) continue;
    const std::string& name = graph_->nodes[i].name;
    Tensor& target = gradients_.at(name);
    if (grad_req_.at(name) == GradReq::add)
      target += leaves_[i].grad();
    else if (grad_req_.at(name) == GradReq::write)
      target.assign(leaves_[i].grad());
  }
}

}  // namespace gluino
