// A node, and the two forms of a graph. GraphNode: nodes that share their inputs, made by composing and tracing. Graph:
// the same in a flat list, inputs before users, which passes rewrite and plans are made from.
#pragma once
#include "base/pointer_map.h"
#include "dispatch/mode.h"
#include "gluino/op.h"
#include "gluino/symbol.h"
#include "tensor/impl.h"

namespace gluino {

struct OutputInfo {
  std::optional<Shape> shape;  // may hold unknown extents
  std::optional<DType> dtype;
};

// A call, a variable or a constant of a program. The forms of a program differ in `Input`, which is how a node names what it reads.
template <class Input>
struct NodeOf {
  const OpDef* op = nullptr;  // null: a variable, or a constant when `constant` is set
  std::string name;
  Attrs attrs;
  std::vector<Input> inputs;
  StringMap user_attrs;  // what MXNet's files keep beside the operator's own: __shape__, __lr_mult__, ...
  Tensor constant;
  std::vector<OutputInfo> outputs;  // in a Graph one per output; in other forms what was known when the node was made, perhaps none
  std::string origin;               // the line of the user's program that made it, where a front end knows
  bool is_folded = false;           // a constant that no later run can change
  CallMode mode;
  bool is_head = false;  // a variable that backward is given: the first one is where the forward pass ends
  int part = -1;         // of a backward pass: which of Graph::parts; -1: it is run in any case

  bool is_variable() const { return !op && !constant.defined(); }
  bool is_constant() const { return !op && constant.defined(); }
  int output_count() const { return op ? op->num_outputs(attrs) : 1; }
  // A layer's own: batch norm's averages, or what a body updates.
  bool may_update_states() const {
    if (!op || !op->has_states) return false;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (op->is_state_input(attrs, i)) return true;
    return false;
  }
  // For messages: "node 'fc1', made at train.py:12".
  std::string str() const { return "node '" + name + "'" + (origin.empty() ? "" : ", made at " + origin); }
};

// The bridge between forms: the same node with its inputs named by `place`. What is known of outputs stays behind; it may
// hold for one run's shapes alone.
template <class To, class From, class Place>
NodeOf<To> renamed(const NodeOf<From>& n, Place place) {
  NodeOf<To> node{.op = n.op,
                  .name = n.name,
                  .attrs = n.attrs,
                  .user_attrs = n.user_attrs,
                  .constant = n.constant,
                  .outputs = std::vector<OutputInfo>(n.output_count()),
                  .origin = n.origin,
                  .is_folded = n.is_folded,
                  .mode = n.mode,
                  .is_head = n.is_head,
                  .part = n.part};
  node.inputs.reserve(n.inputs.size());
  for (const From& v : n.inputs) node.inputs.push_back(place(v));
  return node;
}
// The same of a node that is not needed any more.
template <class To, class From, class Place>
NodeOf<To> renamed(NodeOf<From>&& n, Place place) {
  NodeOf<To> node{.op = n.op,
                  .name = std::move(n.name),
                  .attrs = std::move(n.attrs),
                  .user_attrs = std::move(n.user_attrs),
                  .constant = std::move(n.constant),
                  .origin = std::move(n.origin),
                  .is_folded = n.is_folded,
                  .mode = n.mode,
                  .is_head = n.is_head,
                  .part = n.part};
  node.outputs.resize(node.output_count());
  node.inputs.reserve(n.inputs.size());
  for (const From& v : n.inputs) node.inputs.push_back(place(v));
  return node;
}

class GraphNode final : public RefCounted, public NodeOf<Value> {
 public:
  explicit GraphNode(NodeOf<Value> node) : NodeOf<Value>(std::move(node)) {}
  ~GraphNode() override;
  const uint64_t sequence = next_sequence();  // nodes made later have larger numbers

 private:
  static uint64_t next_sequence();
};

struct ValueId {
  int node = -1, index = 0;
  bool operator==(const ValueId&) const = default;
  auto operator<=>(const ValueId&) const = default;
};

struct Graph {
  using Node = NodeOf<ValueId>;
  std::vector<Node> nodes;  // every input comes before its users
  std::vector<ValueId> outputs;
  std::vector<std::vector<int>> parts;  // the numbers of heads that each needs one of; there are none where one head is all

  const Node& node(int number) const { return nodes[number]; }
  const Node& node(ValueId v) const { return nodes[v.node]; }  // the one that gives it
  const OutputInfo& info(ValueId v) const { return node(v).outputs[v.index]; }
  OutputInfo& info(ValueId v) { return nodes[v.node].outputs[v.index]; }
  const Shape& shape(ValueId v) const { return *info(v).shape; }  // which must have been inferred
  int add(Node node);                                             // returns its number

  int count_forward_nodes() const;  // those before the first head
  // Whether two nodes are of one pass and one part, so that one call can do what both do. `forward`: how many nodes are of the forward
  // pass.
  bool run_together(int a, int b, int forward) const { return (a < forward) == (b < forward) && node(a).part == node(b).part; }

  std::string str() const;  // the text form
  static Graph parse(const std::string& text);
};

// A call's mode among the user attributes, as texts and files show it: __mode__=paused, train, predict.
StringMap attrs_with_mode(const Graph::Node& node);
void take_mode_from_attrs(Graph::Node& node);

// The nodes that outputs depend on, inputs first and in order, as MXNet lists arguments.
std::vector<GraphNode*> topological_order(const std::vector<Value>& outputs);
// The same in the order they were made: for a trace, the order of the calls.
std::vector<GraphNode*> nodes_in_order(const std::vector<Value>& outputs);

// The two forms in each other, node by node.
using NodeNumbers = PointerMap<int>;                                    // of GraphNodes
int append(Graph& graph, const GraphNode& node, NodeNumbers& numbers);  // `numbers` has its inputs, and then the node itself
std::vector<Ref<GraphNode>> shared_nodes(const Graph& graph);           // one for each of the list
std::vector<Ref<GraphNode>> shared_nodes(Graph&& graph);

// The symbol's graph with operators in the order they were made, which is the order of a trace's calls. `variables`:
// the numbers of its variables as list_inputs() lists them.
Graph graph_in_call_order(const Symbol& symbol, std::vector<int>& variables);
std::vector<const GraphNode*> variable_nodes(const Symbol& symbol);  // as list_inputs() lists them

// Raises InternalError when inputs do not come before users, numbers are out of range, or input counts are wrong.
void verify(const Graph& graph);

// Whether a call's kernel, or one of a call in its bodies, raises an error for some values.
bool refuses_values(const OpDef& op, const Attrs& attrs);

// Which variables are auxiliary states: they feed an input that the operator may update.
std::vector<bool> find_states(const Graph& graph);
std::string output_name(const OpDef* op, const Attrs& attrs, const std::string& node_name, int index);
std::string to_dot(const Graph& graph);
std::string to_svg(const Graph& graph);

// A name that no other node of this thread got: "fullyconnected0".
std::string unique_name(const std::string& hint);
StringMap current_attr_scope();

// Fills in shapes and dtypes in place, in both directions; `shapes` are given by variable name.
void infer_graph(Graph& graph, const ShapeMap& shapes, const DTypeMap& types);
void infer_graph_shapes(Graph& graph, const ShapeMap& shapes);  // the first half of it
void infer_graph_types(Graph& graph, const DTypeMap& types);    // the second
// The same after a rewrite of a graph of which all was known: asks only the nodes whose outputs are not, forwards.
void infer_new_nodes(Graph& graph);
// True when every shape of every node is fully known.
bool is_complete(const Graph& graph);

}  // namespace gluino
