#include "exec/pipeline.h"

#include <chrono>
#include <set>
#include <unordered_map>

#include "base/env.h"
#include "base/format.h"
#include "passes/absorb_transposes.h"
#include "passes/compile_layers.h"
#include "passes/differentiate.h"
#include "passes/eliminate_common.h"
#include "passes/eliminate_dead.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_constants.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_elementwise.h"
#include "passes/fuse_reductions.h"
#include "passes/fuse_rows.h"
#include "passes/join_layers.h"
#include "passes/number_shapes.h"
#include "passes/raise_shape_reads.h"
#include "passes/simplify.h"

namespace gluino {
namespace {

// The pipeline, top to bottom. GLUINO_SKIP_PASSES="simplify,simplify (joint),..." leaves passes out.
constexpr Pass kForwardPasses[] = {
    {"fold_constants", fold_constants},       {"simplify", simplify},
    {"fold_batch_norm", fold_batch_norm},     {"eliminate_common", eliminate_common},
    {"raise_shape_reads", raise_shape_reads}, {"eliminate_dead", eliminate_dead},
};
// The same after the backward pass was appended; the forward part is already in its final form.
constexpr Pass kJointPasses[] = {
    {"simplify (joint)", simplify},
    {"eliminate_common (joint)", eliminate_common},
    {"raise_shape_reads (joint)", raise_shape_reads},
    {"eliminate_dead (joint)", eliminate_dead},
};
// At the end, when nothing will be differentiated any more: from operators to kernels.
constexpr Pass kLayerPasses[] = {{"compile_layers", compile_layers},  // where no backward pass needs the operators' own results
                                 {"join_layers", join_layers}};
constexpr Pass kFusionPasses[] = {{"number_shapes", number_shapes},
                                  {"fuse_elementwise", fuse_elementwise},
                                  {"absorb_transposes", absorb_transposes},
                                  {"fuse_attention", fuse_attention},
                                  {"fuse_rows", fuse_rows},
                                  {"fuse_reductions", fuse_reductions}};

int count_operators(const Graph& g) {
  return static_cast<int>(std::count_if(g.nodes.begin(), g.nodes.end(), [](const Graph::Node& n) { return n.op != nullptr; }));
}

std::set<std::string, std::less<>> names_in(std::string_view list) {
  std::set<std::string, std::less<>> names;
  for (;;) {
    const size_t comma = list.find(',');
    names.emplace(list.substr(0, comma));
    if (comma == std::string_view::npos) return names;
    list.remove_prefix(comma + 1);
  }
}

class Pipeline {
 public:
  explicit Pipeline(const CompileRequest& request)
      : request_(request),
        context_{request.training, !request.wanted_gradients.empty()},
        skipped_(names_in(env_text("GLUINO_SKIP_PASSES").value_or(""))) {}

  CompiledGraph run(Graph graph) {
    result_.num_outputs = static_cast<int>(graph.outputs.size());
    result_.before = timed("infer", [&] {
      infer_graph(graph, request_.shapes, request_.types);
      check_complete(graph);
      return std::move(graph);
    });
    Graph g = result_.before;
    for (const Pass& pass : kForwardPasses) g = apply_pass(pass, std::move(g));
    if (!request_.wanted_gradients.empty()) g = with_backward(std::move(g));
    const int64_t operators_bytes = intermediate_bytes(g);
    if (request_.wanted_gradients.empty())
      for (const Pass& pass : kLayerPasses) g = apply_pass(pass, std::move(g));
    for (const Pass& pass : kFusionPasses) g = apply_pass(pass, std::move(g));
    result_.after = std::move(g);
    const auto start = now();
    result_.plan = make_plan(result_.after, !request_.training && request_.wanted_gradients.empty());
    result_.plan.unplanned_bytes = operators_bytes;
    result_.stages.push_back({"plan", static_cast<int>(result_.plan.steps.size()), elapsed(start)});
    return std::move(result_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::time_point now() { return Clock::now(); }
  static double elapsed(Clock::time_point start) { return std::chrono::duration<double, std::micro>(now() - start).count(); }

  template <class F>
  Graph timed(const std::string& stage, F&& f) {
    const auto start = now();
    Graph g = f();
    result_.stages.push_back({stage, count_operators(g), elapsed(start)});
#ifdef GLUINO_CHECKS
    verify(g);
#endif
    return g;
  }
  Graph apply_pass(const Pass& pass, Graph g) {
    if (skipped_.contains(pass.name)) return g;
    return timed(pass.name, [&] { return pass.run(std::move(g), context_); });
  }

  static void check_complete(const Graph& g) {
    for (const auto& n : g.nodes)
      for (const OutputInfo& o : n.outputs)
        if (!o.shape || !o.shape->is_known()) raise<ShapeError>("the shape of '{}' does not follow from the shapes of the inputs", n.name);
  }

  Graph with_backward(Graph forward) {
    std::unordered_map<std::string_view, int> leaves;
    for (size_t i = 0; i < forward.nodes.size(); ++i)
      if (!forward.node(i).op) leaves.try_emplace(forward.node(i).name, static_cast<int>(i));
    std::vector<int> wanted;
    for (const std::string& name : request_.wanted_gradients) {
      const auto found = leaves.find(name);
      wanted.push_back(found == leaves.end() ? -1 : found->second);
    }
    Graph g = timed("differentiate", [&] {
      Differentiated d = differentiate(std::move(forward), wanted, request_.as_rows);
      result_.has_gradient = d.has_gradient;
      result_.row_modes = d.row_modes;
      result_.dead_ends = std::move(d.dead_ends);
      return std::move(d.graph);
    });
    for (const Pass& pass : kJointPasses) g = apply_pass(pass, std::move(g));
    return g;
  }

  const CompileRequest& request_;
  PassContext context_;
  const std::set<std::string, std::less<>> skipped_;  // names of passes
  CompiledGraph result_;
};

}  // namespace

CompiledGraph compile(Graph graph, const CompileRequest& request) { return Pipeline(request).run(std::move(graph)); }

}  // namespace gluino
