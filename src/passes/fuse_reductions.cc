#include "passes/fuse_reductions.h"

#include <map>

#include "passes/differentiate.h"
#include "passes/readers.h"
#include "passes/scalar_program.h"
#include "passes/state_updates.h"

namespace gluino {
namespace {

using AttrList = std::vector<std::pair<std::string_view, AttrValue>>;

}  // namespace

Graph fuse_reductions(const Graph& graph, const PassContext&) {
  const Readers readers(graph);
  const int backward_begins = count_forward_nodes(graph);
  const StateUpdates updates(graph);
  const OpDef& fused = OpRegistry::global().get("_fused_reduce");
  struct Taken {
    int source;
    std::string program;
    Reduction reduction;
  };
  std::map<int, Taken> taken_by;  // reduction -> what it takes over
  std::vector<bool> is_taken(graph.nodes.size(), false);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Graph::Node& node = graph.nodes[static_cast<size_t>(n)];
    if (!node.op || !node.op->reduction || !node.outputs[0].shape) continue;
    const int source = node.inputs[0].node;
    if (graph.info(node.inputs[0]).dtype != node.outputs[0].dtype || node.outputs[0].dtype == DType::boolean) continue;
    if (readers.count(source) != 1 || (source < backward_begins) != (n < backward_begins)) continue;
    if (updates.forbid_moving(source, n)) continue;
    std::vector<Shape> shapes;
    for (ValueId v : node.inputs) shapes.push_back(*graph.info(v).shape);
    Reduction reduction = node.op->reduction(node.attrs.get(), shapes);
    std::string program = program_text_of(graph, graph.nodes[static_cast<size_t>(source)]);
    if (program.empty() || reduction.axes.empty()) continue;
    is_taken[static_cast<size_t>(source)] = true;
    taken_by[n] = {source, std::move(program), std::move(reduction)};
  }

  Rewriter rewriter(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const auto found = taken_by.find(n);
    if (found == taken_by.end()) {
      if (!is_taken[static_cast<size_t>(n)]) rewriter.keep(n);
      continue;
    }
    const auto& [source, program, r] = found->second;
    const Graph::Node& node = graph.nodes[static_cast<size_t>(n)];
    const AttrList attrs{{"program", program}, {"how", r.how}, {"finish", r.finish}, {"axis", r.axes}, {"shape", *node.outputs[0].shape}};
    Graph::Node made{&fused, node.name, fused.make_attrs(attrs), {}, {}, {}, node.outputs};
    for (ValueId v : graph.nodes[static_cast<size_t>(source)].inputs) made.inputs.push_back(rewriter.mapped(v));
    rewriter.put(n, std::move(made));
  }
  return rewriter.finish();
}

}  // namespace gluino
