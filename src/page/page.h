// The page that shows what hybridize() did: one HTML file that needs nothing else. The traced and the compiled graph side by side, what
// became of each operator, and the plan's arena over the steps.
#pragma once
#include "plan/plan.h"

namespace gluino {

struct PageContent {
  std::string title;
  const Graph& before;  // as traced
  const Graph& after;   // as planned
  const Plan& plan;
  std::vector<double> node_microseconds;  // by node of `before`, 0 for what did not run; empty: not timed
  std::vector<double> step_microseconds;  // by step of the plan, as before
};
std::string make_page(const PageContent& content);

// For each node of `after` the nodes of `before` that it computes. Passes keep the name of the value that a node gives: from the node of
// that name back to those that another node of `after` gives, all is inside.
std::vector<std::vector<int>> find_origins(const Graph& before, const Graph& after);

}  // namespace gluino
