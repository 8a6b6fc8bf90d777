// Symbol: a handle on outputs of a graph of operators that has not run yet.
#pragma once
#include <map>
#include <memory>

#include "gluino/attrs.h"
#include "gluino/tensor.h"

namespace gluino {

struct OpDef;
struct Graph;
class GraphNode;
void retain_ref(GraphNode* node);
void release_ref(GraphNode* node);

// One output of a node.
struct Value {
  Ref<GraphNode> node;
  int index = 0;
  bool operator==(const Value&) const = default;
};

using ShapeMap = std::map<std::string, Shape>;
using DTypeMap = std::map<std::string, DType>;
using TensorMap = std::map<std::string, Tensor>;

// Shapes in the order of list_arguments / list_outputs / list_auxiliary_states; nullopt where nothing is known,
// Shape::kUnknown for an extent that is not.
struct InferredShapes {
  std::vector<std::optional<Shape>> arguments, outputs, auxiliary_states;
  bool complete = false;
};
struct InferredTypes {
  std::vector<DType> arguments, outputs, auxiliary_states;
};

class Executor;

class Symbol {
 public:
  Symbol() = default;
  explicit Symbol(std::vector<Value> outputs) : outputs_(std::move(outputs)) {}
  Symbol(const Tensor& symbolic);  // the value behind a symbolic Tensor
  bool empty() const { return outputs_.empty(); }
  const std::vector<Value>& outputs() const { return outputs_; }

  // Symbolic Tensors for the outputs: C++ operators and functions work on them.
  Tensor tensor(int output = 0) const;
  operator Tensor() const { return tensor(); }

  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  Symbol operator[](int output) const;
  Symbol operator[](const std::string& output_name) const;

  std::string name() const;  // of the node when there is one output
  std::vector<std::string> list_arguments() const;
  std::vector<std::string> list_outputs() const;
  std::vector<std::string> list_auxiliary_states() const;
  std::vector<std::string> list_inputs() const;  // arguments and auxiliary states in graph order
  Symbol get_internals() const;                  // every output of every node
  Symbol get_children() const;                   // inputs of the head node

  std::optional<std::string> attr(const std::string& key) const;
  StringMap list_attr() const;
  std::map<std::string, StringMap> attr_dict() const;
  void set_attr(const std::string& key, const std::string& value);

  // Replaces free variables by other symbols, by name: net.compose({{"data", other}}).
  Symbol compose(const std::map<std::string, Symbol>& inputs) const;

  // In both directions where operators know how: weights from data, labels from outputs. Raises ShapeError on a
  // contradiction; infer_shape also when something stays unknown.
  InferredShapes infer_shape(const ShapeMap& known) const;
  InferredShapes infer_shape_partial(const ShapeMap& known) const;
  InferredTypes infer_type(const DTypeMap& known) const;

  Tensors eval(const TensorMap& inputs) const;
  // Binds arguments to tensors; gradients are written into `gradients` by Executor::backward.
  Executor bind(const TensorMap& arguments, const TensorMap& gradients = {}, const std::map<std::string, GradReq>& grad_req = {},
                const TensorMap& auxiliary_states = {}) const;
  // Allocates arguments and gradients from the shapes of the inputs.
  Executor simple_bind(const ShapeMap& inputs, GradReq grad_req = GradReq::write, const DTypeMap& types = {}) const;

  std::string str() const;  // the text form; parse() reads it back
  static Symbol parse(const std::string& text);
  std::string to_dot() const;                             // for graphviz
  std::string to_svg(const ShapeMap& shapes = {}) const;  // a picture; shapes of inputs give those of all values
  std::string to_json() const;                            // as MXNet 1.9 reads it
  static Symbol from_json(const std::string& json, const std::string& what = "symbol JSON");  // of every era
  void save(const std::string& path) const;
  static Symbol load(const std::string& path);

  Graph graph() const;
  static Symbol from_graph(Graph graph);

 private:
  std::vector<Value> outputs_;
};

std::ostream& operator<<(std::ostream& os, const Symbol& symbol);

namespace sym {

struct VarOptions {
  std::optional<Shape> shape;
  std::optional<DType> dtype;
  StringMap attrs;
};
Symbol var(const std::string& name, const VarOptions& options = {});
Symbol group(const std::vector<Symbol>& symbols);
// Applies an operator. Inputs that are not given become variables named <name>_<input>, as in MXNet.
Symbol apply(const std::string& op, const std::vector<Symbol>& inputs, const StringMap& attrs = {}, std::string name = "",
             const std::map<std::string, Symbol>& named_inputs = {});

}  // namespace sym

// Nodes made while it lives carry these attributes. Scopes nest.
class [[nodiscard]] AttrScope {
 public:
  explicit AttrScope(StringMap attrs);
  ~AttrScope();
  AttrScope(const AttrScope&) = delete;
  AttrScope& operator=(const AttrScope&) = delete;

 private:
  StringMap previous_;
};

// A bound symbol: arguments, gradients and states as tensors that the caller may read and write.
class Executor {
 public:
  const Tensors& forward(bool is_train = false);
  void backward(const Tensors& head_grads = {});
  const Tensors& outputs() const { return outputs_; }
  TensorMap& arguments() { return arguments_; }
  TensorMap& gradients() { return gradients_; }
  TensorMap& auxiliary_states() { return states_; }

 private:
  friend class Symbol;
  std::shared_ptr<const Graph> graph_;
  TensorMap arguments_, gradients_, states_;
  std::map<std::string, GradReq> grad_req_;
  Tensors outputs_, leaves_;
};

}  // namespace gluino
