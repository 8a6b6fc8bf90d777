#include "exec/trace_results.h"

#include <unordered_map>

#include "autograd/tape.h"
#include "dispatch/mode.h"

namespace gluino {
namespace {

using Key = const detail::TensorImpl*;
Key key(const Tensor& t) { return t.impl().get(); }

// Something was written into a detached view that flows back.
bool flows_back(const Tensor& t) { return mode().recording && t.is_symbolic() && !value_of(t).node->mode.is_paused; }

}  // namespace

struct TraceResults::Owners {
  std::unordered_map<Key, size_t> inputs, results;
  Owners(const Tensors& symbolic, const Tensors& concrete, const std::vector<std::optional<Origin>>& origins) {
    for (const Tensors* list : {&symbolic, &concrete})  // an input may be known from outside
      for (size_t i = 0; i < list->size(); ++i)
        if ((*list)[i].defined()) inputs.try_emplace(key((*list)[i]), i);
    for (size_t i = 0; i < origins.size(); ++i)
      if (origins[i] && origins[i]->views.empty()) results.try_emplace(key(origins[i]->root), i);
  }
};

std::optional<TraceResults::Origin> TraceResults::origin_of(const Tensor& t) {
  Origin o{t, {}};
  while (impl_of(o.root).view) {
    const Ref<ViewLink> link = impl_of(o.root).view;
    auto view = link->replay();
    if (!view) return {};
    o.views.insert(o.views.begin(), std::move(view));
    o.is_detached |= dynamic_cast<const autograd::DetachLink*>(link.get()) != nullptr;
    const Tensor made = std::exchange(o.root, link->base());
    if (!o.root.defined()) return {};
    if (link->depends_on_shape()) o.shapes_read.insert(o.shapes_read.end(), {made, o.root});
  }
  return o;
}

std::string TraceResults::why_not(const Tracer& tracer, const Tensors& results) {
  if (tracer.has_possible_aliases())
    for (const Tensor& t : results)
      if (t.defined() && !is_clear(tracer, t))
        return "it gives what a branch or loop may have passed on, as a view of it or from a branch inside";
  return "";
}
bool TraceResults::is_clear(const Tracer& tracer, const Tensor& t) {
  const std::optional<Origin> o = origin_of(t);
  if (!o) return true;  // a value of its own in the program, as it is wherever views cannot be made again
  return std::ranges::all_of(tracer.possible_aliases(o->root), [&](const Tracer::PossibleAlias& a) {
    if (!a.other.defined()) return false;
    const std::optional<Origin> other = origin_of(a.other);
    return other && !(other->is_detached && flows_back(a.other)) && is_clear(tracer, other->root);
  });
}

void TraceResults::put(Tensors results, Ending& ending) {
  ending.visible = results.size();
  for (const Tensor& t : results) add(t);
  add_common_roots();
  add_what_was_passed_on();
  const Owners owners(symbolic_, inputs_, origins_);
  for (size_t i = 0; i < results_.size(); ++i) {
    Ending::Result r;
    if (const Tensor& t = results_[i]; t.defined()) {
      r.alias = origins_[i] ? alias_of(*origins_[i], owners, i) : std::nullopt;
      if (r.alias) note_shape_read(*origins_[i]);
      // A view of a constant that the function made itself: the next call would have made another.
      const bool is_of_constant = !r.alias && origins_[i] && !origins_[i]->views.empty() && !origins_[i]->root.is_symbolic();
      const Tensor own = is_of_constant ? call("_copy", {t}) : t;
      r.in_graph = locate_(own.is_symbolic() ? value_of(own) : tracer_.capture(own));
      if (!r.alias || (origins_[i]->is_detached && flows_back(t))) r.value = r.in_graph;
      if (!r.alias)
        for (const Tracer::PossibleAlias& a : tracer_.possible_aliases(t))
          r.passed_on.push_back({locate_(a.steps), a.when, alias_of_passed_on(a.other, owners, i)});
    }
    ending.results.push_back(std::move(r));
  }
}

void TraceResults::add(const Tensor& t) {
  if (t.defined() && !t.is_symbolic() && !impl_of(t).is_made_in_trace()) tracer_.capture(t);
  results_.push_back(t);
  origins_.push_back(t.defined() ? origin_of(t) : std::nullopt);
}
bool TraceResults::is_added(const Tensor& t) const {
  return std::ranges::any_of(results_, [&](const Tensor& r) { return r.defined() && r.is_same(t); });
}
bool TraceResults::is_input(const Tensor& t) const {
  const auto is_it = [&](const Tensor& i) { return i.defined() && i.is_same(t); };
  return std::ranges::any_of(symbolic_, is_it) || std::ranges::any_of(inputs_, is_it);
}
// Two views of a value that is no result itself share its memory: it becomes one that the caller does not see.
void TraceResults::add_common_roots() {
  std::unordered_map<Key, int> views;  // how many of each root
  for (size_t i = 0, visible = results_.size(); i < visible; ++i)
    if (origins_[i] && !origins_[i]->views.empty() && ++views[key(origins_[i]->root)] == 2) add(origins_[i]->root);
}
// So does what a branch or loop gave that some result is a view of, and what it may have passed on.
void TraceResults::add_what_was_passed_on() {
  if (!tracer_.has_possible_aliases()) return;
  const auto add_root = [&](const Tensor& root) {
    if (!is_input(root) && !is_added(root)) add(root);
  };
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!origins_[i]) continue;
    const Tensor root = origins_[i]->root;
    const std::span<const Tracer::PossibleAlias> aliases = tracer_.possible_aliases(root);
    if (!aliases.empty()) add_root(root);
    for (const Tracer::PossibleAlias& a : aliases)
      if (a.other.defined()) add_root(origin_of(a.other)->root);
  }
}

std::optional<Ending::Alias> TraceResults::alias_of(const Origin& o, const Owners& owners, size_t number) const {
  const auto input = owners.inputs.find(key(o.root));
  if (input != owners.inputs.end()) return Ending::Alias{Ending::Alias::Of::input, static_cast<int>(input->second), o.views};
  if (impl_of(o.root).is_made_in_trace()) {  // a value of the trace: perhaps it is another result
    const auto result = owners.results.find(key(o.root));
    if (result == owners.results.end() || result->second == number) return {};
    return Ending::Alias{Ending::Alias::Of::result, static_cast<int>(result->second), o.views};
  }
  const auto place = tracer_.place_in_captured(o.root);
  return place ? std::optional(Ending::Alias{Ending::Alias::Of::captured, static_cast<int>(*place), o.views}) : std::nullopt;
}
Ending::Alias TraceResults::alias_of_passed_on(const Tensor& t, const Owners& owners, size_t number) {
  const std::optional<Origin> o = origin_of(t);
  note_shape_read(*o);
  return alias_of(*o, owners, number).value();
}
void TraceResults::note_shape_read(const Origin& o) {
  for (const Tensor& read : o.shapes_read) {
    const Tensor& t = read.is_symbolic() ? read : o.root;
    tracer_.on_shape_read(t.is_symbolic() ? value_of(t) : tracer_.capture(t), -1, impl_of(t).shape);
  }
}

}  // namespace gluino
