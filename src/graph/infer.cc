// Shape and dtype inference over a whole graph, in both directions, until nothing new is learnt.
#include <algorithm>

#include "base/format.h"
#include "dispatch/infer.h"
#include "graph/graph.h"
#include "graph/propagate_types.h"
#include "graph/solve_extents.h"

namespace gluino {
namespace {

// What both know; raises ShapeError on a contradiction. Returns whether `into` learnt something.
bool unify(std::optional<Shape>& into, const std::optional<Shape>& from) {
  if (!from) return false;
  if (!into) {
    into = from;
    return true;
  }
  if (into->ndim() != from->ndim()) raise<ShapeError>("shape {} does not fit shape {}", *into, *from);
  bool learnt = false;
  for (int i = 0; i < into->ndim(); ++i) {
    int64_t& mine = (*into)[i];
    const int64_t theirs = (*from)[i];
    if (mine == theirs || theirs == Shape::kUnknown) continue;
    if (mine != Shape::kUnknown) raise<ShapeError>("shape {} does not fit shape {}", *into, *from);
    mine = theirs;
    learnt = true;
  }
  return learnt;
}

bool fully_known(const std::optional<Shape>& s) { return s && s->is_known(); }

// 0 means "to be inferred" in MXNet's files.
Shape with_unknowns(Shape s) {
  for (int64_t& extent : s)
    if (extent <= 0) extent = Shape::kUnknown;
  return s;
}

class Inference {
 public:
  Inference(Graph& graph, const ShapeMap& shapes, const DTypeMap& types) : graph_(graph), shapes_(shapes), types_(types) {}

  void infer_all_shapes() {
    for (auto& node : graph_.nodes)
      if (!node.op) start_leaf(node);
    is_settled_.assign(graph_.nodes.size(), false);
    for (int round = 0; round < 16 && pass(); ++round) {}
  }
  void infer_new() {
    for (auto& node : graph_.nodes) {
      if (std::ranges::all_of(node.outputs, [](const OutputInfo& o) { return fully_known(o.shape) && o.dtype; })) continue;
      if (!node.op) {
        start_leaf(node);
        continue;
      }
      try {
        visit(node);
        infer_types_of(node);
      } catch (const Error& e) {
        fail(node, e);
      }
    }
  }

  // What follows from known types; then, forward only, an unknown input takes the common dtype of its neighbours, and float32 where
  // there is none.
  void infer_types() {
    if (!start_types(graph_, types_)) propagate_types(graph_);
    for (auto& node : graph_.nodes) {
      if (!node.op) continue;
      try {
        check_input_count(*node.op, node.attrs, static_cast<int>(node.inputs.size()));
        infer_types_of(node);
      } catch (const Error& e) {
        fail(node, e);
      }
    }
    for (auto& node : graph_.nodes)
      if (!node.op && !node.outputs[0].dtype) node.outputs[0].dtype = DType::float32;
  }

 private:
  void infer_types_of(Graph::Node& node) {
    std::optional<DType> common;
    const auto spec = [&](size_t i) -> const InputSpec& { return node.op->input_spec(node.attrs, i); };
    const auto own = [&](size_t i) { return !node.op->is_variadic && spec(i).own_dtype; };
    const auto is_half = [](DType d) { return d == DType::float16 || d == DType::bfloat16; };
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (const auto& d = graph_.info(node.inputs[i]).dtype; d && !own(i)) common = common ? promote(*common, *d) : *d;
    in_types_.clear();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      auto& d = graph_.info(node.inputs[i]).dtype;
      const bool follows = !own(i) || (spec(i).wide_dtype && common && !is_half(*common));
      if (!d) d = follows ? common.value_or(DType::float32) : DType::float32;
      in_types_.push_back(*d);
    }
    gluino::infer_dtypes(*node.op, node.attrs, in_types_, out_types_);
    for (size_t i = 0; i < out_types_.size(); ++i) node.outputs[i].dtype = out_types_[i];
  }

  void start_leaf(Graph::Node& node) {
    OutputInfo& info = node.outputs[0];
    if (node.is_constant()) {
      info = {impl_of(node.constant).shape, impl_of(node.constant).dtype};
      return;
    }
    if (const auto it = shapes_.find(node.name); it != shapes_.end()) {
      info.shape = it->second;
    } else if (const auto attr = node.user_attrs.find("__shape__"); attr != node.user_attrs.end() && !info.shape) {
      const Shape s = AttrType<Shape>::parse("__shape__ of " + node.name, attr->second);
      if (!s.empty()) info.shape = with_unknowns(s);
    }
  }

  // Inside a catch block.
  [[noreturn]] static void fail(const Graph::Node& node, const Error& e) {
    if (e.located() != Located::nowhere) throw;
    const std::string who = node.op->name == node.name ? node.name : fmt::format("{} '{}'", node.op->name, node.name);
    rethrow_as(fmt::format("{}: {}{}", who, e.what(), node.origin.empty() ? "" : fmt::format(" (made at {})", node.origin)));
  }

  bool pass() {
    bool learnt = false;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      Graph::Node& node = graph_.nodes[n];
      if (!node.op || is_settled_[n]) continue;
      try {
        learnt |= visit(node);
        is_settled_[n] = is_settled(node);
      } catch (const Error& e) {
        fail(node, e);
      }
    }
    return learnt;
  }

  // Nothing more can be learnt where all is known, and all has been compared.
  bool is_settled(const Graph::Node& node) const {
    return std::ranges::all_of(node.inputs, [&](ValueId v) { return fully_known(graph_.info(v).shape); }) &&
           std::ranges::all_of(node.outputs, [](const OutputInfo& o) { return fully_known(o.shape); });
  }

  bool visit(Graph::Node& node) {
    const OpDef& op = *node.op;
    check_input_count(op, node.attrs, static_cast<int>(node.inputs.size()));
    OptionalShapes &in = in_, &out = out_;
    in.clear();
    out.clear();
    for (ValueId v : node.inputs) in.push_back(graph_.info(v).shape);
    for (const OutputInfo& o : node.outputs) out.push_back(o.shape);
    if (op.is_same_shape) {
      std::optional<Shape> common;
      for (const auto& s : in) unify(common, s);
      for (const auto& s : out) unify(common, s);
      for (auto& s : in) s = common;
      for (auto& s : out) s = common;
    }
    if (op.complete_inputs) op.complete_inputs(node.attrs.get(), in, out);
    if (!op.is_dynamic_shape) {
      forward(op, node.attrs, in, out);
      if (lacks_an_extent(in)) solve_input_extents(op, node.attrs, in, out);
    }
    bool learnt = false;
    for (size_t i = 0; i < in.size(); ++i) learnt |= unify(graph_.info(node.inputs[i]).shape, in[i]);
    for (size_t i = 0; i < out.size(); ++i) learnt |= unify(node.outputs[i].shape, out[i]);
    return learnt;
  }

  void forward(const OpDef& op, const Attrs& attrs, const OptionalShapes& in, OptionalShapes& out) {
    std::vector<Shape>&known = known_, &result = result_;
    known.clear();
    result.clear();
    bool complete = true;
    for (const auto& s : in) {
      if (!s) return;
      complete &= s->is_known();
      known.push_back(*s);
    }
    if (complete) {
      infer_shapes(op, attrs, known, result);
      if (in.empty())
        for (Shape& s : result) s = with_unknowns(s);
    } else if (!probe(op, attrs, known, result)) {
      if (!op.is_elementwise() || op.is_same_shape) return;
      result.assign(out.size(), broadcast_partially(known));
    }
    for (size_t i = 0; i < out.size(); ++i) unify(out[i], result[i]);
  }

  static bool lacks_an_extent(const OptionalShapes& in) {
    return std::any_of(in.begin(), in.end(), [](const auto& s) { return !fully_known(s); });
  }

  // An extent beside a larger one than 1 is that one or 1; beside ones alone it may be anything.
  static Shape broadcast_partially(const std::vector<Shape>& in) {
    int rank = 0;
    for (const Shape& s : in) rank = std::max(rank, s.ndim());
    Shape result = Shape::filled(rank, 1);
    for (const Shape& s : in)
      for (int i = 0; i < s.ndim(); ++i) {
        int64_t& extent = result[rank - s.ndim() + i];
        if (s[i] == 1 || (s[i] == Shape::kUnknown && extent != 1)) continue;
        if (extent != 1 && extent != Shape::kUnknown && extent != s[i])
          raise<ShapeError>("shapes {} cannot be broadcast together", fmt::join(in, ", "));
        extent = s[i];
      }
    return result;
  }

  // Rules are written for known extents. With two different numbers in place of the unknown ones, an output extent
  // that comes out the same both times does not depend on them; one that differs is unknown.
  static bool probe(const OpDef& op, const Attrs& attrs, const std::vector<Shape>& in, std::vector<Shape>& result) {
    std::vector<Shape> first, second;
    try {
      infer_shapes(op, attrs, substituted(in, 96), first);
      infer_shapes(op, attrs, substituted(in, 240), second);
    } catch (const Error&) {
      return false;
    }
    result = first;
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].ndim() != second[i].ndim()) return false;
      for (int k = 0; k < first[i].ndim(); ++k)
        if (first[i][k] != second[i][k]) result[i][k] = Shape::kUnknown;
    }
    return true;
  }
  static std::vector<Shape> substituted(std::vector<Shape> shapes, int64_t number) {
    for (Shape& s : shapes) std::replace(s.begin(), s.end(), Shape::kUnknown, number);
    return shapes;
  }

  Graph& graph_;
  const ShapeMap& shapes_;
  const DTypeMap& types_;
  std::vector<bool> is_settled_;  // by node
  // Of the node that is looked at; here, so that not every node takes memory for them.
  OptionalShapes in_, out_;
  std::vector<Shape> known_, result_;
  std::vector<DType> in_types_, out_types_;
};

}  // namespace

void infer_graph(Graph& graph, const ShapeMap& shapes, const DTypeMap& types) {
  infer_graph_shapes(graph, shapes);
  infer_graph_types(graph, types);
}
void infer_graph_shapes(Graph& graph, const ShapeMap& shapes) { Inference(graph, shapes, {}).infer_all_shapes(); }
void infer_graph_types(Graph& graph, const DTypeMap& types) { Inference(graph, {}, types).infer_types(); }

void infer_new_nodes(Graph& graph) { Inference(graph, {}, {}).infer_new(); }

bool is_complete(const Graph& graph) {
  for (const auto& node : graph.nodes)
    for (const OutputInfo& o : node.outputs)
      if (!fully_known(o.shape)) return false;
  return true;
}

}  // namespace gluino
