#include "passes/fuse_elementwise.h"

#include <algorithm>
#include <map>

#include "kernels/program_text.h"
#include "passes/differentiate.h"
#include "passes/scalar_program.h"

namespace gluino {
namespace {

constexpr size_t kMostInputs = 8;

class Fusion {
 public:
  explicit Fusion(const Graph& graph)
      : graph_(graph), group_(graph.nodes.size(), -1), readers_(graph.nodes.size()), backward_begins_(count_forward_nodes(graph)) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (ValueId v : graph.nodes[i].inputs) readers_[static_cast<size_t>(v.node)].push_back(static_cast<int>(i));
    for (ValueId v : graph.outputs) readers_[static_cast<size_t>(v.node)].push_back(kOutside);
  }

  Graph run() {
    // From the last node back: each one that is in no group yet ends a group of its own.
    for (int n = static_cast<int>(graph_.nodes.size()); n-- > 0;)
      if (group_[static_cast<size_t>(n)] < 0 && can_fuse(n)) grow(n);
    Rewriter rewriter(graph_);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const auto members = members_.find(group_[static_cast<size_t>(n)]);
      if (members == members_.end() || members->second.size() < 2)
        rewriter.keep(n);
      else if (members->first == n)
        emit(n, members->second, rewriter);
    }
    return rewriter.finish();
  }

 private:
  static constexpr int kOutside = -1;
  const Graph::Node& node(int n) const { return graph_.nodes[static_cast<size_t>(n)]; }

  bool can_fuse(int n) const {
    const Graph::Node& x = node(n);
    if (!x.op || !x.op->is_elementwise() || x.outputs.size() != 1 || has_effect(x) || !x.outputs[0].shape || !x.outputs[0].dtype)
      return false;
    if (!computes_in(graph_, x, *x.outputs[0].dtype)) return false;
    const Program p = program_of(x, *x.outputs[0].dtype);
    return p[p.size() - 1].fn != ScalarFn::input;  // a copy has no instruction of its own
  }

  // Takes in producers of the same shape and dtype whose readers are all in the group.
  void grow(int last) {
    std::vector<int>& members = members_[last];
    members = {last};
    group_[static_cast<size_t>(last)] = last;
    int instructions = program_of(node(last), *node(last).outputs[0].dtype).size();
    for (size_t k = 0; k < members.size(); ++k)
      for (ValueId v : node(members[k]).inputs) {
        if (group_[static_cast<size_t>(v.node)] >= 0 || !can_fuse(v.node) || !belongs(v.node, last)) continue;
        const int more = program_of(node(v.node), *node(last).outputs[0].dtype).size();
        if (instructions + more > Program::kMaxInstructions || inputs_of(members, v.node).size() > kMostInputs) continue;
        instructions += more;
        members.push_back(v.node);
        group_[static_cast<size_t>(v.node)] = last;
        k = static_cast<size_t>(-1);  // a node may fit once all its readers are in
        break;
      }
    std::sort(members.begin(), members.end());
  }
  bool belongs(int n, int last) const {
    if ((n < backward_begins_) != (last < backward_begins_)) return false;
    if (!(*node(n).outputs[0].shape == *node(last).outputs[0].shape) || node(n).outputs[0].dtype != node(last).outputs[0].dtype)
      return false;
    const auto& readers = readers_[static_cast<size_t>(n)];
    return std::all_of(readers.begin(), readers.end(), [&](int r) { return r != kOutside && group_[static_cast<size_t>(r)] == last; });
  }
  std::vector<ValueId> inputs_of(const std::vector<int>& members, int extra = -1) const {
    std::vector<ValueId> inputs;
    std::vector<int> all = members;
    if (extra >= 0) all.push_back(extra);
    for (int m : all)
      for (ValueId v : node(m).inputs)
        if (std::find(all.begin(), all.end(), v.node) == all.end() && std::find(inputs.begin(), inputs.end(), v) == inputs.end())
          inputs.push_back(v);
    return inputs;
  }

  void emit(int last, const std::vector<int>& members, Rewriter& rewriter) {
    const DType dtype = *node(last).outputs[0].dtype;
    Program program(dtype == DType::float64 ? ComputeType::f64 : ComputeType::f32);
    const std::vector<ValueId> inputs = inputs_of(members);
    std::map<ValueId, Expr> values;
    for (size_t i = 0; i < inputs.size(); ++i) values.emplace(inputs[i], Expr::input(program, static_cast<int>(i)));
    for (int m : members) {
      std::vector<Expr> arguments;
      for (ValueId v : node(m).inputs) arguments.push_back(values.at(v));
      values.emplace(ValueId{m, 0}, node(m).op->expression(node(m).attrs.get(), arguments));
    }
    const OpDef& fused = OpRegistry::global().get("_fused");
    const std::pair<std::string_view, AttrValue> attrs[] = {{"program", program_text(program)}};
    Graph::Node made{&fused, node(last).name, fused.make_attrs(attrs), {}, {}, {}, node(last).outputs};
    for (ValueId v : inputs) made.inputs.push_back(rewriter.mapped(v));
    rewriter.put(last, std::move(made));
  }

  const Graph& graph_;
  std::vector<int> group_;  // the last node of the group that a node is in
  std::map<int, std::vector<int>> members_;
  std::vector<std::vector<int>> readers_;
  int backward_begins_;  // a group lies in one of the two passes
};

}  // namespace

Graph fuse_elementwise(const Graph& graph, const PassContext&) { return Fusion(graph).run(); }

}  // namespace gluino
