#include "passes/fold_constants.h"

#include "base/format.h"
#include "passes/facts/result_memory.h"

namespace gluino {

// Larger results are cheaper to compute again than to keep.
static constexpr int64_t kLargestFolded = 1 << 20;

Graph fold_constants(Graph graph, const PassContext&) {
  // A result stays computed: the caller owns it and may change it.
  const ResultMemory memory(graph);
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.node(i);
    bool foldable = node.op && !memory.is_given(static_cast<int>(i)) && !has_effect(node) && !node.op->is_mode_dependent &&
                    !node.op->is_dynamic_shape && !node.op->has_subgraphs();
    int64_t bytes = 0;
    Tensors inputs;
    for (size_t k = 0; foldable && k < node.inputs.size(); ++k) {
      const ValueId v = rewriter.mapped(node.inputs[k]);
      const auto& source = rewriter.node(v);
      foldable = source.is_constant() && source.is_folded;
      inputs.push_back(source.constant);
    }
    for (const OutputInfo& o : node.outputs) {
      foldable = foldable && o.shape && o.shape->is_known();
      if (foldable) bytes += o.shape->elements() * dtype_bytes(*o.dtype);
    }
    if (!foldable || bytes > kLargestFolded) {
      rewriter.keep(static_cast<int>(i));
      continue;
    }
    Tensors results;
    for (const OutputInfo& o : node.outputs) results.push_back(make_tensor(*o.shape, *o.dtype, current_device()));
    apply_into(*node.op, inputs, node.attrs, results);
    std::vector<ValueId> values;
    for (size_t k = 0; k < results.size(); ++k) {
      std::string name = results.size() == 1 ? node.name : fmt::format("{}_{}", node.name, k);
      const int made = rewriter.add({.name = std::move(name), .constant = results[k], .outputs = {node.outputs[k]}, .is_folded = true});
      values.push_back({made, 0});
    }
    rewriter.replace(static_cast<int>(i), values);
  }
  return rewriter.finish();
}

}  // namespace gluino
