#include "plan/plan.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/format.h"
#include "passes/pass.h"
#include "plan/occupied_memory.h"
#include "tensor/pool.h"

namespace gluino {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Planner {
 public:
  Planner(const Graph& graph, bool keep_derived) : graph_(graph), is_derived_(graph.nodes.size(), false) {
    if (keep_derived) find_derived();
    make_slots();
    make_steps(graph.count_forward_nodes());
    find_lifetimes();
    mark_outputs();
    share_in_place();
    assign_offsets();
    collect_derived();
    plan_.unplanned_bytes = intermediate_bytes(graph);
  }
  Plan take() { return std::move(plan_); }

 private:
  Slot& slot(int s) { return plan_.slots[s]; }
  Slot& root(int s) { return slot(slot(s).root); }
  int slot_of(ValueId v) const { return first_slot_[v.node] + v.index; }

  // Results go to the caller, who may change them: they are never kept.
  void find_derived() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto& node = graph_.nodes[n];
      if (!node.op || node.inputs.empty() || has_effect(node) || node.op->is_dynamic_shape || node.op->has_subgraphs()) continue;
      is_derived_[n] = reads_constants_alone(node);
    }
    for (ValueId v : graph_.outputs)
      for (int n = v.node; is_derived_[n]; n = graph_.nodes[n].inputs[0].node) {
        is_derived_[n] = false;
        if (!graph_.nodes[n].op->is_view) break;
      }
    // What reads such a result is computed in every run too.
    for (size_t n = 0; n < graph_.nodes.size(); ++n) is_derived_[n] = is_derived_[n] && reads_constants_alone(graph_.nodes[n]);
  }
  bool reads_constants_alone(const Graph::Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return graph_.nodes[v.node].is_constant() || is_derived_[v.node]; });
  }

  void make_slots() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto& node = graph_.nodes[n];
      first_slot_.push_back(static_cast<int>(plan_.slots.size()));
      for (const OutputInfo& info : node.outputs) {
        Slot s;
        s.kind = node.is_variable() ? Slot::Kind::variable : node.is_constant() ? Slot::Kind::constant : Slot::Kind::arena;
        s.shape = *info.shape;
        s.dtype = *info.dtype;
        s.bytes = s.shape.elements() * dtype_bytes(s.dtype);
        s.root = static_cast<int>(plan_.slots.size());
        s.node = static_cast<int>(n);
        if (node.is_variable()) plan_.variables.push_back(s.root);
        plan_.slots.push_back(std::move(s));
        plan_.constants.push_back(node.constant);
      }
    }
  }

  // A view needs no step: it is the same memory under another shape.
  void make_steps(int forward_nodes) {
    plan_.parts = graph_.parts;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto& node = graph_.nodes[n];
      if (!node.op) continue;
      const int first = first_slot_[n];
      if (node.op->is_view && !node.op->kernel) {
        slot(first).root = slot(slot_of(node.inputs[0])).root;
        slot(first).kind = root(first).kind;
        if (static_cast<int>(n) < forward_nodes) plan_.forward_steps = static_cast<int>(plan_.steps.size());
        continue;
      }
      Step step{node.op, node.attrs, node.name, {}, {}, node.mode.training, node.part};
      for (size_t i = 0; i < node.inputs.size(); ++i) step.inputs.push_back(slot_of(node.inputs[i]));
      for (size_t i = 0; i < node.outputs.size(); ++i) step.outputs.push_back(first + static_cast<int>(i));
      if (is_derived_[n]) {
        for (int o : step.outputs) slot(o).kind = Slot::Kind::derived;
        plan_.hoisted.push_back(std::move(step));
        continue;
      }
      plan_.steps.push_back(std::move(step));
      if (static_cast<int>(n) < forward_nodes) plan_.forward_steps = static_cast<int>(plan_.steps.size());
    }
  }

  // For each derived value that a step reads: what computes it, and from which constants.
  void collect_derived() {
    std::vector<int> maker(plan_.slots.size(), -1);
    for (size_t k = 0; k < plan_.hoisted.size(); ++k)
      for (int o : plan_.hoisted[k].outputs) maker[o] = static_cast<int>(k);
    std::set<int> wanted;
    for (const Step& step : plan_.steps)
      for (int i : step.inputs)
        if (slot(i).kind == Slot::Kind::derived) wanted.insert(slot(i).root);
    for (int s : wanted) {
      Derived d{s, steps_behind(s, maker), {}, {}, {}};
      write_recipe(d, maker);
      plan_.derived.push_back(std::move(d));
    }
  }
  // The hoisted steps that a value goes back to, in order.
  std::vector<int> steps_behind(int derived, const std::vector<int>& maker) {
    std::set<int> found;
    std::vector<int> open{maker[derived]};
    while (!open.empty()) {
      const int k = open.back();
      open.pop_back();
      if (!found.insert(k).second) continue;
      for (int i : plan_.hoisted[k].inputs)
        if (const int m = maker[slot(i).root]; m >= 0) open.push_back(m);
    }
    return {found.begin(), found.end()};
  }
  // Steps and sources are numbered as they appear: the same recipe in another plan has the same text.
  void write_recipe(Derived& d, const std::vector<int>& maker) {
    std::unordered_map<int, size_t> step_numbers, source_numbers;
    const auto name_of = [&](int s) {
      const int r = slot(s).root;
      std::string name;
      if (maker[r] >= 0) {
        name = fmt::format("#{}.{}", step_numbers.at(maker[r]), r - plan_.hoisted[maker[r]].outputs[0]);
      } else {
        const auto [known, is_new] = source_numbers.try_emplace(r, d.sources.size());
        if (is_new) d.sources.push_back(r);
        name = fmt::format("%{}", known->second);
      }
      return r == s ? name : fmt::format("{}{}", name, slot(s).shape);
    };
    for (int k : d.steps) {
      const Step& step = plan_.hoisted[k];
      d.recipe += step.op->name + "{";
      for (const auto& [name, value] : step.op->print_attrs(step.attrs)) d.recipe.append(name).append("=").append(value).append(";");
      d.recipe += "}(";
      for (int i : step.inputs) d.recipe += name_of(i) + ",";
      d.recipe += ")";
      step_numbers[k] = step_numbers.size();
    }
    d.recipe += name_of(d.slot);
    d.key = d.recipe;
    for (int source : d.sources) d.key += fmt::format(" {}", static_cast<const void*>(plan_.constants[source].impl().get()));
  }

  bool reads_value(const Step& step, size_t i) const { return !step.op->input_spec(step.attrs, i).shape_only; }

  void find_lifetimes() {
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const Step& step = plan_.steps[k];
      const int now = static_cast<int>(k);
      for (int o : step.outputs) root(o).first_step = root(o).last_step = now;
      for (size_t i = 0; i < step.inputs.size(); ++i)
        if (reads_value(step, i)) root(step.inputs[i]).last_step = now;
    }
  }

  void mark_outputs() {
    for (ValueId v : graph_.outputs) {
      const int s = slot_of(v);
      plan_.outputs.push_back(s);
      if (root(s).kind == Slot::Kind::arena) root(s).kind = Slot::Kind::output;
    }
  }

  // The result of a step takes over the memory of an input that nobody reads later.
  void share_in_place() {
    std::vector<std::vector<int>> on_root(plan_.slots.size());  // by root the slots on its memory
    for (size_t s = 0; s < plan_.slots.size(); ++s) on_root[slot(static_cast<int>(s)).root].push_back(static_cast<int>(s));
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const Step& step = plan_.steps[k];
      for (const auto& [in, out] : step.op->inplace) {
        if (in >= static_cast<int>(step.inputs.size()) || out >= static_cast<int>(step.outputs.size())) continue;
        const int source = slot(step.inputs[in]).root, target = step.outputs[out];
        const bool is_output = slot(target).kind == Slot::Kind::output;
        if (slot(target).root != target || (slot(target).kind != Slot::Kind::arena && !is_output) || slot(source).kind != Slot::Kind::arena)
          continue;
        // A result may be computed in its final place from the start, but not before its pass begins.
        if (is_output && (slot(source).first_step < plan_.forward_steps) != (static_cast<int>(k) < plan_.forward_steps)) continue;
        const Slot& given = slot(step.inputs[in]);
        if (slot(source).last_step != static_cast<int>(k) || !(given.shape == slot(target).shape) || given.dtype != slot(target).dtype)
          continue;
        if (std::count_if(step.outputs.begin(), step.outputs.end(), [&](int o) { return slot(o).root == source; })) continue;
        if (is_read_elsewhere(step, source, out)) continue;
        slot(source).last_step = slot(target).last_step;
        for (int s : std::exchange(on_root[target], {})) {
          slot(s).root = source;
          on_root[source].push_back(s);
        }
        for (size_t i = 0; is_output && i < on_root[source].size(); ++i) slot(on_root[source][i]).kind = Slot::Kind::output;
      }
    }
  }

  // Whether the step also reads the memory as an input that must stay whole until the end.
  bool is_read_elsewhere(const Step& step, int source, int out) {
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (slot(step.inputs[i]).root == source && reads_value(step, i) &&
          !std::count(step.op->inplace.begin(), step.op->inplace.end(), std::pair(static_cast<int>(i), out)))
        return true;
    return false;
  }

  // Largest first, each at the lowest offset where it overlaps nobody who lives at the same time.
  void assign_offsets() {
    std::vector<int> order;
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      const Slot& t = plan_.slots[s];
      if (t.kind != Slot::Kind::arena) continue;
      if (t.root == static_cast<int>(s) && t.bytes > 0) order.push_back(static_cast<int>(s));
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return slot(a).bytes > slot(b).bytes; });
    OccupiedMemory occupied(static_cast<int>(plan_.steps.size()));
    for (int number : order) {
      Slot& s = slot(number);
      s.offset = occupied.find_place(s.first_step, s.last_step, aligned(s.bytes));
      occupied.add(s.first_step, s.last_step, s.offset, s.offset + aligned(s.bytes));
      plan_.arena_bytes = std::max(plan_.arena_bytes, s.offset + s.bytes);
    }
    for (Slot& s : plan_.slots) {
      s.offset = slot(s.root).offset;
      // The root may have become an output after this slot was made a view of it.
      if (s.kind == Slot::Kind::arena) s.kind = slot(s.root).kind;
    }
  }

  const Graph& graph_;
  std::vector<bool> is_derived_;  // by node
  std::vector<int> first_slot_;
  Plan plan_;
};

}  // namespace

int64_t intermediate_bytes(const Graph& graph) {
  const std::set<ValueId> results(graph.outputs.begin(), graph.outputs.end());
  int64_t total = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& node = graph.nodes[n];
    if (!node.op || node.op->is_view) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!results.contains({static_cast<int>(n), static_cast<int>(i)}))
        total += node.outputs[i].shape->elements() * dtype_bytes(*node.outputs[i].dtype);
  }
  return total;
}

Plan make_plan(const Graph& graph, bool keep_derived) { return Planner(graph, keep_derived).take(); }

std::string Plan::str(std::span<const double> step_microseconds) const {
  std::string text =
      fmt::format("{} steps, arena of {} bytes for {} bytes of intermediate values\n", steps.size(), arena_bytes, unplanned_bytes);
  for (const Derived& d : derived) {
    const Slot& s = slots[d.slot];
    text += fmt::format("once {:<28} -> kept, {} bytes\n", hoisted[d.steps.back()].name, s.bytes);
  }
  for (size_t k = 0; k < steps.size(); ++k) {
    text += fmt::format("{:>4} {:<28} ->", k, steps[k].name);
    for (int o : steps[k].outputs) {
      const Slot& s = slots[o];
      const bool in_place = s.root != o;
      text += s.kind == Slot::Kind::arena ? fmt::format(" [{}, {}){}", s.offset, s.offset + s.bytes, in_place ? " in place" : "")
                                          : fmt::format(" output of {} bytes", s.bytes);
    }
    if (k < step_microseconds.size()) text += fmt::format("  {:.1f} us", step_microseconds[k]);
    text += "\n";
  }
  return text;
}

}  // namespace gluino
