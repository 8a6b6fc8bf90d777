#include "graph/propagate_types.h"

#include "dispatch/infer.h"

namespace gluino {
namespace {

using OptionalTypes = std::vector<std::optional<DType>>;

void start_variable(Graph::Node& node, const DTypeMap& types) {
  OutputInfo& info = node.outputs[0];
  if (const auto given = types.find(node.name); given != types.end()) {
    info.dtype = given->second;
  } else if (const auto attr = node.user_attrs.find("__dtype__"); attr != node.user_attrs.end() && attr->second != "-1" && !info.dtype) {
    info.dtype = AttrType<DType>::parse("__dtype__ of " + node.name, attr->second);
  }
}

// The types of the outputs with `guess` in the place of inputs that are not known.
std::optional<std::vector<DType>> types_with(const OpDef& op, const Attrs& attrs, const OptionalTypes& in, DType guess) {
  std::vector<DType> known, out;
  for (const auto& t : in) known.push_back(t.value_or(guess));
  try {
    infer_dtypes(op, attrs, known, out);
  } catch (const Error&) {
    return std::nullopt;
  }
  return out;
}

bool learn(std::optional<DType>& into, std::optional<DType> from) {
  if (into || !from) return false;
  into = from;
  return true;
}

bool visit(Graph& graph, Graph::Node& node) {
  const OpDef& op = *node.op;
  const auto specs = op.present_inputs(node.attrs);
  const auto own = [&](size_t i) { return !op.is_variadic && i < specs.size() && specs[i]->own_dtype; };
  OptionalTypes in;
  std::optional<DType> common;
  bool lacks_common = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    in.push_back(graph.info(node.inputs[i]).dtype);
    if (own(i)) continue;
    if (in[i]) common = common ? promote(*common, *in[i]) : *in[i];
    lacks_common |= !in[i];
  }
  const auto as_float = types_with(op, node.attrs, in, DType::float32), as_double = types_with(op, node.attrs, in, DType::float64);
  if (!as_float || !as_double) return false;  // refused when the graph is run, with a message
  // An output whose type goes with that of the inputs says what they are.
  for (size_t o = 0; o < as_float->size() && lacks_common && !common; ++o)
    if ((*as_float)[o] == DType::float32 && (*as_double)[o] == DType::float64) common = node.outputs[o].dtype;
  const auto is_half = [](DType d) { return d == DType::float16 || d == DType::bfloat16; };
  bool learnt = false;
  for (size_t i = 0; i < in.size() && common; ++i) {
    const bool follows = !own(i) || (specs[i]->wide_dtype && !is_half(*common));
    learnt |= learn(graph.info(node.inputs[i]).dtype, follows ? common : DType::float32);
    in[i] = graph.info(node.inputs[i]).dtype;
  }
  const auto first = types_with(op, node.attrs, in, DType::float32), second = types_with(op, node.attrs, in, DType::float64);
  for (size_t o = 0; first && second && o < first->size(); ++o)
    if ((*first)[o] == (*second)[o]) learnt |= learn(node.outputs[o].dtype, (*first)[o]);
  return learnt;
}

}  // namespace

bool start_types(Graph& graph, const DTypeMap& types) {
  bool is_complete = true;
  for (auto& node : graph.nodes) {
    if (node.is_variable()) start_variable(node, types);
    if (node.is_constant()) node.outputs[0].dtype = impl_of(node.constant).dtype;
    if (!node.op) is_complete &= node.outputs[0].dtype.has_value();
  }
  return is_complete;
}

void propagate_types(Graph& graph) {
  for (bool learnt = true; learnt;) {
    learnt = false;
    for (auto& node : graph.nodes)
      if (node.op) learnt |= visit(graph, node);
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
      if (node->op) learnt |= visit(graph, *node);
  }
}

std::set<std::string> wide_variables(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (const auto& source = graph.node(node.inputs[i]);
          !source.op && (node.op->input_spec(node.attrs, i).wide_dtype || node.op->is_state_input(node.attrs, i)))
        names.insert(source.name);
  return names;
}

}  // namespace gluino
