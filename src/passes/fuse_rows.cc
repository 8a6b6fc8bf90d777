#include "passes/fuse_rows.h"

#include <algorithm>
#include <map>

#include "dispatch/compiler_rules.h"
#include "dispatch/infer.h"
#include "kernels/isa/primitives.h"
#include "passes/facts/readers.h"
#include "passes/facts/scalar_program.h"
#include "passes/facts/state_updates.h"
#include "program/row_program.h"

namespace gluino {
namespace {

using kernels::RowProgram;
using kernels::RowStage;
using kernels::RowValue;

constexpr size_t kMostInputs = 16, kMostStages = 32;
constexpr int64_t kLongestRow = 32768;             // longer ones leave the cache
constexpr int64_t kFewRows = 16, kLongRow = 4096;  // few long rows are not enough work for all threads

// What a node can be in a group.
struct Member {
  enum class Kind : uint8_t { none, map, reduction, call } kind = Kind::none;
  ComputeType type = ComputeType::f32;
  std::optional<RowCall> call;
  std::optional<Reduction> reduction;
  const kernels::RowSignature* signature = nullptr;  // of the call
};

// The rows that a group works on.
struct Rows {
  Shape whole, narrow, flat;  // narrow, flat: of one number per row, with and without the axes of a row
  Shape axes;                 // of a row
  int64_t length = 1, count = 1;
  bool is_number(const Shape& s) const { return s == narrow || s == flat; }
  Rows(const Shape& shape, int row_axes) : whole(shape), narrow(shape) {
    for (int i = 0; i < shape.ndim(); ++i) {
      const bool in_row = i >= shape.ndim() - row_axes;
      (in_row ? length : count) *= shape[i];
      if (!in_row) {
        flat.push_back(shape[i]);
        continue;
      }
      narrow[i] = 1;
      axes.push_back(i);
    }
  }
};

class RowFusion {
 public:
  explicit RowFusion(Graph& graph)
      : graph_(graph), updates_(graph), group_(graph.nodes.size(), -1), readers_(graph), backward_begins_(graph.count_forward_nodes()) {
    for (const Graph::Node& n : graph.nodes) members_.push_back(classify(n));
  }

  Graph run() {
    for (int n = static_cast<int>(graph_.nodes.size()); n-- > 0;)
      if (group_[n] < 0 && (member(n).call || member(n).reduction)) grow(n);
    Rewriter rewriter(graph_);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const int last = group_[n];
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

  const Member& member(int n) const { return members_[n]; }

  static bool is_real(ComputeType type) { return type == ComputeType::f32 || type == ComputeType::f64; }

  Member classify(const Graph::Node& n) const {
    if (!n.op || has_effect(n)) return {};
    for (const OutputInfo& o : n.outputs)
      if (!o.shape || !o.dtype) return {};
    if (const auto type = scalar_type(graph_, n))
      return is_real(*type) && has_shape_of_inputs(graph_, n) ? Member{Member::Kind::map, *type, {}, {}} : Member{};
    if (const auto program = fused_program(n))
      return is_real(program->type()) ? Member{Member::Kind::map, program->type(), {}, {}} : Member{};
    const CompilerRules& rules = rules_of(n.op);
    if (!rules.row_call && !rules.reduction) return {};
    std::vector<Shape> shapes;
    std::vector<DType> dtypes;
    for (ValueId v : n.inputs) {
      shapes.push_back(graph_.shape(v));
      dtypes.push_back(*graph_.info(v).dtype);
    }
    const DType dtype = promote_inputs(*n.op, n.attrs, dtypes);
    const ComputeType type = kernels::compute_type(dtype);
    if (!is_real(type)) return {};
    if (rules.reduction) {
      if (!holds(type, dtypes[0]) || dtypes[0] == DType::boolean || n.outputs[0].dtype != dtypes[0]) return {};
      return {Member::Kind::reduction, type, {}, rules.reduction(n.attrs.get(), shapes)};
    }
    const bool all_held = std::all_of(n.outputs.begin(), n.outputs.end(), [&](const OutputInfo& o) { return holds(type, *o.dtype); });
    auto call = rules.row_call(n.attrs.get(), shapes);
    if (!call || !all_held) return {};
    const auto* signature = &kernels::row_signature(call->function);
    return {Member::Kind::call, type, call, {}, signature};
  }

  // Starts from a node that works on rows and takes in its neighbours as long as everything that others read is read later.
  void grow(int seed) {
    const Member& m = member(seed);
    Group group{Rows(rows_shape(seed), m.reduction ? m.reduction->axes.ndim() : 1), m.type, {seed}};
    const auto& [length, count] = std::pair(group.rows.length, group.rows.count);
    if (length < 2 || length > kLongestRow || (count < kFewRows && length > kLongRow)) return;
    if (!fits(seed, group)) return;
    for (bool more = true; more;) {
      more = false;
      for (int neighbour : neighbours(group)) {
        if (!fits(neighbour, group)) continue;
        Group larger = group.with(neighbour);
        if (!is_valid(larger)) continue;
        group = std::move(larger);
        more = true;
        break;
      }
    }
    if (!is_worth_it(group) || !gives_shape(group)) return;
    const int last = group.nodes.back();
    for (int n : group.nodes) group_[n] = last;
    groups_.emplace(last, std::move(group));
  }
  // The shape of the rows that a reduction or a call works on.
  const Shape& rows_shape(int n) const {
    if (member(n).call && member(n).signature->arguments[0] != RowValue::row) return *graph_.node(n).outputs[0].shape;
    return graph_.shape(graph_.node(n).inputs[0]);
  }
  std::vector<int> neighbours(const Group& group) const {
    std::vector<int> found;
    for (int n : group.nodes) {
      for (ValueId v : values_read(n)) found.push_back(v.node);
      for (int r : readers_.of(n))
        if (r != Readers::kCaller) found.push_back(r);
    }
    std::erase_if(found, [&](int n) { return group.has(n) || group_[n] >= 0; });
    return found;
  }
  bool fits(int n, const Group& group) const {
    const Member& m = member(n);
    if (m.kind == Member::Kind::none || m.type != group.type) return false;
    if (!graph_.run_together(n, group.nodes[0], backward_begins_)) return false;
    const Shape& out = *graph_.node(n).outputs[0].shape;
    if (m.kind == Member::Kind::map) return out == group.rows.whole || out == group.rows.narrow;
    if (m.reduction)
      return graph_.shape(graph_.node(n).inputs[0]) == group.rows.whole && group.rows.is_number(out) &&
             m.reduction->axes == group.rows.axes;
    return group.rows.axes.ndim() == 1 && has_values_of(group.rows, n);
  }
  // Whether inputs and outputs of a call are what its function reads and gives.
  bool has_values_of(const Rows& rows, int n) const {
    const auto& [name, arguments, results] = *member(n).signature;
    for (size_t i = 0; i < arguments.size(); ++i) {
      // A flat number does not broadcast with the rows, so no map can convert it.
      const OutputInfo& info = graph_.info(graph_.node(n).inputs[i]);
      if (!is_value_of(rows, arguments[i], info)) return false;
      if (arguments[i] == RowValue::number && *info.shape == rows.flat && *info.dtype != kernels::storage_of(member(n).type)) return false;
    }
    for (size_t i = 0; i < results.size(); ++i)
      if (!is_value_of(rows, results[i], graph_.node(n).outputs[i])) return false;
    return true;
  }
  static bool is_value_of(const Rows& rows, RowValue kind, const OutputInfo& info) {
    const Shape& s = *info.shape;
    switch (kind) {
      case RowValue::row: return s == rows.whole;
      case RowValue::number:
      case RowValue::index: return rows.is_number(s);
      case RowValue::shared:
      case RowValue::sum: return s == Shape{rows.length};
    }
    return false;
  }
  bool is_valid(const Group& group) const {
    const int last = group.nodes.back();
    for (int n : group.nodes) {
      if (updates_.forbid_moving(n, last)) return false;
      for (int r : readers_.of(n))
        if (r < last && !group.has(r)) return false;
      for (size_t i = 0; i < graph_.node(n).inputs.size(); ++i)
        if (!is_readable(n, i, group)) return false;
    }
    return inputs_of(group).size() <= kMostInputs && results_of(group).size() <= Program::kMaxResults &&
           group.nodes.size() * 2 <= kMostStages;
  }
  // Sums are known at the end only. What is flat does not broadcast with the rows: it is read as a number of each row, and from outside.
  bool is_readable(int n, size_t input, const Group& group) const {
    const ValueId v = graph_.node(n).inputs[input];
    if (group.has(v.node)) return !(graph_.shape(v) == group.rows.flat) && !is_sum(v);
    if (!is_per_row(n, input) || graph_.shape(v) == group.rows.narrow) return true;
    return std::all_of(group.nodes.begin(), group.nodes.end(), [&](int other) {
      const auto& in = graph_.node(other).inputs;
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i] == v && !is_per_row(other, i)) return false;
      return true;
    });
  }
  bool is_sum(ValueId v) const {
    const auto* signature = member(v.node).signature;
    return signature && signature->results[v.index] == RowValue::sum;
  }
  bool is_per_row(int n, size_t input) const {
    const auto* signature = member(n).signature;
    if (!signature || input >= signature->arguments.size()) return false;
    return signature->arguments[input] == RowValue::index || signature->arguments[input] == RowValue::number;
  }
  // Something of the rows' shape must be gained: a call on them beside others, or a reduction that is spread over its row again. Other
  // reductions are left to fuse_reductions.
  bool is_worth_it(const Group& group) const {
    if (group.nodes.size() < 2) return false;
    const auto is_whole = [&](int n) { return *graph_.node(n).outputs[0].shape == group.rows.whole; };
    const bool has_whole = std::any_of(group.nodes.begin(), group.nodes.end(), is_whole);
    return std::any_of(group.nodes.begin(), group.nodes.end(), [&](int n) {
      if (member(n).call) return has_whole;
      if (!is_whole(n)) return false;
      const auto& in = graph_.node(n).inputs;
      return std::any_of(in.begin(), in.end(), [&](ValueId v) { return group.has(v.node) && graph_.shape(v) == group.rows.narrow; });
    });
  }
  // Whether the inputs say what the rows are.
  bool gives_shape(const Group& group) const {
    std::vector<const Shape*> shapes;
    for (int n : group.nodes)
      for (size_t i = 0; i < graph_.node(n).inputs.size(); ++i)
        if (const ValueId v = graph_.node(n).inputs[i]; !group.has(v.node) && is_read(n, i) && !is_per_row(n, i))
          shapes.push_back(&graph_.shape(v));
    return broadcast_to_exactly(shapes, group.rows.whole);
  }

  // Calls and reductions need nothing of which they only read the shape.
  bool is_read(int n, size_t input) const {
    return member(n).kind == Member::Kind::map || !graph_.node(n).op->input_spec(graph_.node(n).attrs, input).shape_only;
  }
  std::vector<ValueId> values_read(int n) const {
    std::vector<ValueId> values;
    for (size_t i = 0; i < graph_.node(n).inputs.size(); ++i)
      if (is_read(n, i)) values.push_back(graph_.node(n).inputs[i]);
    return values;
  }
  std::vector<ValueId> inputs_of(const Group& group) const {
    std::vector<ValueId> inputs;
    for (int n : group.nodes)
      for (ValueId v : values_read(n))
        if (!group.has(v.node) && std::find(inputs.begin(), inputs.end(), v) == inputs.end()) inputs.push_back(v);
    return inputs;
  }
  // What is read outside of the group; the last node's come first.
  std::vector<ValueId> results_of(const Group& group) const {
    std::vector<ValueId> results;
    for (size_t k = group.nodes.size(); k-- > 0;) {
      const int n = group.nodes[k];
      for (int i = 0; i < static_cast<int>(graph_.node(n).outputs.size()); ++i)
        if (is_read_outside({n, i}, group)) results.push_back({n, i});
    }
    return results;
  }
  bool is_read_outside(ValueId v, const Group& group) const {
    return readers_.any_of(v, [&](int r) { return r == Readers::kCaller || !group.has(r); });
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
      const std::vector<ValueId> read = values_read(n);
      for (size_t i = 0; i < read.size(); ++i) {
        // Maps and indices read any input, others only the computed type.
        const int value = values.at(read[i]);
        const bool is_index = m.signature && m.signature->arguments[i] == RowValue::index;
        const bool is_free = m.kind == Member::Kind::map || is_index || value >= static_cast<int>(inputs.size());
        arguments.push_back(is_free || graph_.info(read[i]).dtype == kernels::storage_of(group.type) ? value : add_map(copying, {value}));
      }
      int first = 0;
      if (m.kind == Member::Kind::map) {
        const auto fused = fused_program(graph_.node(n));
        first = add_map(fused ? *fused : program_of(graph_.node(n), group.type), arguments);
      } else if (m.reduction) {
        first = add(kernels::reduction_stage(m.reduction->how, m.reduction->finish, arguments[0], *graph_.node(n).outputs[0].dtype));
      } else {
        const auto& kinds = m.signature->results;
        const auto sum = std::find(kinds.begin(), kinds.end(), RowValue::sum);
        const DType dtype = sum == kinds.end() ? DType::float32 : *graph_.node(n).outputs[sum - kinds.begin()].dtype;
        first = add(kernels::function_stage(m.call->function, arguments, m.call->number, dtype));
      }
      for (int i = 0; i < static_cast<int>(graph_.node(n).outputs.size()); ++i) {
        int value = first + i;
        const DType dtype = *graph_.node(n).outputs[i].dtype;
        if (m.kind == Member::Kind::call && !is_sum({n, i}) && dtype != kernels::storage_of(group.type)) {
          Program rounding(group.type);
          rounded(Expr::input(rounding, 0), dtype);
          value = add_map(rounding, {value});
        }
        values[{n, i}] = value;
      }
    }
    const int last = group.nodes.back();
    Graph::Node made{.op = &OpRegistry::global().get("_fused_rows"), .name = graph_.node(last).name, .part = graph_.node(last).part};
    Shape flat;
    for (ValueId v : results) {
      if (graph_.shape(v) == group.rows.flat && !is_sum(v)) flat.push_back(static_cast<int64_t>(program.results.size()));
      program.results.push_back(values.at(v));
      made.outputs.push_back(graph_.info(v));
    }
    const std::pair<std::string_view, AttrValue> attrs[] = {
        {"program", row_program_text(program)}, {"axes", group.rows.axes.ndim()}, {"flat", flat}};
    made.attrs = made.op->make_attrs(attrs);
    for (ValueId v : inputs) made.inputs.push_back(rewriter.mapped(v));
    const int number = rewriter.put(last, std::move(made));
    for (int n : group.nodes) {
      std::vector<ValueId> outputs(graph_.node(n).outputs.size(), {number, 0});
      for (size_t r = 0; r < results.size(); ++r)
        if (results[r].node == n) outputs[results[r].index].index = static_cast<int>(r);
      rewriter.replace(n, outputs);
    }
  }

  Graph& graph_;  // as it was until the end
  const StateUpdates updates_;
  std::vector<Member> members_;
  std::vector<int> group_;  // the last node of the group that a node is in
  std::map<int, Group> groups_;
  const Readers readers_;
  const int backward_begins_;
};

}  // namespace

Graph fuse_rows(Graph graph, const PassContext&) { return RowFusion(graph).run(); }

}  // namespace gluino
