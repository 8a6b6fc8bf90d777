// Walks the tape from the heads to the leaves. Uses only OpDef::gradient.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "autograd/row_gradient.h"
#include "autograd/traced_backward.h"
#include "base/pointer_map.h"
#include "base/format.h"
#include "dispatch/deferred_calls.h"
#include "dispatch/dependent_outputs.h"
#include "dispatch/infer.h"
#include "dispatch/mode.h"
#include "dispatch/own_gradient.h"
#include "gluino/autograd.h"

namespace gluino::autograd {
namespace {

Tensor zeros_of(const TensorMeta& m) { return zeros(m.shape, {m.dtype, m.device}); }
// A program is run with other extents than it was traced with.
Tensor zeros_for(const Tensor& t) { return t.is_symbolic() ? gluino::call("zeros_like", {t}) : zeros_of(meta_of(t)); }
Tensor ones_for(const Tensor& t) {
  return t.is_symbolic() ? gluino::call("ones_like", {t}) : ones(impl_of(t).shape, {t.dtype(), t.device()});
}

class Walk {
 public:
  Walk(const BackwardOptions& options, const Tensors& variables) : options_(options), results_(variables.size()) {
    for (size_t i = 0; i < variables.size(); ++i) {
      TapeEntry* e = variables[i].defined() && is_on_tape(variables[i]) ? entry_of(variables[i]) : nullptr;
      if (!e) raise<UserError>("grad: variable {} was neither recorded nor given attach_grad()", i);
      wanted_[key(*e)].push_back(i);
    }
  }

  void add_head(const Tensor& head, const Tensor& head_grad) {
    if (!head.defined()) throw UserError("backward: the head is a null tensor");
    TapeEntry* e = entry_of(head);
    if (!e)
      raise<UserError>("backward: the tensor of shape {} was not computed inside autograd::record() from a tensor with attach_grad()",
                       impl_of(head).shape);
    Tensor g = head_grad.defined() ? handle_of_its_own(head_grad) : ones_for(head);
    if (!(impl_of(g).shape == impl_of(head).shape))
      raise<ShapeError>("backward: the head gradient has shape {}, the head {}", impl_of(g).shape, impl_of(head).shape);
    if (impl_of(g).dtype != impl_of(head).dtype) g = g.astype(impl_of(head).dtype);  // a leaf takes it as it is
    accumulate(*e, std::move(g));
  }

  void run() {
    if (are_gradients_watched() && wanted_.empty() && !options_.create_graph) count_ways();
    while (!queue_.empty()) {
      const Ref<TapeNode> node = queue_.top().node;
      queue_.pop();
      step(*node);
    }
    for (Reached& leaf : leaves_) {
      blocked_.erase(leaf.entry.get());
      finish_leaf(leaf);
    }
    for (auto& [entry, leaf] : blocked_) write_zeros(*leaf);
  }

  Tensors take_results(const Tensors& variables, bool is_whole) {
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!results_[i].defined()) results_[i] = zeros_for(variables[i]);
      // The caller may change it: a gradient that is also the one of another variable, or a head's, is copied.
      const auto earlier = std::span(results_).first(i);
      if (const auto& storage = impl_of(results_[i]).storage;
          storage->use_count() > 1 || std::ranges::any_of(earlier, [&](const Tensor& t) { return t.is_same(results_[i]); }))
        results_[i] = in_memory_of_its_own(results_[i]);
      if (!is_whole || !options_.create_graph || is_on_tape(results_[i])) continue;
      // Of a linear function: what flows back from it to the variable is nothing, and not an error.
      Tensor constant = make_view(results_[i], impl_of(results_[i]).shape, 0);
      record_custom(
          "the gradient of a linear function", std::span(&variables[i], 1), std::span(&constant, 1),
          [](const BackwardCall& call) { return Tensors(call.wanted.size()); }, nullptr);
      results_[i] = constant;
    }
    return std::move(results_);
  }

 private:
  struct Key {
    const void* object;
    int index;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const { return std::hash<const void*>()(k.object) * 31 + static_cast<size_t>(k.index); }
  };
  static Key key(const TapeEntry& e) { return e.is_leaf() ? Key{&e, 0} : Key{e.node.get(), e.index}; }

  // A leaf, and what has flowed into it so far: a gradient of its shape, rows of it, or both.
  struct Reached {
    Ref<TapeEntry> entry;
    Tensor gradient;
    std::vector<PickedRows> rows;
  };
  struct Item {
    Ref<TapeNode> node;
    bool operator<(const Item& o) const { return node->sequence < o.node->sequence; }
  };

  static Tensor add(const Tensor& a, const Tensor& b) { return gluino::call("elemwise_add", {a, b}); }

  void accumulate(TapeEntry& e, Tensor gradient) {
    if (e.is_leaf()) {
      if (e.req == GradReq::null && wanted_.empty()) return;
      const auto [known, is_new] = leaf_places_.try_emplace(&e, leaves_.size());
      if (is_new)
        leaves_.push_back({Ref<TapeEntry>(&e), std::move(gradient), {}});
      else if (Tensor& sum = leaves_[known].gradient; sum.defined())
        sum = add(sum, gradient);
      else
        sum = std::move(gradient);
      return;
    }
    auto [it, fresh] = heads_.try_emplace(e.node.get());
    if (fresh) {
      it->second.resize(e.node->output_metas.size());
      queue_.push({e.node});
    }
    Tensor& slot = it->second[e.index];
    slot = slot.defined() ? add(slot, gradient) : std::move(gradient);
  }

  // Whether a leaf can take rows as they are.
  bool takes_rows(const TapeEntry* e) const { return e && e->is_leaf() && e->keeps_rows && wanted_.empty() && !options_.create_graph; }
  void accumulate_rows(TapeEntry& e, std::vector<PickedRows> pieces) {
    const auto [known, is_new] = leaf_places_.try_emplace(&e, leaves_.size());
    if (is_new) leaves_.push_back({Ref<TapeEntry>(&e), Tensor(), {}});
    std::vector<PickedRows>& all = leaves_[known].rows;
    std::ranges::move(pieces, std::back_inserter(all));
  }

  void step(TapeNode& node) {
    const Tensors& flowed = heads_[&node];
    bool is_released = node.released || node.is_cut;
    for (size_t i = 0; i < flowed.size(); ++i) is_released |= flowed[i].defined() && node.is_released(static_cast<int>(i));
    if (is_released)
      raise<UserError>("backward: what was recorded for {} has already been released; pass retain_graph = true to the first backward",
                       node.op ? node.op->name : node.name);
    Tensors heads = std::move(heads_[&node]);
    heads_.erase(&node);
    std::vector<bool> given;
    for (size_t i = 0; i < heads.size(); ++i) {
      given.push_back(heads[i].defined());
      if (!heads[i].defined()) heads[i] = zeros_of(node.output_metas[i]);
      if (heads[i].dtype() != node.output_metas[i].dtype) heads[i] = heads[i].astype(node.output_metas[i].dtype);
      give_result({&node, static_cast<int>(i)}, heads[i]);
    }
    std::vector<bool> wanted(node.inputs.size());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<bool>(node.inputs[i]);
    std::vector<bool> reached = node.whole ? std::vector<bool>(wanted.size(), true) : reached_from(node, given);
    std::vector<bool> unvisited(heads.size(), false), cut(heads.size(), false);
    std::vector<std::vector<PickedRows>> rows(node.inputs.size());
    Tensors gradients = node.op ? gradients_of_op(node, std::move(heads), wanted, rows)
                                : gradients_of_custom(node, heads, wanted, given, reached, unvisited, cut, rows);
    if (gradients.size() != node.inputs.size())
      throw InternalError(fmt::format("the gradient of {} returned {} tensors for {} inputs", node.op ? node.op->name : node.name,
                                      gradients.size(), node.inputs.size()));
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!node.inputs[i] || !reached[i]) continue;
      if (!rows[i].empty())
        take_rows(node, i, std::move(rows[i]));
      else if (gradients[i].defined())
        accumulate(*node.inputs[i], conform(node, i, std::move(gradients[i])));
      else
        block(*node.inputs[i]);
    }
    if (!ways_.empty()) pass_ways(node);
    if (options_.retain_graph) return;
    if (std::ranges::find(unvisited, true) == unvisited.end())
      node.drop_saved();
    else
      node.drop_saved_except(unvisited, cut);
  }

  // What the outputs that something flowed into depend on: of a loop, what it has run.
  static std::vector<bool> reached_from(const TapeNode& node, const std::vector<bool>& given) {
    if (node.whole) return node.whole->reached_from(given, node.left_by_loops);
    const DependenceRule* rule = node.op ? dependence_rule_of(*node.op) : nullptr;
    std::vector<bool> reached(node.inputs.size(), !rule);
    if (!rule) return reached;
    std::vector<Shape> shapes;
    for (const TensorMeta& m : node.input_metas) shapes.push_back(m.shape);
    const Dependence d = (*rule)(node.attrs.get(), shapes, node.saved_outputs.empty() ? Tensor() : node.saved_outputs.back());
    for (size_t i = 0; i < reached.size(); ++i)
      for (size_t o = 0; o < d.num_outputs(); ++o)
        if (given[o] && d.depends(o, i)) reached[i] = true;
    return reached;
  }

  void take_rows(const TapeNode& node, size_t i, std::vector<PickedRows> pieces) {
    TapeEntry& e = *node.inputs[i];
    if (takes_rows(&e)) return accumulate_rows(e, std::move(pieces));
    const TensorMeta& m = node.input_metas[i];
    for (const PickedRows& piece : pieces) accumulate(e, conform(node, i, table_of(piece, make_shape_only(m.shape, m.dtype, m.device))));
  }

  void give_result(const Key& place, const Tensor& gradient) {
    if (const auto it = wanted_.find(place); it != wanted_.end())
      for (size_t slot : it->second) results_[slot] = gradient;
  }
  // Results of a call whose gradients are asked for, where others of its results, which may be computed from them, have some.
  std::vector<bool> find_wanted_results(const TapeNode& node, const std::vector<bool>& given) const {
    std::vector<bool> found(given.size());
    bool is_any = false;
    for (size_t i = 0; !wanted_.empty() && i < given.size(); ++i) {
      const auto others = std::ranges::count(given, true) - (given[i] ? 1 : 0);
      is_any |= found[i] = others > 0 && wanted_.contains({&node, static_cast<int>(i)});
    }
    return is_any ? found : std::vector<bool>();
  }

  Tensors gradients_of_custom(TapeNode& node, const Tensors& heads, const std::vector<bool>& wanted, const std::vector<bool>& given,
                              std::vector<bool>& reached, std::vector<bool>& unvisited, std::vector<bool>& cut,
                              std::vector<std::vector<PickedRows>>& rows) {
    const Tensors destinations = destinations_for(node);
    const std::vector<bool> wanted_results = node.whole ? find_wanted_results(node, given) : std::vector<bool>();
    Tensors of_results(wanted_results.size());
    std::vector<bool> awaited;
    if (!ways_.empty())
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const TapeEntry* e = node.inputs[i].get();
        const auto ways = ways_.find(e);
        awaited.push_back(e && destinations[i].defined() && ways != ways_.end() && ways->second == 1);
      }
    const auto ready = [&](size_t i) {
      TapeEntry& leaf = *node.inputs[i];
      leaf.is_fresh = true;
      told_.insert(&leaf);
      tell(leaf);
    };
    Tensors gradients = node.custom({heads, wanted, destinations, options_.retain_graph, given, reached, unvisited, cut, awaited, ready,
                                     rows, wanted_results, of_results});
    for (size_t i = 0; i < of_results.size(); ++i)
      if (of_results[i].defined()) give_result({&node, static_cast<int>(i)}, of_results[i]);
    return gradients;
  }

  // ---- Watched leaves: how many calls behind the heads have yet to say what flows into each.
  void count_ways() {
    std::unordered_set<const TapeNode*> seen;
    std::vector<const TapeNode*> open;
    for (const auto& [node, heads] : heads_)
      if (seen.insert(node).second) open.push_back(node);
    while (!open.empty()) {
      const TapeNode* node = open.back();
      open.pop_back();
      for (const Ref<TapeEntry>& e : node->inputs) {
        if (!e) continue;
        if (!e->is_leaf()) {
          if (seen.insert(e->node.get()).second) open.push_back(e->node.get());
        } else if (!e->watcher.expired()) {
          ++ways_[e.get()];
        }
      }
    }
  }
  // The call has been gone through. Calls that nothing flows into never are; then the leaf waits for the end.
  void pass_ways(const TapeNode& node) {
    for (const Ref<TapeEntry>& e : node.inputs) {
      const auto ways = ways_.find(e.get());
      if (ways == ways_.end() || --ways->second > 0) continue;
      if (const size_t* place = leaf_places_.find(e.get())) finish_leaf(leaves_[*place]);
    }
  }
  void finish_leaf(Reached& reached) {
    TapeEntry& leaf = *reached.entry;
    Tensor gradient = std::exchange(reached.gradient, Tensor());
    std::vector<PickedRows> rows = std::exchange(reached.rows, {});
    if (!gradient.defined() && rows.empty()) return;  // done before
    if (!gradient.defined()) {
      write_rows(leaf, std::move(rows));
    } else {
      for (const PickedRows& piece : rows) gradient = add(gradient, table_of(piece, leaf.leaf_grad));
      write_leaf(leaf, gradient);
    }
    if (!told_.contains(&leaf) && wanted_.empty() && leaf.req != GradReq::null) tell(leaf);
  }
  static void tell(TapeEntry& leaf) {
    if (const auto watcher = leaf.watcher.lock()) watcher->on_gradient(leaf);
  }

  // A leaf whose gradient is overwritten anyway, and that nobody else holds, can take it in its final place.
  Tensors destinations_for(const TapeNode& node) const {
    Tensors out(node.inputs.size());
    if (!wanted_.empty() || options_.create_graph) return out;
    PointerMap<bool> is_used_once;
    is_used_once.reserve(out.size());
    for (const Ref<TapeEntry>& e : node.inputs) {
      if (!e) continue;
      const auto [once, is_new] = is_used_once.try_emplace(e.get(), true);
      once = is_new;
    }
    for (size_t i = 0; i < out.size(); ++i) {
      const TapeEntry* e = node.inputs[i].get();
      if (!e || !e->is_leaf() || e->req != GradReq::write || e->keeps_rows) continue;
      if (!leaf_places_.contains(e) && is_used_once.at(e) && impl_of(e->leaf_grad).storage->use_count() == 1) out[i] = e->leaf_grad;
    }
    return out;
  }

  static Tensor conform(const TapeNode& node, size_t i, Tensor g) {
    const TensorMeta& m = node.input_metas[i];
    if (!(impl_of(g).shape == m.shape))
      throw InternalError(fmt::format("the gradient of {} for input {} has shape {} instead of {}", node.op ? node.op->name : node.name, i,
                                      impl_of(g).shape, m.shape));
    return impl_of(g).dtype == m.dtype ? std::move(g) : g.astype(m.dtype);
  }

  // What a gradient is made of is computed in one sweep where that saves more than it costs, and nobody differentiates it again. Bodies of
  // loops and operators of users look at the tensors that they get.
  bool is_worth_deferring(const TapeNode& node) const {
    constexpr int64_t kLeastElements = 4096;
    const OpDef& op = *node.op;
    if (options_.create_graph || mode().recording || op.has_subgraphs() || op.other_attrs_of) return false;
    const auto is_large = [](const TensorMeta& m) { return m.shape.elements() >= kLeastElements; };
    return std::ranges::any_of(node.input_metas, is_large) || std::ranges::any_of(node.output_metas, is_large);
  }

  Tensors gradients_of_op(TapeNode& node, Tensors heads, const std::vector<bool>& wanted, std::vector<std::vector<PickedRows>>& rows) {
    const OpDef& op = *node.op;
    if (!op.gradient) return Tensors(node.inputs.size());  // not differentiable: nothing flows back
    const DeviceScope scope(node.output_metas[0].device);
    Tensors likes;
    for (const TensorMeta& m : node.input_metas) likes.push_back(make_shape_only(m.shape, m.dtype, m.device));
    for (size_t i = 0; i < node.saved_inputs.size(); ++i)
      if (node.saved_inputs[i].defined())
        check_unchanged(node.saved_inputs[i], node.input_writes[i], fmt::format("{}: input {}", op.name, i));
    for (size_t i = 0; i < node.saved_outputs.size(); ++i)
      if (node.saved_outputs[i].defined())
        check_unchanged(node.saved_outputs[i], node.output_writes[i], fmt::format("{}: its result", op.name));
    Tensors ins = node.saved_inputs, outs = node.saved_outputs;
    ins.resize(node.inputs.size());
    outs.resize(node.output_metas.size());
    for (size_t i = 0; i < outs.size(); ++i)
      if (outs[i].defined() && options_.create_graph) {
        auto entry = make_ref<TapeEntry>();
        entry->node = Ref<TapeNode>(&node);
        entry->index = static_cast<int>(i);
        outs[i] = make_view(outs[i], impl_of(outs[i]).shape, 0);
        impl_of(outs[i]).autograd = entry;
      }
    try {
      if (const RowRule* rule = row_rule_of(op); rule && takes_rows(node.inputs[rule->table].get()))
        if (auto picked = rule->rows(node.attrs.get(), Gradient(op, ins, outs, heads, likes, wanted))) {
          rows[rule->table].push_back(std::move(*picked));
          return Tensors(node.inputs.size());
        }
      if (!is_worth_deferring(node))
        return op.gradient(node.attrs.get(), Gradient(op, std::move(ins), std::move(outs), std::move(heads), std::move(likes), wanted));
      Tensors destinations = destinations_for(node);
      // Where somebody else has the handle, a call that is yet to come may have kept it.
      for (Tensor& d : destinations)
        if (d.defined() && impl_of(d).use_count() > 2) d = Tensor();
      const DeferredCalls scope;
      for (Tensors* tensors : {&ins, &outs, &heads})
        for (Tensor& t : *tensors)
          if (t.defined()) t = DeferredCalls::deferred(t);
      Tensors gradients =
          op.gradient(node.attrs.get(), Gradient(op, std::move(ins), std::move(outs), std::move(heads), std::move(likes), wanted));
      for (size_t i = 0; i < std::min(gradients.size(), wanted.size()); ++i)
        if (!wanted[i]) gradients[i] = Tensor();
      return DeferredCalls::values(std::move(gradients), destinations);
    } catch (const UserError&) {
      rethrow_located("gradient of " + op.name);
    }
  }

  // Zeros flow on along this way: they end it, but for calls that give a gradient of their own. Leaves that are reached by no other way
  // have a gradient of zero, not the one of the last time.
  void block(TapeEntry& entry) {
    std::vector<TapeEntry*> open{&entry};
    while (!open.empty()) {
      TapeEntry* e = open.back();
      open.pop_back();
      if (e->is_leaf()) {
        if (e->req != GradReq::null && wanted_.empty()) blocked_.try_emplace(e, e);
      } else if (gives_own_gradient(*e->node)) {
        accumulate(*e, zeros_of(e->node->output_metas[e->index]));
      } else if (passed_.insert(key(*e)).second) {
        std::vector<bool> given(e->node->output_metas.size(), false);
        given[e->index] = true;
        const std::vector<bool> reached = reached_from(*e->node, given);
        for (size_t i = 0; i < reached.size(); ++i)
          if (e->node->inputs[i] && reached[i]) open.push_back(e->node->inputs[i].get());
      }
    }
  }
  static bool gives_own_gradient(const TapeNode& node) {
    if (node.released) return false;
    return node.op ? has_own_gradient(*node.op) : node.gives_own_gradient && node.gives_own_gradient();
  }
  static void write_zeros(TapeEntry& leaf) {
    leaf.is_fresh = true;
    if (leaf.req == GradReq::add) return;
    if (leaf.keeps_rows) return forget_rows(leaf);
    Tensor& target = leaf.leaf_grad;
    impl_of(target).autograd = nullptr;
    std::memset(bytes_of(target), 0, target.nbytes());
    impl_of(target).storage->note_write();
  }

  static void write_rows(TapeEntry& leaf, std::vector<PickedRows> rows) {
    leaf.is_fresh = true;
    if (leaf.req == GradReq::add) rows.insert(rows.begin(), {leaf.rows, leaf.row_values, "clip"});
    set_rows(leaf, std::move(rows));
  }
  void write_leaf(TapeEntry& leaf, Tensor& gradient) {
    give_result(key(leaf), gradient);
    if (!wanted_.empty() || leaf.req == GradReq::null) return;
    leaf.is_fresh = true;
    detail::TensorImpl& target = impl_of(dense_gradient(leaf));
    if (leaf.req == GradReq::add) gradient = add(leaf.leaf_grad, gradient);
    detail::TensorImpl& value = impl_of(gradient);
    if (options_.create_graph)
      target.autograd = value.autograd;
    else
      target.autograd = nullptr;
    if (value.data == target.data) return;  // written in place
    // A gradient that nobody else holds becomes the leaf's without a copy.
    if (value.storage->use_count() == 1 && target.storage->use_count() == 1) {
      target.storage = value.storage;
      target.data = value.data;
    } else {
      std::memcpy(target.data, value.data, target.shape.elements() * dtype_bytes(target.dtype));
    }
  }

  BackwardOptions options_;
  std::priority_queue<Item> queue_;
  std::unordered_map<TapeNode*, Tensors> heads_;  // gradients that have flowed into each output so far
  std::vector<Reached> leaves_;
  PointerMap<size_t> leaf_places_;                                // in leaves_, by TapeEntry, which that keeps alive
  std::unordered_map<TapeEntry*, Ref<TapeEntry>> blocked_;        // leaves behind operators without a gradient
  std::unordered_set<Key, KeyHash> passed_;                       // results of calls that the way to them has passed
  std::unordered_map<const TapeEntry*, int> ways_;                // of watched leaves
  std::unordered_set<const TapeEntry*> told_;                     // whose watchers know
  std::unordered_map<Key, std::vector<size_t>, KeyHash> wanted_;  // grad(): where each variable's result goes
  Tensors results_;
};

Tensors run_backward(const Tensors& heads, const Tensors& variables, const Tensors& head_grads, BackwardOptions options,
                     bool is_whole = true) {
  if (heads.empty()) throw UserError("backward: there is no head");
  if (!head_grads.empty() && head_grads.size() != heads.size())
    raise<UserError>("backward: {} head gradients were given for {} heads", head_grads.size(), heads.size());
  if (mode().tracing) return trace_backward(heads, variables, head_grads, options);
  options.retain_graph |= options.create_graph;
  const Scope scope(options.create_graph, options.train_mode);
  Walk walk(options, variables);
  for (size_t i = 0; i < heads.size(); ++i) walk.add_head(heads[i], head_grads.empty() ? Tensor() : head_grads[i]);
  walk.run();
  return walk.take_results(variables, is_whole);
}

}  // namespace

void backward(const Tensors& heads, const Tensors& head_grads, BackwardOptions options) { run_backward(heads, {}, head_grads, options); }

void mark_variable(const Tensor& variable, const Tensor& gradient, GradReq req) {
  Tensor leaf = variable;
  leaf.attach_grad(req);
  if (req == GradReq::null || !gradient.defined()) return;
  if (!(gradient.shape() == leaf.shape()) || gradient.dtype() != leaf.dtype())
    raise<ShapeError>("mark_variable: the gradient is {} of shape {}, the variable {} of shape {}", gradient.dtype(), gradient.shape(),
                      leaf.dtype(), leaf.shape());
  entry_of(leaf)->leaf_grad = gradient;
}

static std::atomic<bool> gradients_are_watched{false};
void watch_gradient(TapeEntry& leaf, const std::shared_ptr<GradientWatcher>& watcher) {
  leaf.watcher = watcher;
  gradients_are_watched = true;
}
bool are_gradients_watched() { return gradients_are_watched; }

bool has_fresh_grad(const Tensor& t) {
  const TapeEntry* e = entry_of(t);
  return e && e->is_leaf() && e->is_fresh;
}
void set_fresh_grad(const Tensor& t, bool is_fresh) {
  if (TapeEntry* e = entry_of(t); e && e->is_leaf()) e->is_fresh = is_fresh;
}

Tensors grad(const Tensors& heads, const Tensors& variables, const Tensors& head_grads, BackwardOptions options) {
  if (variables.empty()) throw UserError("grad: there is no variable to differentiate by");
  return run_backward(heads, variables, head_grads, options);
}
Tensors grad_of_part(const Tensors& heads, const Tensors& variables, const Tensors& head_grads, BackwardOptions options) {
  return run_backward(heads, variables, head_grads, options, false);
}

}  // namespace gluino::autograd
