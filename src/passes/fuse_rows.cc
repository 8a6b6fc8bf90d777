#include "passes/fuse_rows.h"

#include <algorithm>
#include <map>

#include "kernels/primitives.h"
#include "kernels/row_program.h"
#include "op/infer.h"
#include "passes/differentiate.h"
#include "passes/readers.h"
#include "passes/scalar_program.h"
#include "passes/state_updates.h"

namespace gluino {
namespace {

using kernels::RowProgram;
using kernels::RowStage;

constexpr size_t kMostInputs = 16, kMostStages = 32;
constexpr int64_t kLongestRow = 32768;             // longer ones leave the cache
constexpr int64_t kFewRows = 16, kLongRow = 4096;  // few long rows are not enough work for all threads

// What a node can be in a group.
struct Member {
  enum class Kind : uint8_t { none, map, reduction, call } kind = Kind::none;
  ComputeType type = ComputeType::f32;
  std::optional<RowCall> call;
  std::optional<Reduction> reduction;
};

// The rows that a group works on.
struct Rows {
  Shape whole, narrow;  // narrow: with one number per row
  Shape axes;           // of a row
  int64_t length = 1, count = 1;
  Rows(const Shape& shape, int row_axes) : whole(shape), narrow(shape) {
    for (int i = 0; i < shape.ndim(); ++i) {
      const bool in_row = i >= shape.ndim() - row_axes;
      (in_row ? length : count) *= shape[i];
      if (!in_row) continue;
      narrow[i] = 1;
      axes.push_back(i);
    }
  }
};

class RowFusion {
 public:
  explicit RowFusion(const Graph& graph)
      : graph_(graph), updates_(graph), group_(graph.nodes.size(), -1), readers_(graph), backward_begins_(count_forward_nodes(graph)) {
    for (const Graph::Node& n : graph.nodes) members_.push_back(classify(n));
  }

  Graph run() {
    for (int n = static_cast<int>(graph_.nodes.size()); n-- > 0;)
      if (group_[static_cast<size_t>(n)] < 0 && (member(n).call || member(n).reduction)) grow(n);
    Rewriter rewriter(graph_);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const int last = group_[static_cast<size_t>(n)];
      if (last < 0)
        rewriter.keep(n);
      else if (last == n)
        emit(groups_.at(n), rewriter);
    }
    return rewriter.finish();
  }

 private:
  struct Group {
    Rows rows;
    ComputeType type;
    std::vector<int> nodes;  // in order
    bool has(int n) const { return std::binary_search(nodes.begin(), nodes.end(), n); }
    Group with(int n) const {
      Group more = *this;
      more.nodes.insert(std::upper_bound(more.nodes.begin(), more.nodes.end(), n), n);
      return more;
    }
  };

  const Graph::Node& node(int n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const Member& member(int n) const { return members_[static_cast<size_t>(n)]; }
  const Shape& shape(ValueId v) const { return *graph_.info(v).shape; }

  static bool is_real(ComputeType type) { return type == ComputeType::f32 || type == ComputeType::f64; }

  Member classify(const Graph::Node& n) const {
    if (!n.op || has_effect(n)) return {};
    for (const OutputInfo& o : n.outputs)
      if (!o.shape || !o.dtype) return {};
    if (const auto type = scalar_type(graph_, n))
      return is_real(*type) && has_shape_of_inputs(graph_, n) ? Member{Member::Kind::map, *type, {}, {}} : Member{};
    if (const auto program = fused_program(n))
      return is_real(program->type()) ? Member{Member::Kind::map, program->type(), {}, {}} : Member{};
    if (!n.op->row_call && !n.op->reduction) return {};
    std::vector<Shape> shapes;
    std::vector<DType> dtypes;
    for (ValueId v : n.inputs) {
      shapes.push_back(shape(v));
      dtypes.push_back(*graph_.info(v).dtype);
    }
    const DType dtype = promote_inputs(*n.op, n.attrs, dtypes);
    const ComputeType type = kernels::compute_type(dtype);
    if (!is_real(type)) return {};
    if (n.op->reduction) {
      // 16-bit floats are summed in another order.
      if (dtypes[0] != kernels::storage_of(type) || n.outputs[0].dtype != dtypes[0]) return {};
      return {Member::Kind::reduction, type, {}, n.op->reduction(n.attrs.get(), shapes)};
    }
    const bool all_held = std::all_of(n.outputs.begin(), n.outputs.end(), [&](const OutputInfo& o) { return holds(type, *o.dtype); });
    auto call = n.op->row_call(n.attrs.get(), shapes);
    return call && all_held ? Member{Member::Kind::call, type, std::move(call), {}} : Member{};
  }

  // Starts from a node that works on rows and takes in its neighbours as long as everything that others read is read later.
  void grow(int seed) {
    const Member& m = member(seed);
    const Shape& data = shape(node(seed).inputs[0]);
    Group group{Rows(data, m.reduction ? m.reduction->axes.ndim() : 1), m.type, {seed}};
    const auto& [length, count] = std::pair(group.rows.length, group.rows.count);
    if (length < 2 || length > kLongestRow || (count < kFewRows && length > kLongRow)) return;
    if (!fits(seed, group)) return;
    for (bool more = true; more;) {
      more = false;
      for (int neighbour : neighbours(group))
        if (const Group larger = group.with(neighbour); fits(neighbour, group) && is_valid(larger)) {
          group = larger;
          more = true;
          break;
        }
    }
    if (!is_worth_it(group)) return;
    const int last = group.nodes.back();
    for (int n : group.nodes) group_[static_cast<size_t>(n)] = last;
    groups_.emplace(last, std::move(group));
  }
  std::vector<int> neighbours(const Group& group) const {
    std::vector<int> found;
    for (int n : group.nodes) {
      for (ValueId v : node(n).inputs) found.push_back(v.node);
      for (int r : readers_.of(n))
        if (r != Readers::kCaller) found.push_back(r);
    }
    std::erase_if(found, [&](int n) { return group.has(n) || group_[static_cast<size_t>(n)] >= 0; });
    return found;
  }
  bool fits(int n, const Group& group) const {
    const Member& m = member(n);
    if (m.kind == Member::Kind::none || m.type != group.type) return false;
    if ((n < backward_begins_) != (group.nodes[0] < backward_begins_)) return false;
    const Shape& out = *node(n).outputs[0].shape;
    if (m.kind == Member::Kind::map) return out == group.rows.whole || out == group.rows.narrow;
    if (!(shape(node(n).inputs[0]) == group.rows.whole)) return false;
    if (m.reduction) return out == group.rows.narrow && m.reduction->axes == group.rows.axes;
    return out == group.rows.whole && group.rows.axes.ndim() == 1;
  }
  bool is_valid(const Group& group) const {
    const int last = group.nodes.back();
    for (int n : group.nodes) {
      if (updates_.forbid_moving(n, last)) return false;
      for (int r : readers_.of(n))
        if (r < last && !group.has(r)) return false;
    }
    return inputs_of(group).size() <= kMostInputs && results_of(group).size() <= Program::kMaxResults &&
           group.nodes.size() * 2 <= kMostStages;
  }
  // A reduction that nobody in the group spreads over its row again is left to fuse_reductions.
  bool is_worth_it(const Group& group) const {
    if (group.nodes.size() < 2) return false;
    return std::any_of(group.nodes.begin(), group.nodes.end(), [&](int n) {
      if (member(n).call) return true;
      if (!(*node(n).outputs[0].shape == group.rows.whole)) return false;
      const auto& in = node(n).inputs;
      return std::any_of(in.begin(), in.end(), [&](ValueId v) { return group.has(v.node) && shape(v) == group.rows.narrow; });
    });
  }

  std::vector<ValueId> inputs_of(const Group& group) const {
    std::vector<ValueId> inputs;
    for (int n : group.nodes)
      for (ValueId v : node(n).inputs)
        if (!group.has(v.node) && std::find(inputs.begin(), inputs.end(), v) == inputs.end()) inputs.push_back(v);
    return inputs;
  }
  // What is read outside of the group; the last node's come first.
  std::vector<ValueId> results_of(const Group& group) const {
    std::vector<ValueId> results;
    for (size_t k = group.nodes.size(); k-- > 0;) {
      const int n = group.nodes[k];
      for (int i = 0; i < static_cast<int>(node(n).outputs.size()); ++i)
        if (is_read_outside({n, i}, group)) results.push_back({n, i});
    }
    return results;
  }
  bool is_read_outside(ValueId v, const Group& group) const {
    const auto& readers = readers_.of(v.node);
    return std::any_of(readers.begin(), readers.end(), [&](int r) {
      const auto& read = r == Readers::kCaller ? graph_.outputs : node(r).inputs;
      return (r == Readers::kCaller || !group.has(r)) && std::find(read.begin(), read.end(), v) != read.end();
    });
  }

  void emit(const Group& group, Rewriter& rewriter) {
    const std::vector<ValueId> inputs = inputs_of(group), results = results_of(group);
    RowProgram program;
    program.type = group.type;
    std::map<ValueId, int> values;
    for (size_t i = 0; i < inputs.size(); ++i) values[inputs[i]] = static_cast<int>(i);
    int count = static_cast<int>(inputs.size());
    const auto add = [&](RowStage stage) {
      const int first = count;
      count += stage.gives();
      program.stages.push_back(std::move(stage));
      return first;
    };
    const auto add_map = [&](const Program& p, std::vector<int> arguments) { return add(kernels::map_stage(p, std::move(arguments))); };
    Program copying(group.type);
    Expr::input(copying, 0);
    for (int n : group.nodes) {
      const Member& m = member(n);
      std::vector<int> arguments;
      for (ValueId v : node(n).inputs) {
        // A map reads any input, others only rows of the computed type.
        const bool converts = m.kind != Member::Kind::map && values.at(v) < static_cast<int>(inputs.size()) && !is_rows(v, group);
        arguments.push_back(converts ? add_map(copying, {values.at(v)}) : values.at(v));
      }
      int first = 0;
      if (m.kind == Member::Kind::map) {
        const auto fused = fused_program(node(n));
        first = add_map(fused ? *fused : program_of(node(n), group.type), arguments);
      } else if (m.reduction) {
        first = add(kernels::reduction_stage(m.reduction->how, m.reduction->finish, arguments[0]));
      } else {
        first = add(kernels::function_stage(m.call->function, arguments, m.call->number));
      }
      for (int i = 0; i < static_cast<int>(node(n).outputs.size()); ++i) {
        int value = first + i;
        const DType dtype = *node(n).outputs[static_cast<size_t>(i)].dtype;
        if (m.kind == Member::Kind::call && dtype != kernels::storage_of(group.type)) {
          Program rounding(group.type);
          rounded(Expr::input(rounding, 0), dtype);
          value = add_map(rounding, {value});
        }
        values[{n, i}] = value;
      }
    }
    const int last = group.nodes.back();
    Graph::Node made{&OpRegistry::global().get("_fused_rows"), node(last).name, {}, {}, {}, {}, {}};
    for (ValueId v : results) {
      program.results.push_back(values.at(v));
      made.outputs.push_back(graph_.info(v));
    }
    const std::pair<std::string_view, AttrValue> attrs[] = {{"program", row_program_text(program)}, {"axes", group.rows.axes.ndim()}};
    made.attrs = made.op->make_attrs(attrs);
    for (ValueId v : inputs) made.inputs.push_back(rewriter.mapped(v));
    const int number = rewriter.put(last, std::move(made));
    for (int n : group.nodes) {
      std::vector<ValueId> outputs(node(n).outputs.size(), {number, 0});
      for (size_t r = 0; r < results.size(); ++r)
        if (results[r].node == n) outputs[static_cast<size_t>(results[r].index)].index = static_cast<int>(r);
      rewriter.replace(n, std::move(outputs));
    }
  }
  bool is_rows(ValueId v, const Group& group) const {
    const OutputInfo& info = graph_.info(v);
    return *info.dtype == kernels::storage_of(group.type) && (*info.shape == group.rows.whole || *info.shape == Shape{group.rows.length});
  }

  const Graph& graph_;
  const StateUpdates updates_;
  std::vector<Member> members_;
  std::vector<int> group_;  // the last node of the group that a node is in
  std::map<int, Group> groups_;
  const Readers readers_;
  int backward_begins_;  // a group lies in one of the two passes
};

}  // namespace

Graph fuse_rows(const Graph& graph, const PassContext&) { return RowFusion(graph).run(); }

}  // namespace gluino
