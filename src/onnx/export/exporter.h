// From a graph of Gluino's operators to an ONNX model. A rule per operator writes ONNX nodes in its place.
#pragma once
#include <functional>
#include <map>
#include <set>

#include "graph/graph.h"
#include "onnx/format.h"

namespace gluino::onnx {

class Exporter;

// One node of the graph as a rule sees it.
class ExportCall {
 public:
  ExportCall(Exporter& exporter, const Graph::Node& node, const Graph& graph, int number)
      : exporter_(exporter), node_(node), graph_(graph), number_(number), attrs_(node.op->print_attrs(node.attrs, true)) {}
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  std::string in(int i) const;
  const Shape& shape(int i) const;  // of an input
  const Shape& out_shape(int i = 0) const;
  bool is_free(int i, int axis) const;  // whether an extent of an input follows from a free one
  DType dtype(int i) const;
  DType out_dtype(int i = 0) const;
  int rank(int i) const { return shape(i).ndim(); }
  const std::string& name() const { return node_.name; }
  int version() const;

  // Attributes of the operator.
  std::string text(const std::string& name) const;
  bool flag(const std::string& name) const;
  double number(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  std::optional<int64_t> optional_integer(const std::string& name) const;
  Shape ints(const std::string& name) const;  // () for None
  std::vector<std::optional<int64_t>> optional_ints(const std::string& name) const;
  Floats numbers(const std::string& name) const;
  bool is_none(const std::string& name) const { return text(name) == "None"; }

  // ONNX nodes. put() gives the node's own output; add() a value in between.
  using Attributes = std::map<std::string, Attribute>;
  std::string add(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes = {}) const;
  std::vector<std::string> add_all(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes,
                                   int outputs) const;
  void put(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes = {}) const;
  void put_all(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes, int outputs) const;
  void put_as(const std::string& value, int output = 0) const;  // the output is this value
  std::string constant(const Tensor& value) const;
  std::string whole_numbers(const std::vector<int64_t>& values) const;  // a vector of int64
  std::string number_of(double value, DType dtype) const;               // a scalar
  Tensor computed(const Tensors& inputs = {}) const;                    // what the operator gives on these
  std::optional<Tensor> parameter(int i) const;                         // the tensor behind an input that follows from parameters alone

  // ---- bodies of control flow
  // A value of the graph as a body sees it.
  struct Outside {
    std::string name;
    Shape shape, other_shape;  // as Exporter infers them, with one and with other numbers for what is free
    DType dtype = DType::float32;
  };
  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(node_.attrs.get());
  }
  Outside input(int i) const;
  std::string fresh(const std::string& hint) const;  // a name that no value has
  ValueData value_data(const Outside& v) const;
  // The nodes of a body, whose variables are these, in the order of its list_inputs(); its outputs have names of their own.
  GraphData part(const Symbol& body, const std::vector<Outside>& inputs) const;
  // The same among the nodes of this graph; gives the names of its outputs.
  std::vector<std::string> inlined(const Symbol& body, const std::vector<Outside>& inputs) const;
  // What f adds goes into this graph.
  std::string inside(GraphData& graph, const std::function<std::string()>& f) const;

  // What an input was cast from, where that is of 8 bits; else "".
  std::string levels_behind(int i) const;

  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::vector<std::string> add_node(const std::string& type, const std::string& name, const std::vector<std::string>& inputs,
                                    const Attributes& attributes, std::vector<std::string> outputs) const;

  Exporter& exporter_;
  const Graph::Node& node_;
  const Graph& graph_;
  const int number_;
  const StringMap attrs_;
};

using ExportRule = std::function<void(const ExportCall&)>;
using ExportRules = std::map<std::string, ExportRule>;
const ExportRules& export_rules();
const std::set<std::string>& loss_operators();  // written as what they predict; inputs after the first are not read

void add_elementwise_exports(ExportRules& rules);
void add_control_flow_exports(ExportRules& rules);
void add_detection_exports(ExportRules& rules);
void add_layer_exports(ExportRules& rules);
void add_layout_exports(ExportRules& rules);
void add_reduce_exports(ExportRules& rules);

Attribute attribute_of(int64_t value);
Attribute attribute_of(double value);
Attribute attribute_of(const std::string& value);
Attribute attribute_of(const Shape& values);
Attribute attribute_of(const std::vector<int64_t>& values);
Attribute attribute_of(const std::vector<std::string>& values);

struct ExportInput {
  std::string name;
  Shape shape, other_shape;               // with numbers, also where an extent is free: there the two differ
  std::vector<std::string> free_extents;  // per axis the name of a free extent, "" where it is fixed; may be empty
  DType dtype = DType::float32;
};

class Exporter {
 public:
  Exporter(Graph graph, std::map<std::string, Tensor> parameters, std::vector<ExportInput> inputs, int version);
  // For a body: `names` are those that its inputs have around it. Names that are taken stay so for whoever comes after.
  Exporter(Graph body, const std::vector<ExportInput>& inputs, const std::vector<std::string>& names, const Exporter& outer);
  ModelData run();
  GraphData write_body(Exporter& outer);

 private:
  friend class ExportCall;
  std::string name_of(ValueId v) const;
  std::string fresh(const std::string& hint);
  void check_all_known() const;
  std::optional<Tensor> value_of(ValueId v) const;
  void drop_unread_nodes();
  void find_written();
  void infer();
  void name_values();
  void write_nodes();
  ValueData value_data(const std::string& name, const Shape& shape, const Shape& other, DType dtype) const;

  bool is_free(ValueId v, int axis) const { return !(graph_.shape(v)[axis] == other_.shape(v)[axis]); }

  Graph graph_, other_;  // the same graph, its shapes inferred with other numbers for what is free
  std::map<std::string, Tensor> parameters_;
  const std::vector<ExportInput> inputs_;
  const int version_;
  const bool is_body_ = false;
  ModelData model_;
  std::vector<bool> is_written_;      // by node of the graph
  std::set<std::string> used_;        // names of values
  std::set<std::string> node_names_;  // which have a space of their own
  std::map<ValueId, std::string> names_;
  std::map<std::string, std::string> outside_;  // of a body: what its variables are called around it
};

}  // namespace gluino::onnx
