#include "passes/fuse_reductions.h"

#include <algorithm>
#include <map>

#include "dispatch/compiler_rules.h"
#include "passes/facts/readers.h"
#include "passes/facts/scalar_program.h"
#include "program/program_text.h"

namespace gluino {
namespace {

using AttrList = std::vector<std::pair<std::string_view, AttrValue>>;

// A reduction and the elementwise node that it takes over. It is computed where that node was, so nobody reads anything too early.
struct Taking {
  int reduction;
  Reduction how;
  Program program;
  int reduced;              // the result of the program that is reduced
  std::vector<int> others;  // the results that others read
};

class ReductionFusion {
 public:
  explicit ReductionFusion(Graph& graph) : graph_(graph), readers_(graph), backward_begins_(graph.count_forward_nodes()) {}

  Graph run() {
    std::vector<bool> is_reduction_taken(graph_.nodes.size(), false);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      if (auto taking = find(n)) {
        is_reduction_taken[n] = true;
        taken_.emplace(graph_.node(n).inputs[0].node, std::move(*taking));
      }
    Rewriter rewriter(graph_);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (const auto found = taken_.find(n); found != taken_.end())
        emit(n, found->second, rewriter);
      else if (!is_reduction_taken[n])
        rewriter.keep(n);
    }
    return rewriter.finish();
  }

 private:
  std::optional<Taking> find(int n) const {
    const Graph::Node& r = graph_.node(n);
    const auto& reduction = rules_of(r.op).reduction;
    if (!reduction || !r.outputs[0].shape) return std::nullopt;
    const ValueId from = r.inputs[0];
    if (graph_.info(from).dtype != r.outputs[0].dtype || r.outputs[0].dtype == DType::boolean) return std::nullopt;
    if (is_read_by_others(from, n)) return std::nullopt;  // must be written down anyway, and is soon read back: nothing is gained
    if (taken_.contains(from.node) || !graph_.run_together(from.node, n, backward_begins_)) return std::nullopt;
    std::vector<Shape> shapes;
    for (ValueId v : r.inputs) shapes.push_back(graph_.shape(v));
    Reduction how = reduction(r.attrs.get(), shapes);
    const auto program = elementwise_program(graph_, graph_.node(from));
    if (!program || how.axes.empty()) return std::nullopt;
    Taking taking{n, std::move(how), *program, from.index, {}};
    for (int i = 0; i < program->num_results(); ++i)
      if (is_read_by_others({from.node, i}, n)) taking.others.push_back(i);
    if (taking.others.size() + 1 > Program::kMaxResults) return std::nullopt;
    return taking;
  }
  bool is_read_by_others(ValueId v, int reduction) const {
    return readers_.any_of(v, [&](int r) { return r != reduction; });
  }

  void emit(int source, const Taking& taking, Rewriter& rewriter) const {
    const Graph::Node &from = graph_.node(source), &r = graph_.node(taking.reduction);
    Program program(taking.program.type());
    for (int i = 0; i < taking.program.size(); ++i) program.append(taking.program[i]);
    const int reduced = taking.program.result(taking.reduced);
    const bool is_last = reduced + 1 == program.size();  // otherwise it must be named, as where one operand only gives the shape
    if (!is_last || taking.program.num_results() > 1 || !taking.others.empty()) program.add_result(reduced);
    for (int i : taking.others) program.add_result(taking.program.result(i));
    const OpDef& fused = OpRegistry::global().get("_fused_reduce");
    const Reduction& how = taking.how;
    const AttrList attrs{{"program", program_text(program)},
                         {"how", std::string(name(how.how))},
                         {"finish", std::string(name(how.finish))},
                         {"axis", how.axes},
                         {"shape", *r.outputs[0].shape}};
    Graph::Node made{.op = &fused, .name = r.name, .attrs = fused.make_attrs(attrs), .outputs = r.outputs, .part = r.part};
    for (ValueId v : from.inputs) made.inputs.push_back(rewriter.mapped(v));
    for (int i : taking.others) made.outputs.push_back(from.outputs[i]);
    const int number = rewriter.add(std::move(made));
    std::vector<ValueId> values(from.outputs.size(), {number, 0});
    for (size_t k = 0; k < taking.others.size(); ++k) values[taking.others[k]].index = static_cast<int>(k) + 1;
    rewriter.replace(source, values);
    rewriter.replace({taking.reduction, 0}, {number, 0});
  }

  Graph& graph_;  // as it was until the end
  const Readers readers_;
  const int backward_begins_;
  std::map<int, Taking> taken_;  // by the node that is taken over
};

}  // namespace

Graph fuse_reductions(Graph graph, const PassContext&) { return ReductionFusion(graph).run(); }

}  // namespace gluino
