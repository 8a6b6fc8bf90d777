#include "passes/absorb_transposes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dispatch/compiler_rules.h"
#include "passes/eliminate_dead.h"
#include "passes/facts/state_updates.h"

namespace gluino {
namespace {

class Absorber {
 public:
  explicit Absorber(Graph& graph) : graph_(graph), updates_(graph), rewriter_(graph) {}

  // Nothing, where no product changes.
  std::optional<Graph> run() {
    bool any = false;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const auto factor = turned_factor(n);
      if (factor)
        rewriter_.put(n, product(n, *factor));
      else
        rewriter_.keep(n);
      any |= factor.has_value();
    }
    if (!any) return {};
    return rewriter_.finish();
  }

 private:
  // The second factor is `from` with its axes in `order`, but for the last two, which are exchanged.
  struct Turned {
    int transpose;
    Shape order, shape;  // that of the factor before the exchange
  };

  std::optional<Turned> turned_factor(int n) const {
    const Graph::Node& node = graph_.node(n);
    const auto& matrix_product = rules_of(node.op).matrix_product;
    if (!matrix_product || matrix_product(node.attrs.get()).transpose_b) return {};
    ValueId v = node.inputs[1];
    Shape shape = graph_.shape(v);
    const int rank = shape.ndim();
    if (shape.elements() == 0) return {};  // an extent of 0 would be a code for Reshape
    std::swap(shape[rank - 2], shape[rank - 1]);
    // A view that joins the axes before the matrices.
    if (const Graph::Node& view = graph_.node(v);
        view.op && view.op->is_view && ends_alike(graph_.shape(view.inputs[0]), graph_.shape(v))) {
      if (updates_.forbid_moving(v.node, n)) return {};
      v = view.inputs[0];
    }
    const Graph::Node& transpose = graph_.node(v);
    const auto& permutation = rules_of(transpose.op).permutation;
    if (!permutation || updates_.forbid_moving(v.node, n)) return {};
    Shape order = permutation(transpose.attrs.get(), graph_.shape(transpose.inputs[0]));
    const int axes = order.ndim();
    if (axes < 2 || order[axes - 2] != axes - 1) return {};  // what lies side by side stays so
    std::swap(order[axes - 2], order[axes - 1]);
    return Turned{v.node, order, shape};
  }
  static bool ends_alike(const Shape& a, const Shape& b) {
    return a.ndim() > 1 && b.ndim() > 1 && a.back() == b.back() && a[a.ndim() - 2] == b[b.ndim() - 2];
  }

  Graph::Node product(int n, const Turned& factor) {
    Graph::Node made = graph_.node(n);
    const Graph::Node& transpose = graph_.node(factor.transpose);
    ValueId from = rewriter_.mapped(transpose.inputs[0]);
    Shape shape = graph_.shape(transpose.inputs[0]), unchanged = factor.order;
    std::iota(unchanged.begin(), unchanged.end(), 0);
    if (!(factor.order == unchanged)) {
      Shape turned = factor.order;
      for (int64_t& axis : turned) axis = shape[static_cast<int>(axis)];
      shape = turned;
      from = add(transpose_, transpose, "_rows", {"axes", factor.order}, from, shape);
    }
    if (!(shape == factor.shape)) from = add(reshape_, transpose, "_matrices", {"shape", factor.shape}, from, factor.shape);
    const MatrixProduct how = rules_of(made.op).matrix_product(made.attrs.get());
    const std::pair<std::string_view, AttrValue> attrs[] = {{"transpose_a", how.transpose_a}, {"transpose_b", true}};
    made.attrs = made.op->make_attrs(attrs);
    made.inputs = {rewriter_.mapped(made.inputs[0]), from};
    return made;
  }
  ValueId add(const OpDef& op, const Graph::Node& for_node, std::string_view end, std::pair<std::string_view, AttrValue> attr, ValueId from,
              const Shape& shape) {
    OutputInfo info = rewriter_.info(from);
    info.shape = shape;
    return {rewriter_.add({.op = &op,
                           .name = for_node.name + std::string(end),
                           .attrs = op.make_attrs({&attr, 1}),
                           .inputs = {from},
                           .outputs = {info},
                           .part = for_node.part}),
            0};
  }

  const OpDef &reshape_ = OpRegistry::global().get("Reshape"), &transpose_ = OpRegistry::global().get("transpose");
  const Graph& graph_;
  const StateUpdates updates_;
  Rewriter rewriter_;
};

}  // namespace

Graph absorb_transposes(Graph graph, const PassContext& context) {
  if (auto changed = Absorber(graph).run()) return eliminate_dead(std::move(*changed), context);
  return graph;
}

}  // namespace gluino
