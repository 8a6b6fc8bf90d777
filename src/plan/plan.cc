#include "plan/plan.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "passes/pass.h"
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
      Step step{node.op, node.attrs, node.name, {}, {}, node.mode.training};
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
    std::vector<std::string> keys(plan_.hoisted.size());
    const auto key_of = [&](int s) {
      const int r = slot(s).root;
      const std::string own = slot(r).kind == Slot::Kind::constant
                                  ? fmt::format("{}{}{}", kSourceMark, r, kSourceMark)
                                  : fmt::format("[{}]#{}", keys[maker[r]], r - plan_.hoisted[maker[r]].outputs[0]);
      return r == s ? own : fmt::format("{}{}", own, slot(s).shape);
    };
    for (size_t k = 0; k < plan_.hoisted.size(); ++k) {
      const Step& step = plan_.hoisted[k];
      keys[k] = step.op->name + "{";
      for (const auto& [name, value] : step.op->print_attrs(step.attrs)) keys[k] += name + "=" + value + ";";
      keys[k] += "}";
      for (int i : step.inputs) keys[k] += key_of(i) + ",";
    }
    std::vector<bool> wanted(plan_.slots.size(), false);
    for (const Step& step : plan_.steps)
      for (int i : step.inputs)
        if (slot(i).kind == Slot::Kind::derived) wanted[slot(i).root] = true;
    for (size_t s = 0; s < wanted.size(); ++s) {
      if (!wanted[s]) continue;
      Derived d{static_cast<int>(s), {}, {}, key_of(static_cast<int>(s)), {}};
      number_sources(d);
      std::vector<bool> needed(plan_.hoisted.size(), false);
      needed[maker[s]] = true;
      for (size_t k = plan_.hoisted.size(); k-- > 0;) {
        if (!needed[k]) continue;
        d.steps.insert(d.steps.begin(), static_cast<int>(k));
        for (int i : plan_.hoisted[k].inputs) {
          const int r = slot(i).root;
          if (slot(r).kind == Slot::Kind::derived) needed[maker[r]] = true;
        }
      }
      plan_.derived.push_back(std::move(d));
    }
  }
  static constexpr char kSourceMark = '\x1f';  // around the number of a slot; no attribute has it
  // Sources, which the recipe names after their slots, are numbered as they appear: the same recipe in another plan has the same text.
  void number_sources(Derived& d) {
    std::string numbered;
    size_t at = 0;
    for (size_t mark; (mark = d.recipe.find(kSourceMark, at)) != std::string::npos;) {
      const size_t end = d.recipe.find(kSourceMark, mark + 1);
      const int source = std::stoi(d.recipe.substr(mark + 1, end - mark - 1));
      const auto known = std::find(d.sources.begin(), d.sources.end(), source);
      numbered += fmt::format("{}%{}", d.recipe.substr(at, mark - at), known - d.sources.begin());
      if (known == d.sources.end()) d.sources.push_back(source);
      at = end + 1;
    }
    d.recipe = numbered + d.recipe.substr(at);
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
        for (Slot& s : plan_.slots)
          if (s.root == target || s.root == source) {
            s.root = source;
            if (is_output) s.kind = Slot::Kind::output;
          }
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
    std::vector<int> placed;
    for (int s : order) {
      std::vector<std::pair<int64_t, int64_t>> busy;
      for (int p : placed)
        if (slot(p).first_step <= slot(s).last_step && slot(s).first_step <= slot(p).last_step)
          busy.emplace_back(slot(p).offset, slot(p).offset + aligned(slot(p).bytes));
      std::sort(busy.begin(), busy.end());
      int64_t offset = 0;
      for (const auto& [begin, end] : busy) {
        if (offset + aligned(slot(s).bytes) <= begin) break;
        offset = std::max(offset, end);
      }
      slot(s).offset = offset;
      plan_.arena_bytes = std::max(plan_.arena_bytes, offset + slot(s).bytes);
      placed.push_back(s);
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
  int64_t total = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& node = graph.nodes[n];
    if (!node.op || node.op->is_view) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (std::find(graph.outputs.begin(), graph.outputs.end(), ValueId{static_cast<int>(n), static_cast<int>(i)}) == graph.outputs.end())
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
