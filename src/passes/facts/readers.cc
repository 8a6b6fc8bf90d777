#include "passes/facts/readers.h"

#include <numeric>

namespace gluino {

Readers::Readers(const Graph& graph) : first_(graph.nodes.size() + 2, 0) {
  // Counted first: place n + 2 counts those of node n, then n + 1 is where the next of them goes.
  const auto each_read = [&](const auto& visit) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (ValueId v : graph.node(i).inputs) visit(v, static_cast<int>(i));
    for (ValueId v : graph.outputs) visit(v, kCaller);
  };
  each_read([&](ValueId v, int) { ++first_[static_cast<size_t>(v.node) + 2]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  readers_.resize(first_.back());
  outputs_.resize(first_.back());
  each_read([&](ValueId v, int reader) {
    const size_t place = first_[static_cast<size_t>(v.node) + 1]++;
    readers_[place] = reader;
    outputs_[place] = v.index;
  });
  first_.pop_back();
}

}  // namespace gluino
