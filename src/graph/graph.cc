#include "graph/graph.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "base/format.h"

namespace gluino {

void retain_ref(GraphNode* node) { node->retain(); }
void release_ref(GraphNode* node) { node->release(); }

// A deep network is a long chain of nodes: unlinked one by one, so that the stack does not grow with its depth.
GraphNode::~GraphNode() {
  thread_local std::vector<Value>* pending = nullptr;
  if (pending) {
    for (Value& v : inputs) pending->push_back(std::move(v));
    return;
  }
  std::vector<Value> list = std::move(inputs);
  pending = &list;
  while (!list.empty()) {
    Value last = std::move(list.back());
    list.pop_back();
    last.node = nullptr;  // may add to the list
  }
  pending = nullptr;
}

int Graph::add(Node node) {
  nodes.push_back(std::move(node));
  return static_cast<int>(nodes.size()) - 1;
}

int Graph::count_forward_nodes() const {
  const auto head = std::find_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.is_head; });
  return static_cast<int>(head - nodes.begin());
}

static constexpr const char* kModeAttr = "__mode__";
StringMap attrs_with_mode(const Graph::Node& node) {
  StringMap attrs = node.user_attrs;
  if (node.mode == CallMode{}) return attrs;
  std::string& text = attrs[kModeAttr];
  if (node.mode.is_paused) text = "paused";
  if (node.mode.training) text += fmt::format("{}{}", text.empty() ? "" : " ", *node.mode.training ? "train" : "predict");
  return attrs;
}
void take_mode_from_attrs(Graph::Node& node) {
  const auto found = node.user_attrs.find(kModeAttr);
  if (found == node.user_attrs.end()) return;
  const std::string& text = found->second;
  node.mode.is_paused = text.starts_with("paused");
  if (text.ends_with("train")) node.mode.training = true;
  if (text.ends_with("predict")) node.mode.training = false;
  node.user_attrs.erase(found);
}

void verify(const Graph& graph) {
  auto check = [&](ValueId v, int limit, const std::string& user) {
    if (v.node < 0 || v.node >= limit)
      throw InternalError(fmt::format("graph: {} reads node {}, which does not come before it", user, v.node));
    const auto& node = graph.node(v);
    if (v.index < 0 || v.index >= static_cast<int>(node.outputs.size()))
      throw InternalError(fmt::format("graph: {} reads output {} of {}", user, v.index, node.name));
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.node(i);
    for (ValueId v : node.inputs) check(v, static_cast<int>(i), node.name);
    if (!node.op) continue;
    if (!node.op->is_variadic && node.inputs.size() != node.op->present_inputs(node.attrs).size())
      throw InternalError(fmt::format("graph: {} has {} inputs", node.name, node.inputs.size()));
    if (static_cast<int>(node.outputs.size()) != node.op->num_outputs(node.attrs))
      throw InternalError(fmt::format("graph: {} has {} outputs", node.name, node.outputs.size()));
  }
  for (ValueId v : graph.outputs) check(v, static_cast<int>(graph.nodes.size()), "the graph's output");
}

bool refuses_values(const OpDef& op, const Attrs& attrs) {
  if (op.refuses_values(attrs)) return true;
  if (!op.has_subgraphs()) return false;
  for (const Symbol& body : op.subgraphs_of(attrs.get()))
    for (const Graph::Node& node : body.graph().nodes)
      if (node.op && refuses_values(*node.op, node.attrs)) return true;
  return false;
}

std::vector<bool> find_states(const Graph& graph) {
  std::vector<bool> is_state(graph.nodes.size(), false);
  for (const auto& node : graph.nodes) {
    if (!node.op) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.op->is_state_input(node.attrs, i) && !graph.node(node.inputs[i]).op) is_state[node.inputs[i].node] = true;
  }
  return is_state;
}

std::string output_name(const OpDef* op, const Attrs& attrs, const std::string& node_name, int index) {
  if (!op) return node_name;
  if (op->output_names_of)
    if (const auto names = op->output_names_of(attrs.get()); index < static_cast<int>(names.size())) return node_name + "_" + names[index];
  const int count = op->num_outputs(attrs);
  if (count == 1) return node_name + "_output";
  if (index < static_cast<int>(op->output_names.size()) && op->output_names.size() > 1) return node_name + "_" + op->output_names[index];
  return fmt::format("{}_output{}", node_name, index);
}

std::string unique_name(const std::string& hint) {
  thread_local std::unordered_map<std::string, int> counters;
  std::string lower;
  for (char c : hint) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  while (!lower.empty() && lower.front() == '_') lower.erase(0, 1);
  return fmt::format("{}{}", lower, counters[lower]++);
}

// ---- attribute scopes
static StringMap& attr_scope() {
  thread_local StringMap attrs;
  return attrs;
}
StringMap current_attr_scope() { return attr_scope(); }
AttrScope::AttrScope(StringMap attrs) : previous_(attr_scope()) {
  attrs.merge(StringMap(previous_));
  attr_scope() = std::move(attrs);
}
AttrScope::~AttrScope() { attr_scope() = previous_; }

// ---- between the two forms

// Depth first, without recursion.
std::vector<GraphNode*> topological_order(const std::vector<Value>& outputs) {
  std::vector<GraphNode*> order;
  PointerMap<bool> seen;
  std::vector<std::pair<GraphNode*, size_t>> stack;
  for (const Value& v : outputs) {
    if (seen.try_emplace(v.node.get(), true).second) stack.emplace_back(v.node.get(), 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == node->inputs.size()) {
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      GraphNode* input = node->inputs[next++].node.get();
      if (seen.try_emplace(input, true).second) stack.emplace_back(input, 0);
    }
  }
  return order;
}

uint64_t GraphNode::next_sequence() {
  static std::atomic<uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::vector<GraphNode*> nodes_in_order(const std::vector<Value>& outputs) {
  std::vector<GraphNode*> nodes = topological_order(outputs);
  std::sort(nodes.begin(), nodes.end(), [](const GraphNode* a, const GraphNode* b) { return a->sequence < b->sequence; });
  return nodes;
}

int append(Graph& graph, const GraphNode& node, NodeNumbers& numbers) {
  const int number = graph.add(renamed<ValueId>(node, [&](const Value& v) { return ValueId{numbers.at(v.node.get()), v.index}; }));
  numbers.try_emplace(&node, number);
  return number;
}
std::vector<Ref<GraphNode>> shared_nodes(const Graph& graph) {
  std::vector<Ref<GraphNode>> nodes;
  for (const Graph::Node& n : graph.nodes)
    nodes.push_back(make_ref<GraphNode>(renamed<Value>(n, [&](ValueId v) { return Value{nodes[v.node], v.index}; })));
  return nodes;
}
std::vector<Ref<GraphNode>> shared_nodes(Graph&& graph) {
  std::vector<Ref<GraphNode>> nodes;
  nodes.reserve(graph.nodes.size());
  for (Graph::Node& n : graph.nodes)
    nodes.push_back(make_ref<GraphNode>(renamed<Value>(std::move(n), [&](ValueId v) { return Value{nodes[v.node], v.index}; })));
  return nodes;
}
static Graph list_form(const std::vector<GraphNode*>& order, const std::vector<Value>& outputs, NodeNumbers& numbers) {
  Graph g;
  g.nodes.reserve(order.size());
  numbers.reserve(order.size());
  for (const GraphNode* n : order) append(g, *n, numbers);
  for (const Value& v : outputs) g.outputs.push_back({numbers.at(v.node.get()), v.index});
  return g;
}

Graph Symbol::graph() const {
  NodeNumbers numbers;
  return list_form(topological_order(outputs_), outputs_, numbers);
}

// The nodes themselves, so that what is built from them has the same variables.
Symbol Symbol::get_internals() const {
  std::vector<Value> all;
  for (GraphNode* node : topological_order(outputs_)) {
    const int visible = node->op ? node->op->num_visible_outputs(node->attrs) : 1;
    for (int k = 0; k < visible; ++k) all.push_back({Ref<GraphNode>(node), k});
  }
  return Symbol(std::move(all));
}

Graph graph_in_call_order(const Symbol& symbol, std::vector<int>& variables) {
  NodeNumbers numbers;
  std::vector<GraphNode*> order = nodes_in_order(symbol.outputs());
  std::stable_partition(order.begin(), order.end(), [](const GraphNode* n) { return !n->op; });
  Graph g = list_form(order, symbol.outputs(), numbers);
  variables.clear();
  for (const GraphNode* n : variable_nodes(symbol)) variables.push_back(numbers.at(n));
  return g;
}
std::vector<const GraphNode*> variable_nodes(const Symbol& symbol) {
  std::vector<const GraphNode*> variables;
  for (const GraphNode* n : topological_order(symbol.outputs()))
    if (!n->op && !n->constant.defined()) variables.push_back(n);
  return variables;
}

Symbol Symbol::from_graph(Graph graph) {
  const std::vector<ValueId> ids = graph.outputs;
  const std::vector<Ref<GraphNode>> nodes = shared_nodes(std::move(graph));
  std::vector<Value> outputs;
  for (ValueId v : ids) outputs.push_back({nodes[v.node], v.index});
  return Symbol(std::move(outputs));
}

}  // namespace gluino
