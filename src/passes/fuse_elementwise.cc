#include "passes/fuse_elementwise.h"

#include <algorithm>
#include <map>

#include "kernels/elementwise/elementwise.h"
#include "passes/facts/readers.h"
#include "passes/facts/scalar_program.h"
#include "passes/facts/state_updates.h"
#include "program/program_text.h"

namespace gluino {
namespace {

constexpr size_t kMostInputs = kernels::CompiledLoops::kMostInputs, kMostResults = Program::kMaxResults;

class Fusion {
 public:
  explicit Fusion(Graph& graph)
      : graph_(graph), updates_(graph), group_(graph.nodes.size(), -1), readers_(graph), backward_begins_(graph.count_forward_nodes()) {
    for (const Graph::Node& n : graph.nodes) types_.push_back(scalar_type(graph, n));
  }

  Graph run() {
    // From the last node back: each one that is in no group yet ends a group of its own.
    for (int n = static_cast<int>(graph_.nodes.size()); n-- > 0;)
      if (group_[n] < 0 && types_[n]) grow(n);
    Rewriter rewriter(graph_);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const auto members = members_.find(group_[n]);
      if (members == members_.end() || members->second.size() < 2)
        rewriter.keep(n);
      else if (members->first == n)
        emit(n, members->second, rewriter);
    }
    return rewriter.finish();
  }

 private:
  // Takes in producers of the same shape that compute in the same type. What others read becomes a result of the group; they must
  // come after it.
  void grow(int last) {
    std::vector<int>& members = members_[last];
    members = {last};
    group_[last] = last;
    const ComputeType type = *types_[last];
    int instructions = size_of(last, type);
    for (size_t k = 0; k < members.size(); ++k)
      for (ValueId v : values_read(members[k])) {
        if (group_[v.node] >= 0 || !computes_in(v.node, type, last) || !belongs(v.node, last)) continue;
        const int more = size_of(v.node, type);
        const std::vector<ValueId> inputs = inputs_of(members, v.node);
        if (instructions + more > Program::kMaxInstructions || inputs.size() > kMostInputs || !give_shape(inputs, last)) continue;
        if (results_of(members, last, v.node).size() > kMostResults) continue;
        instructions += more;
        members.push_back(v.node);
        group_[v.node] = last;
        k = static_cast<size_t>(-1);  // a node may fit once all its readers are in
        break;
      }
    std::sort(members.begin(), members.end());
  }
  // Whether node n can be computed in the type of the group. Comparisons of whole numbers can be made among floats; where those cannot
  // hold the result as its dtype would, nobody else may read it.
  bool computes_in(int n, ComputeType type, int last) const {
    if (types_[n] == type) return true;
    if (!compares_alike(graph_, graph_.node(n), type)) return false;
    const auto& readers = readers_.of(n);
    const auto is_in_group = [&](int r) { return r != Readers::kCaller && group_[r] == last; };
    return holds(type, *graph_.node(n).outputs[0].dtype) || std::all_of(readers.begin(), readers.end(), is_in_group);
  }
  // The inputs without those of which only the shape is read.
  std::vector<ValueId> values_read(int n) const {
    std::vector<ValueId> values;
    const Graph::Node& node = graph_.node(n);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.op->input_spec(node.attrs, i).shape_only) values.push_back(node.inputs[i]);
    return values;
  }
  bool give_shape(const std::vector<ValueId>& inputs, int last) const {
    std::vector<const Shape*> shapes;
    for (ValueId v : inputs) shapes.push_back(&graph_.shape(v));
    return broadcast_to_exactly(shapes, *graph_.node(last).outputs[0].shape);
  }
  // Its own instructions, and one that a result may need to be of the right dtype.
  int size_of(int n, ComputeType type) const { return program_of(graph_.node(n), type).size() + 1; }
  bool belongs(int n, int last) const {
    if (!graph_.run_together(n, last, backward_begins_) || updates_.forbid_moving(n, last)) return false;
    if (!(*graph_.node(n).outputs[0].shape == *graph_.node(last).outputs[0].shape)) return false;
    const auto& readers = readers_.of(n);
    return std::all_of(readers.begin(), readers.end(), [&](int r) { return r > last || group_[r] == last; });
  }
  std::vector<ValueId> inputs_of(const std::vector<int>& members, int extra = -1) const {
    std::vector<ValueId> inputs;
    std::vector<int> all = members;
    if (extra >= 0) all.push_back(extra);
    for (int m : all)
      for (ValueId v : values_read(m))
        if (std::find(all.begin(), all.end(), v.node) == all.end() && std::find(inputs.begin(), inputs.end(), v) == inputs.end())
          inputs.push_back(v);
    return inputs;
  }
  // The members that are read outside of the group, first of all the last one.
  std::vector<int> results_of(const std::vector<int>& members, int last, int extra = -1) const {
    std::vector<int> results{last}, all = members;
    if (extra >= 0) all.push_back(extra);
    for (int m : all) {
      const auto& readers = readers_.of(m);
      const auto is_outside = [&](int r) { return std::find(all.begin(), all.end(), r) == all.end(); };
      if (m != last && std::any_of(readers.begin(), readers.end(), is_outside)) results.push_back(m);
    }
    return results;
  }

  void emit(int last, const std::vector<int>& members, Rewriter& rewriter) {
    Program program(*types_[last]);
    const std::vector<ValueId> inputs = inputs_of(members);
    std::map<ValueId, Expr> values;
    for (size_t i = 0; i < inputs.size(); ++i) values.emplace(inputs[i], Expr::input(program, static_cast<int>(i)));
    for (int m : members) {
      const Graph::Node& node = graph_.node(m);
      std::vector<Expr> arguments;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const bool shape_only = node.op->input_spec(node.attrs, i).shape_only;
        arguments.push_back(shape_only ? values.begin()->second : values.at(node.inputs[i]));  // any will do where none is read
      }
      values.emplace(ValueId{m, 0}, rounded(node.op->expression(node.attrs.get(), arguments), *node.outputs[0].dtype));
    }
    const std::vector<int> results = results_of(members, last);
    Graph::Node made{.op = &OpRegistry::global().get("_fused"), .name = graph_.node(last).name, .part = graph_.node(last).part};
    for (size_t r = 0; r < results.size(); ++r) {
      const OutputInfo& info = graph_.node(results[r]).outputs[0];
      const Expr value = values.at({results[r], 0});
      const bool has_dtype = kernels::dtype_of_value(program, value.position()) == *info.dtype;
      program.add_result(has_dtype ? value.position() : widen(value).position());
      made.outputs.push_back(info);
    }
    const std::pair<std::string_view, AttrValue> attrs[] = {{"program", program_text(program)}};
    made.attrs = made.op->make_attrs(attrs);
    for (ValueId v : inputs) made.inputs.push_back(rewriter.mapped(v));
    const int number = rewriter.put(last, std::move(made));
    for (size_t r = 1; r < results.size(); ++r) rewriter.replace({results[r], 0}, {number, static_cast<int>(r)});
  }

  Graph& graph_;  // as it was until the end
  const StateUpdates updates_;
  std::vector<std::optional<ComputeType>> types_;  // of the nodes that can be fused
  std::vector<int> group_;                         // the last node of the group that a node is in
  std::map<int, std::vector<int>> members_;
  const Readers readers_;
  const int backward_begins_;
};

}  // namespace

Graph fuse_elementwise(Graph graph, const PassContext&) { return Fusion(graph).run(); }

}  // namespace gluino
