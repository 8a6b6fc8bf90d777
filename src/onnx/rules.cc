#include "onnx/rules.h"

#include "base/format.h"

namespace gluino::onnx {

Value& Call::value(int i) {
  if (!has(i)) raise<UserError>("input {} is needed, but absent", i);
  return inputs_[static_cast<size_t>(i)];
}

Tensors Call::all() {
  Tensors tensors;
  for (int i = 0; i < num_inputs(); ++i) tensors.push_back(in(i));
  return tensors;
}

int Call::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) raise<ShapeError>("axis {} is out of range for {} axes", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int64_t Call::whole_number(int i) {
  const std::vector<int64_t> all = whole_numbers(i);
  if (all.size() != 1) raise<ShapeError>("input {} has {} elements, but one number is needed", i, all.size());
  return all[0];
}

double Call::number(int i) {
  const std::vector<double> all = numbers(i);
  if (all.size() != 1) raise<ShapeError>("input {} has {} elements, but one number is needed", i, all.size());
  return all[0];
}

const Attribute& Call::attribute(const std::string& name) const {
  const auto found = node_.attributes.find(name);
  if (found == node_.attributes.end()) raise<AttrError>("attribute '{}' is needed, but absent", name);
  return found->second;
}

static const Attribute* find_attribute(const NodeData& node, const std::string& name, Attribute::Kind kind) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return nullptr;
  if (found->second.kind != kind) raise<AttrError>("attribute '{}' has a value of the wrong kind", name);
  return &found->second;
}

int64_t Call::integer(const std::string& name, int64_t otherwise) const {
  const Attribute* a = find_attribute(node_, name, Attribute::Kind::integer);
  return a ? a->integer : otherwise;
}
double Call::number(const std::string& name, double otherwise) const {
  const Attribute* a = find_attribute(node_, name, Attribute::Kind::number);
  return a ? a->number : otherwise;
}
std::string Call::text(const std::string& name, const std::string& otherwise) const {
  const Attribute* a = find_attribute(node_, name, Attribute::Kind::text);
  return a ? a->text : otherwise;
}
std::vector<int64_t> Call::integers(const std::string& name) const {
  const Attribute* a = find_attribute(node_, name, Attribute::Kind::integers);
  return a ? a->integers : std::vector<int64_t>{};
}
std::vector<double> Call::numbers(const std::string& name) const {
  const Attribute* a = find_attribute(node_, name, Attribute::Kind::numbers);
  return a ? a->numbers : std::vector<double>{};
}
std::optional<std::vector<int64_t>> Call::integers(const std::string& name, int input) {
  if (has_attribute(name)) return integers(name);
  if (has(input)) return whole_numbers(input);
  return std::nullopt;
}

void Call::refuse(const std::string& why) const { raise<UserError>("{}", why); }

// ---- the list

Rules::Rules() {
  add_elementwise_rules(*this);
  add_reduce_rules(*this);
  add_layout_rules(*this);
  add_index_rules(*this);
  add_extent_rules(*this);
  add_linear_rules(*this);
  add_window_rules(*this);
  add_normalization_rules(*this);
  add_creation_rules(*this);
  add_loss_rules(*this);
  add_selection_rules(*this);
  add_recurrent_rules(*this);
  add_control_flow_rules(*this);
  add_quantized_rules(*this);
  add_image_rules(*this);
  add_training_rules(*this);
  add_signal_rules(*this);
}

const Rules& Rules::all() {
  static const Rules rules;
  return rules;
}

const Rule* Rules::find(const std::string& domain, const std::string& type) const {
  const auto found = rules_.find(domain.empty() ? type : domain + "." + type);
  return found == rules_.end() ? nullptr : &found->second;
}

const Rules::ExtentRule* Rules::find_extents(const std::string& type) const {
  const auto found = extent_rules_.find(type);
  return found == extent_rules_.end() ? nullptr : &found->second;
}

std::vector<std::string> Rules::names() const {
  std::vector<std::string> names;
  for (const auto& [name, rule] : rules_) names.push_back(name);
  return names;
}

// ---- what several families use

Shape to_shape(const std::vector<int64_t>& numbers) {
  if (numbers.size() > static_cast<size_t>(Shape::kMaxAxes))
    raise<ShapeError>("{} axes; at most {} are possible", numbers.size(), Shape::kMaxAxes);
  return Shape(std::span<const int64_t>(numbers));
}
Tensor where_broadcast(const Tensor& condition, const Tensor& x, const Tensor& y) { return call("_where_broadcast", {condition, x, y}); }
Tensor round_to_even(const Tensor& x) {
  const Tensor low = floor(x), rest = x - low;
  return where_broadcast(rest < 0.5, low, where_broadcast(rest > 0.5, low + 1, low + low % 2));
}
Tensor part_of(const Tensor& x, int64_t axis, int64_t begin, std::optional<int64_t> end) {
  AttrValue edge;
  if (end) edge = *end;
  return call("_slice_part", {x}, {{"axis", axis}, {"begin", begin}, {"end", edge}});
}
Tensor constant_of(double value, DType dtype) { return full({}, value, {.dtype = dtype}); }
Tensor vector_of(const std::vector<double>& values, DType dtype) { return from_vector(values, {}, {.dtype = dtype}); }

}  // namespace gluino::onnx
