#include "passes/join_layers.h"

#include <algorithm>
#include <map>

#include "dispatch/compiler_rules.h"
#include "passes/facts/readers.h"
#include "passes/facts/state_updates.h"

namespace gluino {
namespace {

constexpr size_t kLongest = 3;  // layers that an operator joins

class LayerJoiner {
 public:
  explicit LayerJoiner(Graph& graph) : graph_(graph), readers_(graph), updates_(graph), is_joined_(graph.nodes.size(), false) {}

  Graph run() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      if (rules_of(graph_.node(n).op).join && !is_joined_[n]) find_chain(n);
    if (chain_ending_at_.empty()) return std::move(graph_);
    Rewriter rewriter(graph_);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (const auto found = chain_ending_at_.find(n); found != chain_ending_at_.end())
        rewriter.put(n, joined(found->second, rewriter));
      else if (!is_joined_[n])
        rewriter.keep(n);
    }
    return rewriter.finish();
  }

 private:
  struct Chain {
    std::vector<int> nodes;
    JoinedCall call;
  };

  // The call of the same operator that alone reads the result of the last node, as its first input; or -1. A chain is computed where
  // its last node stands.
  int next(const std::vector<int>& chain) const {
    const int last = chain.back(), reader = readers_.only_node(last);
    if (reader < 0 || graph_.node(reader).op != graph_.node(last).op || !(graph_.node(reader).inputs[0] == ValueId{last, 0})) return -1;
    const auto must_stay = [&](int n) { return updates_.forbid_moving(n, reader); };
    return std::any_of(chain.begin(), chain.end(), must_stay) ? -1 : reader;
  }

  void find_chain(int first) {
    std::vector<int> nodes{first};
    std::vector<ChainedCall> calls{call_of(first)};
    for (int n = next(nodes); n >= 0 && nodes.size() < kLongest; n = next(nodes)) {
      nodes.push_back(n);
      calls.push_back(call_of(n));
    }
    for (; nodes.size() > 1; nodes.pop_back(), calls.pop_back()) {
      auto call = rules_of(graph_.node(first).op).join(calls);
      if (!call) continue;
      for (int n : nodes) is_joined_[n] = true;
      const int last = nodes.back();
      chain_ending_at_[last] = {std::move(nodes), std::move(*call)};
      return;
    }
  }
  ChainedCall call_of(int n) const {
    ChainedCall call{graph_.node(n).attrs.get(), {}};
    for (ValueId v : graph_.node(n).inputs) call.in.push_back(graph_.shape(v));
    return call;
  }

  Graph::Node joined(const Chain& chain, const Rewriter& rewriter) const {
    const Graph::Node& last = graph_.node(chain.nodes.back());
    Graph::Node made{.op = &OpRegistry::global().get(chain.call.op), .name = last.name, .attrs = chain.call.attrs, .outputs = last.outputs};
    for (size_t i = 0; i < chain.nodes.size(); ++i) {
      const auto& inputs = graph_.node(chain.nodes[i]).inputs;
      for (size_t k = i == 0 ? 0 : 1; k < inputs.size(); ++k) made.inputs.push_back(rewriter.mapped(inputs[k]));
    }
    return made;
  }

  Graph& graph_;  // as it was until the end
  const Readers readers_;
  const StateUpdates updates_;
  std::vector<bool> is_joined_;
  std::map<int, Chain> chain_ending_at_;
};

}  // namespace

Graph join_layers(Graph graph, const PassContext&) { return LayerJoiner(graph).run(); }

}  // namespace gluino
