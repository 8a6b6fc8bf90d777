// Rules: how an ONNX node becomes calls of Gluino's operators. A rule sees a Call and returns the node's outputs.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gluino/ops.h"
#include "onnx/format.h"
#include "onnx/value.h"

namespace gluino::onnx {

class Scope;

class Call {
 public:
  Call(const NodeData& node, int64_t version, Values& inputs, const Scope& scope)
      : node_(node), version_(version), inputs_(inputs), scope_(scope) {}
  const NodeData& node() const { return node_; }
  int64_t version() const { return version_; }  // of the operator set
  const Scope& scope() const { return scope_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has(int i) const { return i < num_inputs() && inputs_[i].kind != Value::Kind::absent; }
  bool wants(int output) const { return output < num_outputs() && !node_.outputs[output].empty(); }
  Value& value(int i);
  const Tensor& in(int i) { return tensor_of(value(i)); }
  Tensor optional(int i) { return has(i) ? in(i) : Tensor(); }
  Tensors all();
  int rank(int i) { return in(i).ndim(); }
  int axis(int64_t axis, int rank) const;  // in [0, rank)

  // Numbers of an input, read now.
  std::vector<int64_t> whole_numbers(int i) { return whole_numbers_of(value(i)); }
  std::vector<double> numbers(int i) { return numbers_of(value(i)); }
  int64_t whole_number(int i);
  double number(int i);

  // Attributes.
  bool has_attribute(const std::string& name) const { return node_.attributes.contains(name); }
  const Attribute& attribute(const std::string& name) const;
  int64_t integer(const std::string& name, int64_t otherwise) const;
  double number(const std::string& name, double otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const std::string& name) const;  // empty when absent
  std::vector<double> numbers(const std::string& name) const;
  // An input of later operator sets that was an attribute of earlier ones.
  std::optional<std::vector<int64_t>> integers(const std::string& name, int input);

  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const NodeData& node_;
  const int64_t version_;
  Values& inputs_;
  const Scope& scope_;
};

using Rule = std::function<Tensors(Call&)>;

class Rules {
 public:
  static const Rules& all();
  const Rule* find(const std::string& domain, const std::string& type) const;
  std::vector<std::string> names() const;
  template <class F>
  void add(const std::string& type, F f) {
    if constexpr (std::is_convertible_v<std::invoke_result_t<F, Call&>, Tensor>)
      rules_[type] = [f](Call& c) -> Tensors { return {f(c)}; };
    else
      rules_[type] = f;
  }
  // What a node is whose inputs are extents and constants, when it is shape arithmetic.
  using ExtentRule = std::function<std::optional<Extents>(Call&)>;
  void add_extents(const std::string& type, ExtentRule f) { extent_rules_[type] = std::move(f); }
  const ExtentRule* find_extents(const std::string& type) const;

 private:
  Rules();
  std::map<std::string, Rule> rules_;
  std::map<std::string, ExtentRule> extent_rules_;
};

// One per family, each in its file.
void add_elementwise_rules(Rules& rules);
void add_reduce_rules(Rules& rules);
void add_layout_rules(Rules& rules);
void add_index_rules(Rules& rules);
void add_extent_rules(Rules& rules);
void add_linear_rules(Rules& rules);
void add_window_rules(Rules& rules);
void add_normalization_rules(Rules& rules);
void add_recurrent_rules(Rules& rules);
void add_control_flow_rules(Rules& rules);
void add_quantized_rules(Rules& rules);
void add_image_rules(Rules& rules);
void add_loss_rules(Rules& rules);
void add_training_rules(Rules& rules);
void add_signal_rules(Rules& rules);
void add_creation_rules(Rules& rules);
void add_selection_rules(Rules& rules);

// Used by several families.
Shape to_shape(const std::vector<int64_t>& numbers);
Tensor where_broadcast(const Tensor& condition, const Tensor& x, const Tensor& y);
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor round_to_even(const Tensor& x);          // ties to the even neighbour; MXNet's rint takes the lower one
Tensor constant_of(double value, DType dtype);  // a scalar
Tensor vector_of(const std::vector<double>& values, DType dtype);
Tensor part_of(const Tensor& x, int64_t axis, int64_t begin, std::optional<int64_t> end);  // may be empty

}  // namespace gluino::onnx
