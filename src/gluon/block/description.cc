#include "gluon/block/description.h"

#include <algorithm>

#include "gluino/op.h"
#include "graph/graph.h"

namespace gluino {
namespace {

constexpr int64_t kBatch = 2;                                                          // not 1, which broadcasts
constexpr int64_t kSides[] = {32, 28, 224, 112, 48, 24, 12, 299, 64, 96, 16, 8, 512};  // of pictures and sequences, likely ones first

class Description {
 public:
  Description(const Symbol& symbol, const std::vector<std::string>& inputs, const ShapeMap& shapes, const DTypeMap& types)
      : symbol_(symbol), names_(inputs), parameters_(shapes), types_(types) {}

  ModelDescription make() const {
    ModelDescription d;
    for (const std::string& name : names_) d.inputs.push_back({name, std::nullopt, std::nullopt});
    for (const std::string& name : symbol_.list_outputs()) d.outputs.push_back({name, std::nullopt, std::nullopt});
    fill_types(d);
    fill_shapes(d);
    return d;
  }

 private:
  void fill_types(ModelDescription& d) const {
    try {
      const InferredTypes types = symbol_.infer_type(types_);
      const std::vector<std::string> arguments = symbol_.list_arguments();
      for (ValueDescription& input : d.inputs)
        if (const auto at = std::find(arguments.begin(), arguments.end(), input.name); at != arguments.end())
          input.dtype = types.arguments[static_cast<size_t>(at - arguments.begin())];
      for (size_t i = 0; i < d.outputs.size(); ++i) d.outputs[i].dtype = types.outputs[i];
    } catch (const UserError&) {
      // Then the dtypes are not known before the call.
    }
  }

  // Shapes of the outputs, or nothing where these shapes of the inputs do not fit.
  std::optional<std::vector<Shape>> outputs_for(const std::vector<Shape>& inputs) const {
    ShapeMap known = parameters_;
    for (size_t i = 0; i < names_.size(); ++i) known[names_[i]] = inputs[i];
    try {
      const InferredShapes inferred = symbol_.infer_shape_partial(known);
      std::vector<Shape> out;
      for (const auto& shape : inferred.outputs) {
        if (!shape || !shape->is_known()) return std::nullopt;
        out.push_back(*shape);
      }
      return out;
    } catch (const UserError&) {
      return std::nullopt;
    }
  }

  // What the graph says itself, where 0 is an extent left open; else shapes that would meet the parameters beside the input.
  std::vector<Shape> candidates(const std::string& input) const {
    std::vector<Shape> all;
    const Graph graph = symbol_.graph();
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Graph::Node& node = graph.nodes[n];
      if (node.name == input && node.is_variable())
        if (const auto attr = node.user_attrs.find("__shape__"); attr != node.user_attrs.end())
          for (const int64_t side : kSides) add_stated(attr->second, side, all);
      const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return graph.nodes[v.node].name == input; });
      for (size_t i = 0; reads && i < node.inputs.size(); ++i)
        if (const auto parameter = parameters_.find(graph.nodes[node.inputs[i].node].name); parameter != parameters_.end())
          add_for_parameter(parameter->second, all);
    }
    for (const int64_t side : kSides) all.insert(all.end(), {{kBatch, side}, {kBatch, 3, side, side}});
    all.push_back({kBatch});
    return all;
  }
  static void add_stated(const std::string& text, int64_t side, std::vector<Shape>& all) {
    Shape shape;
    try {
      shape = AttrType<Shape>::parse("__shape__", text);
    } catch (const AttrError&) {
      return;
    }
    for (int i = 0; i < shape.ndim(); ++i)
      if (shape[i] <= 0) shape[i] = i == 0 ? kBatch : side;
    if (!shape.empty()) all.push_back(shape);
  }
  static void add_for_parameter(const Shape& parameter, std::vector<Shape>& all) {
    if (parameter.ndim() == 2) all.push_back({kBatch, parameter[1]});
    for (const int64_t side : kSides)
      if (parameter.ndim() >= 3) {
        Shape shape = Shape::filled(parameter.ndim(), side);
        shape[0] = kBatch;
        shape[1] = parameter[1];
        all.push_back(shape);
      }
  }

  // Shapes that fit, of likely ones: first the same for all inputs, then those of each in step, then all with all. A graph without its
  // parameters has too many inputs to guess.
  std::optional<std::vector<Shape>> fitting_inputs() const {
    constexpr size_t kMostInputs = 8;
    if (names_.size() > kMostInputs) return std::nullopt;
    std::vector<std::vector<Shape>> lists;
    for (const std::string& name : names_) lists.push_back(candidates(name));
    size_t tries = 0;
    constexpr size_t kMostTries = 256;
    std::vector<Shape> inputs;
    const auto fits = [&] { return tries++ < kMostTries && outputs_for(inputs); };
    for (const auto& list : lists)
      for (const Shape& shape : list)
        if (inputs.assign(lists.size(), shape); fits()) return inputs;
    const auto pick = [&](auto digit) {
      inputs.clear();
      for (size_t i = 0; i < lists.size(); ++i) inputs.push_back(lists[i][std::min(digit(i), lists[i].size() - 1)]);
    };
    constexpr size_t kWidth = 16;
    for (size_t k = 0; k < kWidth; ++k)
      if (pick([&](size_t) { return k; }); fits()) return inputs;
    for (size_t k = 0; tries < kMostTries && lists.size() > 1; ++k)
      if (pick([&](size_t i) { return k >> (4 * i) & (kWidth - 1); }); fits()) return inputs;
    return std::nullopt;
  }

  void fill_shapes(ModelDescription& d) const {
    const auto fitting = fitting_inputs();
    if (!fitting) return;
    const std::vector<Shape>& inputs = *fitting;
    const auto outputs = outputs_for(inputs);
    std::vector<Shape> in = inputs, out = *outputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      for (int axis = 0; axis < inputs[i].ndim(); ++axis)
        if (const auto changed = outputs_with_more(inputs, i, axis)) {
          in[i][axis] = Shape::kUnknown;
          mark_changes(*outputs, *changed, out);
        }
    for (size_t i = 0; i < in.size(); ++i) d.inputs[i].shape = in[i];
    for (size_t i = 0; i < out.size(); ++i) d.outputs[i].shape = out[i];
  }

  // With a larger extent of one input, or of all inputs along that axis.
  std::optional<std::vector<Shape>> outputs_with_more(const std::vector<Shape>& inputs, size_t input, int axis) const {
    constexpr int64_t kMore = 32;  // so that strides do not hide it
    std::vector<Shape> alone = inputs, all = inputs;
    alone[input][axis] += kMore;
    if (auto outputs = outputs_for(alone)) return outputs;
    for (Shape& shape : all)
      if (axis < shape.ndim() && shape[axis] == inputs[input][axis]) shape[axis] += kMore;
    return outputs_for(all);
  }
  static void mark_changes(const std::vector<Shape>& before, const std::vector<Shape>& after, std::vector<Shape>& marked) {
    for (size_t i = 0; i < before.size(); ++i)
      for (int axis = 0; axis < before[i].ndim() && before[i].ndim() == after[i].ndim(); ++axis)
        if (before[i][axis] != after[i][axis]) marked[i][axis] = Shape::kUnknown;
  }

  const Symbol& symbol_;
  const std::vector<std::string>& names_;
  const ShapeMap& parameters_;
  const DTypeMap& types_;
};

}  // namespace

ModelDescription describe_model(const Symbol& symbol, const std::vector<std::string>& inputs, const ShapeMap& parameter_shapes,
                                const DTypeMap& parameter_types) {
  return Description(symbol, inputs, parameter_shapes, parameter_types).make();
}

}  // namespace gluino
