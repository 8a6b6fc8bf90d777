#include "passes/fuse_attention.h"

#include <map>

#include "dispatch/compiler_rules.h"
#include "passes/eliminate_dead.h"
#include "passes/facts/readers.h"
#include "passes/facts/scalar_program.h"
#include "passes/facts/state_updates.h"
#include "program/match.h"
#include "program/program_text.h"

namespace gluino {
namespace {

struct Attention {
  ValueId query, key, value;
  std::vector<ValueId> others;  // further inputs of the scores' program
  std::string program;
  Shape scores;
  int64_t heads = 0;
  bool time_first = false;  // operands and result are (time, heads, depth): they are looked at as one batch of (time, heads * depth)
  double query_scale = 1, score_scale = 1;
  int last;                   // the node whose result it gives
  std::vector<int> inside;    // nodes that it takes the place of
  std::vector<int> prepared;  // nodes that only prepared the operands; they may have other readers
};

class AttentionFinder {
 public:
  explicit AttentionFinder(const Graph& graph) : graph_(graph), updates_(graph), readers_(graph) {}

  // Node n is taken as the product of weights and values.
  std::optional<Attention> ending_at(int n) const {
    if (!is_product(n, false)) return {};
    Attention a{.value = graph_.node(n).inputs[1], .last = n};
    const std::optional<int> softmax = inner(graph_.node(n).inputs[0], a);
    if (!softmax || !take_softmax(*softmax, a)) return {};
    std::optional<int> scores = inner(graph_.node(*softmax).inputs[0], a);
    if (scores && !is_product(*scores, true)) scores = take_program(*scores, a);
    if (!scores || !is_product(*scores, true) || !same_matrices(graph_.node(*scores).outputs[0], graph_.node(*softmax).outputs[0]))
      return {};
    a.inside.push_back(*scores);
    a.query = graph_.node(*scores).inputs[0];
    a.key = graph_.node(*scores).inputs[1];
    take_scale(a);
    take_heads(n, a);
    for (const auto& nodes : {a.inside, a.prepared})
      for (int m : nodes)
        if (m < a.last && updates_.forbid_moving(m, a.last)) return {};
    return a;
  }

 private:
  bool is_product(int n, bool transposed) const {
    const Graph::Node& x = graph_.node(n);
    const auto& matrix_product = rules_of(x.op).matrix_product;
    if (!matrix_product || !is_float32(graph_, x)) return false;
    const MatrixProduct how = matrix_product(x.attrs.get());
    return !how.transpose_a && how.transpose_b == transposed;
  }
  static bool same_matrices(const OutputInfo& a, const OutputInfo& b) {
    const Shape &x = *a.shape, &y = *b.shape;
    return x.ndim() > 1 && y.ndim() > 1 && x.back() == y.back() && x[x.ndim() - 2] == y[y.ndim() - 2];
  }

  // The node that computes v, through views; it and the views become part of the attention, so nothing else may read them.
  std::optional<int> inner(ValueId v, Attention& a) const {
    while (v.index == 0 && graph_.node(v).op && readers_.only_node(v.node) >= 0) {
      if (!graph_.node(v).op->is_view) return v.node;
      a.inside.push_back(v.node);
      v = graph_.node(v).inputs[0];
    }
    return {};
  }
  bool take_softmax(int n, Attention& a) const {
    const Graph::Node& x = graph_.node(n);
    const auto& row_call = rules_of(x.op).row_call;
    if (!row_call || x.inputs.size() != 1 || !is_float32(graph_, x)) return false;
    const auto call = row_call(x.attrs.get(), {&graph_.shape(x.inputs[0]), 1});
    if (!call || call->function != kernels::RowFunction::softmax) return false;
    a.score_scale = call->number;
    a.inside.push_back(n);
    return true;
  }
  // Elementwise operators between scores and softmax; gives the node of the scores.
  std::optional<int> take_program(int n, Attention& a) const {
    const Graph::Node& x = graph_.node(n);
    const std::optional<Program> found = elementwise_program(graph_, x);
    if (!found || found->num_results() != 1 || !is_float32(graph_, x)) return {};
    const Program& program = *found;
    if (program.result(0) != program.size() - 1) return {};
    for (size_t i = 0; i < x.inputs.size(); ++i) {
      Attention candidate = a;
      const std::optional<int> scores = inner(x.inputs[i], candidate);
      if (!scores || !is_product(*scores, true) || !(graph_.shape(x.inputs[i]) == *x.outputs[0].shape)) continue;
      a = std::move(candidate);
      a.inside.push_back(n);
      a.program = with_first_input(program, static_cast<int>(i));
      a.scores = *x.outputs[0].shape;
      for (size_t k = 0; k < x.inputs.size(); ++k)
        if (k != i) a.others.push_back(x.inputs[k]);
      return scores;
    }
    return {};
  }
  // The same program with its input number i moved in front of the others.
  static std::string with_first_input(const Program& from, int i) {
    Program to(from.type());
    for (int k = 0; k < from.size(); ++k) {
      Instruction in = from[k];
      if (in.fn == ScalarFn::input) in.args[0] = static_cast<uint8_t>(in.args[0] == i ? 0 : in.args[0] < i ? in.args[0] + 1 : in.args[0]);
      to.append(in);
    }
    return program_text(to);
  }
  void take_scale(Attention& a) const {
    const Graph::Node& x = graph_.node(a.query);
    if (!x.op || !x.op->is_elementwise() || x.inputs.size() != 1 || !is_float32(graph_, x)) return;
    static const Pattern scaled([](Pattern& p) { return p.input(0) * p.any_number(); });
    static const Pattern divided([](Pattern& p) { return p.input(0) / p.any_number(); });
    const Program program = program_of(x, ComputeType::f32);
    if (const auto scale = match(program, scaled))
      a.query_scale = scale->front();
    else if (const auto divisor = match(program, divided))
      a.query_scale = 1 / divisor->front();
    else
      return;
    a.prepared.push_back(a.query.node);
    a.query = x.inputs[0];
  }

  bool swaps_heads(int n) const {
    const Graph::Node& x = graph_.node(n);
    const auto& permutation = rules_of(x.op).permutation;
    return permutation && graph_.shape(x.inputs[0]).ndim() == 4 &&
           permutation(x.attrs.get(), graph_.shape(x.inputs[0])) == Shape{0, 2, 1, 3};
  }
  bool is_view(int n) const { return graph_.node(n).op && graph_.node(n).op->is_view; }

  struct Split {
    ValueId from;
    int64_t heads;
    std::vector<int> nodes;
  };
  // A value (batch, time, heads * depth) that v gives as matrices (batch * heads, time, depth).
  std::optional<Split> split_heads(ValueId v) const {
    const Shape matrices = graph_.shape(v);
    std::vector<int> nodes{v.node};
    if (is_view(v.node)) nodes.push_back((v = graph_.node(v).inputs[0]).node);
    if (!swaps_heads(v.node) || !ends_alike(graph_.shape(v), matrices)) return {};
    const ValueId parts = graph_.node(v).inputs[0];
    if (!is_view(parts.node)) return {};
    const ValueId from = graph_.node(parts).inputs[0];
    const Shape &whole = graph_.shape(from), &cut = graph_.shape(parts);
    if (whole.ndim() != 3 || whole[0] != cut[0] || whole[1] != cut[1]) return {};
    nodes.push_back(parts.node);
    return Split{from, cut[2], std::move(nodes)};
  }
  static bool ends_alike(const Shape& a, const Shape& b) {
    return b.ndim() > 2 && a.back() == b.back() && a[a.ndim() - 2] == b[b.ndim() - 2];
  }
  // The nodes that join the heads of what n gives; empty when something else follows.
  std::vector<int> join_heads(int n) const {
    std::vector<int> nodes;
    int next = readers_.only_node(n);
    if (next >= 0 && is_view(next)) {
      nodes.push_back(next);
      next = readers_.only_node(next);
    }
    if (next < 0 || !swaps_heads(next) || !ends_alike(graph_.shape(graph_.node(next).inputs[0]), *graph_.node(n).outputs[0].shape))
      return {};
    nodes.push_back(next);
    const Shape cut = *graph_.node(next).outputs[0].shape;
    next = readers_.only_node(next);
    if (next < 0 || !is_view(next)) return {};
    const Shape& whole = *graph_.node(next).outputs[0].shape;
    if (whole.ndim() != 3 || whole[0] != cut[0] || whole[1] != cut[1]) return {};
    nodes.push_back(next);
    return nodes;
  }
  // The value (time, heads, depth) that v gives as matrices (heads, time, depth).
  std::optional<Split> split_time_first(ValueId v) const {
    if (!puts_heads_first(v.node)) return {};
    const ValueId from = graph_.node(v).inputs[0];
    return Split{from, graph_.shape(from)[1], {v.node}};
  }
  bool puts_heads_first(int n) const {
    const Graph::Node& x = graph_.node(n);
    const auto& permutation = rules_of(x.op).permutation;
    return permutation && graph_.shape(x.inputs[0]).ndim() == 3 && permutation(x.attrs.get(), graph_.shape(x.inputs[0])) == Shape{1, 0, 2};
  }
  bool take_heads_behind_time(int n, Attention& a) const {
    const auto query = split_time_first(a.query), key = split_time_first(a.key), value = split_time_first(a.value);
    if (!query || !key || !value || graph_.shape(query->from).elements() == 0 || graph_.shape(value->from).elements() == 0) return false;
    const int next = readers_.only_node(n);
    if (next < 0 || !puts_heads_first(next)) return false;
    a.time_first = true;
    replace_operands(*query, *key, *value, a);
    a.inside.push_back(n);
    a.last = next;
    return true;
  }
  static void replace_operands(const Split& query, const Split& key, const Split& value, Attention& a) {
    a.query = query.from;
    a.key = key.from;
    a.value = value.from;
    a.heads = query.heads;
    for (const Split* split : {&query, &key, &value}) a.prepared.insert(a.prepared.end(), split->nodes.begin(), split->nodes.end());
  }
  void take_heads(int n, Attention& a) const {
    if (take_heads_behind_time(n, a)) return;
    const auto query = split_heads(a.query), key = split_heads(a.key), value = split_heads(a.value);
    if (!query || !key || !value || query->heads != key->heads || query->heads != value->heads) return;
    const std::vector<int> joined = join_heads(n);
    if (joined.empty()) return;
    replace_operands(*query, *key, *value, a);
    a.inside.push_back(n);
    a.last = joined.back();
    a.inside.insert(a.inside.end(), joined.begin(), joined.end() - 1);
  }

  const Graph& graph_;
  const StateUpdates updates_;
  const Readers readers_;
};

}  // namespace

// (time, heads, depth) as (1, time, heads * depth).
static Shape one_batch(const Shape& s) { return {1, s[0], s[1] * s[2]}; }
static ValueId add_view(Rewriter& graph, ValueId of, const Shape& shape) {
  const OpDef& reshape = OpRegistry::global().get("Reshape");
  const std::pair<std::string_view, AttrValue> attrs[] = {{"shape", shape}};
  OutputInfo info = graph.info(of);
  info.shape = shape;
  return {
      graph.add(
          {.op = &reshape, .name = graph.node(of).name + "_view", .attrs = reshape.make_attrs(attrs), .inputs = {of}, .outputs = {info}}),
      0};
}

Graph fuse_attention(Graph graph, const PassContext& context) {
  const AttentionFinder finder(graph);
  std::map<int, Attention> ending;  // by the node whose result it gives
  std::vector<bool> is_inside(graph.nodes.size(), false);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    if (auto a = finder.ending_at(n)) {
      for (int inside : a->inside) is_inside[inside] = true;
      ending.emplace(a->last, std::move(*a));
    }
  if (ending.empty()) return graph;

  const OpDef& fused = OpRegistry::global().get("_fused_attention");
  Rewriter rewriter(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const auto found = ending.find(n);
    if (found == ending.end()) {
      if (!is_inside[n]) rewriter.keep(n);
      continue;
    }
    const Attention& a = found->second;
    std::vector<std::pair<std::string_view, AttrValue>> attrs{
        {"heads", a.heads}, {"query_scale", a.query_scale}, {"score_scale", a.score_scale}};
    if (!a.program.empty()) attrs.insert(attrs.end(), {{"program", a.program}, {"scores", a.scores}});
    const Graph::Node& last = graph.node(n);
    Graph::Node made{.op = &fused, .name = last.name, .attrs = fused.make_attrs(attrs), .outputs = last.outputs};
    for (ValueId v : {a.query, a.key, a.value})
      made.inputs.push_back(a.time_first ? add_view(rewriter, rewriter.mapped(v), one_batch(graph.shape(v))) : rewriter.mapped(v));
    for (ValueId v : a.others) made.inputs.push_back(rewriter.mapped(v));
    if (!a.time_first) {
      rewriter.put(n, std::move(made));
      continue;
    }
    made.name += "_attention";
    made.outputs[0].shape = one_batch(*last.outputs[0].shape);
    const int number = rewriter.add(std::move(made));
    rewriter.replace({n, 0}, add_view(rewriter, {number, 0}, *last.outputs[0].shape));
  }
  return eliminate_dead(rewriter.finish(), context);  // what only prepared the operands
}

}  // namespace gluino
