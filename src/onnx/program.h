// An ONNX model ready to run: checked, its constants folded. Runs node by node through the rules, on concrete tensors or inside a trace.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "gluino/symbol.h"
#include "onnx/format.h"
#include "onnx/value.h"

namespace gluino::onnx {

class Program;

// The values of one graph's names; those of the graph around it are seen too.
class Scope {
 public:
  Scope(const Program& program, const Scope* outer, const std::map<std::string, int64_t>& operator_sets)
      : program_(program), outer_(outer), operator_sets_(operator_sets) {}
  const Program& program() const { return program_; }
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  void drop(const std::string& name) { values_.erase(name); }
  Value get(const std::string& name) const;  // raises UserError
  Value* find(const std::string& name);
  int64_t version(const std::string& domain) const;
  // Runs a body of this scope's graph: its inputs get `inputs`.
  Values run(const GraphData& body, Values inputs) const;
  void run_nodes(const std::vector<NodeData>& nodes, const std::unordered_set<const NodeData*>& done);
  Tensors run_node(const NodeData& node, Values& inputs, Values& outputs) const;

 private:
  void run_one(const NodeData& node);
  Values call_function(const FunctionData& function, const NodeData& node, Values inputs) const;

  const Program& program_;
  const Scope* outer_;
  const std::map<std::string, int64_t>& operator_sets_;
  std::unordered_map<std::string, Value> values_;
};

std::string describe_node(const NodeData& node);  // "node 'conv1', Conv"

class Program {
 public:
  Program(ModelData model, const std::string& what);  // raises UserError that lists all nodes without a rule
  static std::shared_ptr<const Program> load(const std::string& path);
  static std::shared_ptr<const Program> read(std::string_view bytes, const std::string& what);

  const std::vector<ValueData>& inputs() const { return inputs_; }
  const std::vector<ValueData>& outputs() const { return model_.graph.outputs; }
  // Initializers that are learnt: tensors of floating numbers with more than one element.
  const std::vector<std::pair<std::string, Tensor>>& parameters() const { return parameters_; }
  bool is_state(const std::string& parameter) const { return states_.contains(parameter); }  // of a BatchNormalization
  const std::string& what() const { return what_; }
  const FunctionData* find_function(const std::string& domain, const std::string& name) const;
  bool is_output(const std::string& name) const { return output_names_.contains(name); }  // of the graph, a body or a function
  size_t num_nodes() const { return model_.graph.nodes.size(); }

  // `inputs` in the graph's order; `parameters` in that of parameters().
  Tensors run(const Tensors& inputs, const Tensors& parameters) const;
  const std::vector<std::string>* last_uses(const NodeData& node) const;

 private:
  void fold_constants();
  void find_last_uses();

  ModelData model_;
  const std::string what_;
  std::vector<ValueData> inputs_;
  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::unordered_set<std::string> states_, output_names_;
  std::unordered_map<std::string, Value> constants_;
  std::unordered_set<const NodeData*> folded_;
  std::unordered_map<const NodeData*, std::vector<std::string>> last_uses_;
};

}  // namespace gluino::onnx
