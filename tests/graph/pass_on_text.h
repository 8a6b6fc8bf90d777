// Feeds a graph as text through one pass.
#pragma once
#include <string>

#include "graph/graph.h"
#include "passes/pass.h"

namespace gluino::test {

using PassFunction = Graph (*)(Graph, const PassContext&);

// The pass on a graph with shapes and dtypes filled in; the result's are left out of the text.
inline std::string after(PassFunction pass, const std::string& text, bool training = false) {
  Graph g = Graph::parse(text);
  infer_graph(g, {}, {});
  Graph result = pass(std::move(g), {training});
  verify(result);
  for (auto& node : result.nodes)
    for (OutputInfo& o : node.outputs) o = {};
  return result.str();
}

}  // namespace gluino::test
