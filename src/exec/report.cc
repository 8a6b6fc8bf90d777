// What a HybridCache has done so far: graphs, plans, numbers, explain().
#include "base/file.h"
#include "base/format.h"
#include "exec/hybrid_cache.h"
#include "graph/named_attrs.h"
#include "page/page.h"

namespace gluino {

std::shared_ptr<Compiled> HybridCache::Impl::latest_plan() const {
  const std::lock_guard lock(mutex);
  if (latest) return latest;
  if (!trees.empty())
    throw UserError(
        "the function reads values to decide what to do, so it is several graphs and not one; use where, cond, foreach or while_loop "
        "instead of if and for on values, or hybridize(strict) to see where the value is read");
  throw UserError("nothing has been compiled yet; call the function once first");
}

std::shared_ptr<Compiled> HybridCache::Impl::predicting_plan() const {
  std::shared_ptr<Compiled> last = latest_plan();
  const Signature& wanted = last->program->signature;
  if (!wanted.training) return last;
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find_if(plans, [&](const auto& c) {  // the last used stands first
    const Signature& s = c->program->signature;
    return !s.training && s.structure == wanted.structure && s.ranks == wanted.ranks;
  });
  if (found != plans.end()) return *found;
  if (last->program->trace.reads_mode)
    throw UserError(
        "the function asks whether it is in training, and only what it does there has been compiled; call it once outside of training "
        "first");
  return last;
}

HybridStats HybridCache::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

static Symbol symbol_of(const Compiled& c) {
  const TracedProgram& p = *c.program;
  // Captured tensors become variables again: a file names them, and their values are stored beside it.
  Graph g = c.graph.before;
  for (auto& node : g.nodes) {
    node.constant = Tensor();
    keep_default_choices(node);
  }
  g.outputs = p.traced.results;
  for (size_t i = 0; i < g.outputs.size(); ++i)
    if (g.outputs[i].node < 0) raise<UserError>("result {} is a null tensor, which no graph can say", i);
  for (auto& node : g.nodes)
    for (OutputInfo& o : node.outputs) o = {};
  return Symbol::from_graph(std::move(g));
}
Symbol HybridCache::symbol() const { return symbol_of(*impl_->predicting_plan()); }
std::optional<HybridCache::Traced> HybridCache::traced() const {
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->latest && impl_->trees.empty()) return std::nullopt;
  }
  const std::shared_ptr<Compiled> c = impl_->predicting_plan();
  Traced found{symbol_of(*c), {}};
  const Trace& t = c->program->trace;
  for (size_t i = 0; i < t.captured.size(); ++i) found.captured.emplace_back(t.captured_names[i], t.captured[i]->live());
  return found;
}
Tensor HybridCache::captured(const std::string& name) const {
  const std::shared_ptr<Compiled> c = impl_->predicting_plan();
  const Trace& t = c->program->trace;
  for (size_t i = 0; i < t.captured.size(); ++i)
    if (t.captured_names[i] == name) return t.captured[i]->live();
  return {};
}
Symbol HybridCache::graph_before() const { return Symbol::from_graph(impl_->latest_plan()->graph.before); }
Symbol HybridCache::graph_after() const { return Symbol::from_graph(impl_->latest_plan()->graph.after); }
std::string HybridCache::svg_before() const { return to_svg(impl_->latest_plan()->graph.before); }
std::string HybridCache::svg_after() const { return to_svg(impl_->latest_plan()->graph.after); }
std::string HybridCache::memory_plan() const { return impl_->latest_plan()->plan().str(); }
HybridCache::Memory HybridCache::memory() const {
  const std::shared_ptr<Compiled> c = impl_->latest_plan();
  return {c->plan().arena_bytes, c->plan().unplanned_bytes};
}

std::string HybridCache::explain(const std::string& html, const std::string& title) const {
  if (!html.empty()) {
    const std::shared_ptr<Compiled> c = impl_->latest_plan();
    write_file(html, make_page({.title = title.empty() ? "what hybridize did" : title,
                                .before = c->graph.before,
                                .after = c->graph.after,
                                .plan = c->plan(),
                                .step_microseconds = c->runner->step_microseconds()}));
  }
  const HybridStats s = stats();
  std::string text = fmt::format("{} calls, {} traces, {} plans\n", s.calls, s.traces, s.plans);
  std::shared_ptr<Compiled> c;
  {
    const std::lock_guard lock(impl_->mutex);
    c = impl_->latest;
    for (const Impl::Refused& r : impl_->refused) text += fmt::format("not compiled: {}\n", r.why);
    if (!c)
      for (const auto& [signature, tree] : impl_->trees) text += tree->str();
  }
  if (!c) return text;
  const Trace& t = c->program->trace;
  text += fmt::format("traced in {:.0f} us; compiled:", c->program->trace_microseconds);
  for (const StageTime& stage : c->graph.stages)
    text += fmt::format(" {} {:.0f} us ({} operators)", stage.stage, stage.microseconds, stage.nodes);
  text += "\nguards:";
  const bool is_free = std::ranges::all_of(t.guards, [](const Trace::Guard& g) { return g.like.has_value(); });
  for (const Trace::Guard& g : t.guards) {
    if (g.like) continue;  // what an update needs is asked in eager code, too
    text +=
        g.axis < 0 ? fmt::format(" shape {} was read;", g.shape) : fmt::format(" extent {} of axis {} was read;", g.shape[g.axis], g.axis);
  }
  if (is_free) text += " none, every extent is free";
  if (!t.settings.empty()) text += fmt::format("\nsettings that were read: {}", t.settings.size());
  text += fmt::format("\nmemory of intermediate values: {} bytes planned, {} bytes without a plan\n", c->plan().arena_bytes,
                      c->plan().unplanned_bytes);
  text += "before the passes:\n" + c->graph.before.str() + "after the passes:\n" + c->graph.after.str() +
          c->plan().str(c->runner->step_microseconds());
  return text;
}

}  // namespace gluino
