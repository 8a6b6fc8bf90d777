#include "exec/ways_back.h"

#include "autograd/tape.h"
#include "dispatch/own_gradient.h"
#include "exec/value_flow.h"

namespace gluino {

// What indexing and reshape() give leaves the tape with what it is a view of.
static bool is_view(const Graph::Node& call) {
  static const OpDef& slice = OpRegistry::global().get("slice");
  return call.op->is_view || (call.op == &slice && call.outputs[0].shape->elements() > 0);
}

WaysBack find_ways_back(const Compiled& c, const std::vector<bool>& given, std::span<const Tensor> hidden) {
  const Graph& g = c.graph.before;
  const int count = static_cast<int>(g.nodes.size());
  const ValueFlow flow(g, c.loops, hidden);
  ValueFlow::Set on = flow.none(), visited = flow.none(), blocked = flow.none(), released = flow.none(), cut = flow.none();
  const auto is_recorded = [&](int n) { return g.nodes[n].op && !g.nodes[n].mode.is_paused; };
  // What the memory of a tensor on the tape was written with says nothing of where that stands.
  const auto stays = [&](int n) { return autograd::is_overwrite(g.nodes[n].op) && on.has(g.nodes[n].inputs[0]); };
  const auto ways_back = [&](int n) { return stays(n) ? 1 : g.nodes[n].inputs.size(); };
  const std::vector<int> sources = source_nodes_of(c);
  for (int n : sources) on.add_all(n);
  for (int n = 0; n < count; ++n)
    if (is_recorded(n)) flow.follow(on, n, ways_back(n));
  for (size_t i = 0, next = 0; i < g.outputs.size() && next < given.size(); ++i)
    if (c.is_on_tape[i] && given[next++]) visited.add(g.outputs[i]);
  // Behind an input to which no gradient flows are zeros, which reach leaves, and release nothing on their way.
  const DeadEnds& ends = c.graph.dead_ends;
  for (int n = count; n-- > 0;) {
    if (!is_recorded(n)) continue;
    if (blocked.has_any(n) && has_own_gradient(*g.nodes[n].op)) visited.add_all(n);
    for (size_t i = 0; i < ways_back(n); ++i) {
      const ValueId from = g.nodes[n].inputs[i];
      if (flow.is_computed_from(visited, n, i)) (ends.is_end(g.nodes[n], i) ? blocked : visited).add(from);
      if (flow.is_computed_from(blocked, n, i)) blocked.add(from);
    }
  }
  for (int n = 0; n < count; ++n) {
    if (!is_recorded(n)) continue;
    for (size_t i = 0; i < ways_back(n); ++i)
      if (!ends.is_end(g.nodes[n], i)) flow.follow_input(cut, n, i);
    if (is_view(g.nodes[n]) && released.has(g.nodes[n].inputs[0])) released.add_all(n);
    if (!on.has_any(n) || !visited.has_any(n) || stays(n)) continue;
    for (int o = 0; o < static_cast<int>(g.nodes[n].outputs.size()); ++o)
      if (visited.has({n, o})) released.add({n, o});
    cut.add_all(n);
  }
  WaysBack ways;
  for (size_t i = 0; i < g.outputs.size(); ++i)
    if (c.is_on_tape[i]) {
      ValueId place = g.outputs[i];  // what is written under pause() leaves a tensor where it was
      while (stays(place.node)) place = g.nodes[place.node].inputs[0];
      ways.released.push_back(visited.has(place) || released.has(place));
      ways.cut.push_back(cut.has(place));
    }
  for (int n = 0; n < count; ++n)
    if (is_recorded(n) && on.has_any(n) && !visited.has_any(n) && has_own_gradient(*g.nodes[n].op)) ways.passes_by_own_gradient = true;
  for (int n : sources) {
    ways.flows.push_back(visited.has_any(n));
    ways.reached.push_back(visited.has_any(n) || blocked.has_any(n));
  }
  return ways;
}

std::vector<bool> Compiled::reached_from(const std::vector<bool>& given, std::span<const Tensor> left) const {
  return find_ways_back(*this, given, left).reached;
}

}  // namespace gluino
