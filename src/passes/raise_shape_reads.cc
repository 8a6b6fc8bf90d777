#include "passes/raise_shape_reads.h"

#include <algorithm>

namespace gluino {
namespace {

// For each value the highest of the same shape and dtype that it goes back to; a node's inputs come before it.
class Highest {
 public:
  explicit Highest(const Graph& graph) {
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
      std::vector<ValueId>& own = values_.emplace_back();
      const auto& inputs = graph.node(n).inputs;
      for (int i = 0; i < static_cast<int>(graph.node(n).outputs.size()); ++i) {
        const OutputInfo& wanted = graph.info({n, i});
        const auto above = std::find_if(inputs.begin(), inputs.end(), [&](ValueId v) {
          const OutputInfo& info = graph.info(v);
          return info.shape && wanted.shape && *info.shape == *wanted.shape && info.dtype == wanted.dtype;
        });
        own.push_back(above == inputs.end() ? ValueId{n, i} : values_[above->node][above->index]);
      }
    }
  }
  ValueId like(ValueId v) const { return values_[v.node][v.index]; }

 private:
  std::vector<std::vector<ValueId>> values_;
};

}  // namespace

Graph raise_shape_reads(const Graph& graph, const PassContext&) {
  const Highest highest(graph);
  Rewriter rewriter(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    Graph::Node node = graph.node(n);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool shape_only = node.op->input_spec(node.attrs, i).shape_only;
      node.inputs[i] = rewriter.mapped(shape_only ? highest.like(node.inputs[i]) : node.inputs[i]);
    }
    rewriter.put(n, std::move(node));
  }
  return rewriter.finish();
}

}  // namespace gluino
