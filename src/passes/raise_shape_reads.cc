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

Graph raise_shape_reads(Graph graph, const PassContext&) {
  const Highest highest(graph);
  Rewriter rewriter(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Graph::Node& node = graph.node(n);
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (node.op->input_spec(node.attrs, i).shape_only) inputs[i] = highest.like(inputs[i]);
    if (inputs == node.inputs) {
      rewriter.keep(n);
      continue;
    }
    Graph::Node made = node;
    made.inputs.clear();
    for (ValueId v : inputs) made.inputs.push_back(rewriter.mapped(v));
    rewriter.put(n, std::move(made));
  }
  return rewriter.finish();
}

}  // namespace gluino
