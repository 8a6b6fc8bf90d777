// HybridCache: from a call's signature to a compiled program. Signature: dtypes, ranks, mode, structure, and exactly
// those extents that the trace looked at; every set of shapes that fits gets a plan of its own, not a trace.
#include "gluino/hybrid.h"

#include <chrono>
#include <list>
#include <mutex>

#include "autograd/tape.h"
#include "base/format.h"
#include "dispatch/mode.h"
#include "exec/runner.h"
#include "exec/segments.h"
#include "exec/trace_program.h"
#include "gluino/autograd.h"
#include "graph/interpret.h"

namespace gluino {
namespace {

// What decides which trace may serve a call.
struct StaticKey {
  bool training = false;
  std::string structure;
  std::vector<DType> types;
  std::vector<int> ranks;  // -1 for a null tensor
  int device = 0;
  bool operator==(const StaticKey&) const = default;

  static StaticKey of(const Tensors& inputs, const std::string& structure) {
    StaticKey k;
    k.training = mode().training;
    k.structure = structure;
    for (const Tensor& t : inputs) {
      k.types.push_back(t.defined() ? impl_of(t).dtype : DType::float32);
      k.ranks.push_back(t.defined() ? impl_of(t).shape.ndim() : -1);
      if (t.defined()) k.device = impl_of(t).device.id();
    }
    return k;
  }
};

std::vector<Shape> shapes_of(const Tensors& inputs) {
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.defined() ? impl_of(t).shape : Shape{});
  return shapes;
}

struct TracedProgram;

// A plan for one set of shapes and one set of wanted gradients.
struct Compiled : std::enable_shared_from_this<Compiled> {
  std::shared_ptr<TracedProgram> program;
  std::vector<Shape> shapes;
  std::vector<bool> wanted;  // per input, then per captured tensor; empty when not recording
  CompiledGraph graph;
  std::unique_ptr<PlanRunner> runner;
};

// One trace and what was compiled from it.
struct TracedProgram {
  StaticKey key;
  Trace trace;
  TraceGraph traced;
  double trace_microseconds = 0;
};

// A run that waits for its backward pass.
struct HeldRun {
  explicit HeldRun(std::shared_ptr<Compiled> c) : owner(std::move(c)), run(*owner->runner) {}
  std::shared_ptr<Compiled> owner;  // outlives the run, which borrows its runner
  PlanRunner::Run run;
};

bool on_tape(const Tensor& t) { return t.defined() && impl_of(t).autograd; }

}  // namespace

class HybridCache::Impl {
 public:
  Impl(HybridOptions o, NameOf n) : options(o), name_of(std::move(n)) {}

  Tensors call(const Function& function, const Tensors& inputs, const std::string& structure) {
    std::shared_ptr<Compiled> compiled;
    {
      const std::lock_guard lock(mutex);
      ++stats.calls;
      compiled = find_plan(inputs, structure);
      if (!compiled) {
        const StaticKey key = StaticKey::of(inputs, structure);
        if (SegmentTree* tree = find_tree(key, inputs)) return run_tree(*tree, function, inputs);
        compiled = compile_for(key, inputs);
        if (!compiled) {
          const auto start = std::chrono::steady_clock::now();
          Trace t = trace(function, inputs, name_of, options.strict, {});
          ++stats.traces;
          if (!t.reads.empty()) return keep_tree(key, std::move(t), inputs);
          auto program = std::make_shared<TracedProgram>();
          program->key = key;
          program->traced = to_graph(t, inputs);
          program->trace = std::move(t);
          program->trace_microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
          programs.push_back(program);
          compiled = add_plan(program, inputs);
        }
      }
      latest = compiled;
    }
    return options.verify ? verified(*compiled, function, inputs) : run(*compiled, inputs);
  }

  // ---- lookup

  static bool wants_match(const Compiled& c, const Tensors& inputs) {
    if (!mode().recording) return c.wanted.empty();
    const Tensors& captured = c.program->trace.captured;
    if (c.wanted.empty())
      return std::none_of(inputs.begin(), inputs.end(), on_tape) && std::none_of(captured.begin(), captured.end(), on_tape);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (c.wanted[i] != on_tape(inputs[i])) return false;
    for (size_t i = 0; i < captured.size(); ++i)
      if (c.wanted[inputs.size() + i] != on_tape(captured[i])) return false;
    return true;
  }
  static bool matches(const Compiled& c, const Tensors& inputs, const std::string& structure) {
    const StaticKey& k = c.program->key;
    if (k.training != mode().training || c.shapes.size() != inputs.size() || k.structure != structure) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) {
        if (k.ranks[i] >= 0) return false;
        continue;
      }
      const detail::TensorImpl& t = impl_of(inputs[i]);
      if (k.ranks[i] < 0 || t.dtype != k.types[i] || !(t.shape == c.shapes[i]) || t.device.id() != k.device || t.symbolic) return false;
    }
    return wants_match(c, inputs);
  }
  std::shared_ptr<Compiled> find_plan(const Tensors& inputs, const std::string& structure) {
    for (auto it = plans.begin(); it != plans.end(); ++it)
      if (matches(**it, inputs, structure)) {
        if (it != plans.begin()) plans.splice(plans.begin(), plans, it);
        return plans.front();
      }
    return nullptr;
  }

  // A known trace serves new shapes when inference accepts them and every extent that user code read comes out the same.
  std::shared_ptr<Compiled> compile_for(const StaticKey& key, const Tensors& inputs) {
    for (const auto& program : programs) {
      if (!(program->key == key)) continue;
      if (options.static_shape && !(shapes_of(inputs) == program_shapes(*program)))
        raise<ShapeError>("hybridize(static_shape): the input has shape {}, the program was made for {}", shapes_of(inputs)[0],
                          program_shapes(*program)[0]);
      if (!guards_hold(*program, inputs)) continue;
      return add_plan(program, inputs);
    }
    return nullptr;
  }
  static std::vector<Shape> program_shapes(const TracedProgram& p) {
    std::vector<Shape> shapes(p.key.ranks.size());
    size_t node = 0;
    for (size_t i = 0; i < shapes.size(); ++i)
      if (p.key.ranks[i] >= 0) shapes[i] = *p.traced.graph.nodes[node++].outputs[0].shape;
    return shapes;
  }
  static CompileRequest request_for(const TracedProgram& p, const Tensors& inputs) {
    CompileRequest r;
    const std::vector<std::string> names = input_names(inputs);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].defined()) {
        r.shapes[names[i]] = impl_of(inputs[i]).shape;
        r.types[names[i]] = impl_of(inputs[i]).dtype;
      }
    r.training = p.key.training;
    return r;
  }
  static bool guards_hold(const TracedProgram& p, const Tensors& inputs) {
    Graph g = p.traced.graph;
    for (auto& node : g.nodes)
      if (node.is_variable()) node.outputs[0] = {};
    const CompileRequest r = request_for(p, inputs);
    try {
      infer_graph(g, r.shapes, r.types);
    } catch (const UserError&) {
      return false;  // another trace may do something else with these shapes, or explain what is wrong
    }
    for (size_t i = 0; i < p.trace.guards.size(); ++i) {
      const Trace::Guard& guard = p.trace.guards[i];
      const auto& shape = g.info(p.traced.guarded[i]).shape;
      if (!shape || (guard.axis < 0 ? !(*shape == guard.shape) : (*shape)[guard.axis] != guard.shape[guard.axis])) return false;
    }
    return true;
  }

  std::shared_ptr<Compiled> add_plan(const std::shared_ptr<TracedProgram>& program, const Tensors& inputs) {
    auto c = std::make_shared<Compiled>();
    c->program = program;
    c->shapes = shapes_of(inputs);
    CompileRequest request = request_for(*program, inputs);
    if (mode().recording) choose_wanted(*c, inputs, request);
    Graph g = program->traced.graph;
    for (auto& node : g.nodes)
      if (node.is_variable()) node.outputs[0] = {};
    c->graph = compile(g, request);
    c->runner = std::make_unique<PlanRunner>(c->graph.plan, options.static_alloc);
    ++stats.plans;
    plans.push_front(c);
    while (static_cast<int>(plans.size()) > std::max(1, options.max_plans)) plans.pop_back();
    return c;
  }
  static void choose_wanted(Compiled& c, const Tensors& inputs, CompileRequest& request) {
    const std::vector<std::string> names = input_names(inputs);
    const Trace& t = c.program->trace;
    for (size_t i = 0; i < inputs.size(); ++i) {
      c.wanted.push_back(on_tape(inputs[i]));
      if (c.wanted.back()) request.wanted_gradients.push_back(names[i]);
    }
    for (size_t i = 0; i < t.captured.size(); ++i) {
      c.wanted.push_back(on_tape(t.captured[i]));
      if (c.wanted.back()) request.wanted_gradients.push_back(t.captured_names[i]);
    }
    if (request.wanted_gradients.empty()) c.wanted.clear();
  }

  // ---- running

  static Tensors present(const Tensors& inputs) {
    Tensors out;
    for (const Tensor& t : inputs)
      if (t.defined()) out.push_back(t);
    return out;
  }

  static Tensors run(Compiled& c, const Tensors& inputs) {
    Tensors outputs;
    if (c.wanted.empty()) {
      const autograd::Scope scope(false, std::nullopt);
      PlanRunner::Run run(*c.runner);
      outputs = run.forward(present(inputs), c.graph.num_outputs);
    } else {
      outputs = run_recorded(c, inputs);
    }
    return write_back(c.program->trace, inputs, std::move(outputs));
  }

  // The tape gets one node for the whole call.
  static Tensors run_recorded(Compiled& c, const Tensors& inputs) {
    const Tensors variables = present(inputs);
    const auto held = std::make_shared<HeldRun>(c.shared_from_this());
    Tensors outputs;
    {
      const autograd::Scope scope(false, std::nullopt);
      outputs = held->run.forward(variables, c.graph.num_outputs);
    }
    Tensors sources;
    for (size_t i = 0; i < c.wanted.size(); ++i)
      if (c.wanted[i]) sources.push_back(i < inputs.size() ? inputs[i] : c.program->trace.captured[i - inputs.size()]);
    for (Tensor& o : outputs)  // an output may be an input itself: it gets a place of its own on the tape
      if (impl_of(o).autograd || o.impl()->use_count() > 2) o = make_view(o, impl_of(o).shape, 0);
    const int heads_at = static_cast<int>(variables.size()), num_outputs = c.graph.num_outputs;
    const std::vector<bool> has_gradient = c.graph.has_gradient;
    Tensors snapshots;
    for (const Tensor& t : sources) {
      snapshots.push_back(make_view(t, impl_of(t).shape, 0));
      impl_of(snapshots.back()).autograd = impl_of(t).autograd;
    }
    autograd::record_custom("a hybridized call", sources, outputs, [=](const autograd::BackwardCall& call) {
      if (mode().recording) return differentiable_backward(*held->owner, inputs, snapshots, call.heads);
      Tensors destinations;
      for (size_t i = 0; i < has_gradient.size(); ++i)
        if (has_gradient[i]) destinations.push_back(call.destinations[i]);
      const Tensors gradients = held->run.backward(call.heads, heads_at, num_outputs, call.retain, destinations);
      Tensors out;
      size_t next = 0;
      for (bool has : has_gradient) out.push_back(has ? gradients[next++] : Tensor());
      return out;
    });
    return outputs;
  }

  // For higher orders the call is made again, operator by operator on the tape, and differentiated there.
  static Tensors differentiable_backward(const Compiled& c, const Tensors& inputs, const Tensors& sources, const Tensors& heads) {
    Graph g = c.graph.before;
    std::vector<Tensor> values(g.nodes.size());
    size_t next_source = 0, next_variable = 0;
    const Tensors variables = present(inputs);
    std::vector<Tensor> wanted_inputs(inputs.size());
    for (size_t i = 0; i < c.wanted.size(); ++i)
      if (c.wanted[i]) {
        const Tensor& s = sources[next_source++];
        if (i < inputs.size())
          wanted_inputs[i] = s;
        else
          for (auto& node : g.nodes)
            if (node.is_constant() && node.name == c.program->trace.captured_names[i - inputs.size()]) node.constant = s;
      }
    for (size_t n = 0, i = 0; n < g.nodes.size() && next_variable < variables.size(); ++n) {
      if (!g.nodes[n].is_variable()) continue;
      while (!inputs[i].defined()) ++i;
      values[n] = wanted_inputs[i].defined() ? wanted_inputs[i] : inputs[i];
      ++i;
      ++next_variable;
    }
    const Tensors outputs = interpret(g, values);
    Tensors reached, reached_heads;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (on_tape(outputs[i])) {
        reached.push_back(outputs[i]);
        reached_heads.push_back(heads[i]);
      }
    return autograd::grad(reached, sources, reached_heads, {.create_graph = true, .train_mode = mode().training});
  }

  static Tensors write_back(const Trace& t, const Tensors& inputs, Tensors outputs) {
    const size_t results = t.outputs.size();
    for (size_t i = 0; i < t.write_backs.size(); ++i) {
      const TracedValue& target = t.write_backs[i].first;
      Tensor tensor = target.kind == TracedValue::Kind::input ? inputs[target.index] : t.captured[target.index];
      tensor.assign(outputs[results + i]);
    }
    outputs.resize(results);
    return outputs;
  }

  // ---- verify

  Tensors verified(Compiled& c, const Function& function, const Tensors& inputs) {
    Tensors copies;
    for (const Tensor& t : inputs) copies.push_back(t.defined() ? t.detach().copy() : t);
    const Tensors got = run(c, inputs);
    if (has_random(c.graph.before)) return got;  // drawing twice would give other numbers
    Tensors want;
    {
      const autograd::Scope scope(false, std::nullopt);
      want = function(copies);
    }
    for (size_t i = 0; i < got.size(); ++i)
      if (!all_close(got[i], want[i], 1e-4, 1e-5, true))
        raise<UserError>("verify: output {} differs between the two modes; {}", i, first_difference(c, present(copies)));
    return got;
  }
  static bool has_random(const Graph& g) {
    return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Graph::Node& n) { return n.op && n.op->draws_random(n.attrs); });
  }
  // Runs the graph before and after the passes with every node's value kept; passes keep names.
  static std::string first_difference(const Compiled& c, const Tensors& variables) {
    const auto before = all_values(c.graph.before, variables), after = all_values(c.graph.after, variables);
    for (const auto& n : c.graph.before.nodes) {
      const auto a = before.find(n.name), b = after.find(n.name);
      if (n.op && a != before.end() && b != after.end() && !all_close(a->second, b->second, 1e-4, 1e-5, true))
        return fmt::format("the first operator that differs is {} ('{}')", n.op->name, n.name);
    }
    return "the graphs before and after the passes agree, so the function itself does something else each time";
  }
  static TensorMap all_values(const Graph& graph, const Tensors& variables) {
    Graph g = graph;
    g.outputs.clear();
    std::vector<std::string> names;
    std::vector<Tensor> values(g.nodes.size());
    size_t next = 0;
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      if (g.nodes[i].is_variable() && next == variables.size()) {
        g.nodes.resize(i);  // head gradients and what follows: the backward pass
        break;
      }
      if (g.nodes[i].is_variable()) values[i] = variables[next++];
      g.outputs.push_back({static_cast<int>(i), 0});
      names.push_back(g.nodes[i].name);
    }
    const autograd::Scope scope(false, std::nullopt);
    const Tensors all = interpret(g, values);
    TensorMap map;
    for (size_t i = 0; i < names.size(); ++i) map[names[i]] = all[i];
    return map;
  }

  // ---- programs that read values

  SegmentTree* find_tree(const StaticKey& key, const Tensors& inputs) {
    for (auto& [k, tree] : trees)
      if (k == key && tree.shapes == shapes_of(inputs)) return &tree;
    return nullptr;
  }
  Tensors keep_tree(const StaticKey& key, Trace t, const Tensors& inputs) {
    Tensors results = write_back_segments(t, inputs);
    if (static_cast<int>(trees.size()) >= std::max(1, options.max_plans)) trees.pop_front();
    trees.emplace_back();
    trees.back().first = key;
    trees.back().second.shapes = shapes_of(inputs);
    stats.segments += trees.back().second.insert(std::move(t));
    return results;
  }
  Tensors run_tree(SegmentTree& tree, const Function& function, const Tensors& inputs) {
    SegmentRun run = tree.run(inputs);
    if (run.complete) return write_back_values(run.write_backs, inputs, tree.captured(), std::move(run.outputs));
    // A branch not seen before: the function runs again to record it, with the values it has already seen.
    Trace t = trace(function, inputs, name_of, options.strict, std::move(run.memo));
    ++stats.traces;
    Tensors results = write_back_segments(t, inputs);
    stats.segments += tree.insert(std::move(t));
    return results;
  }
  static Tensors write_back_segments(const Trace& t, const Tensors& inputs) {
    std::vector<std::pair<TracedValue, Tensor>> values;
    for (const auto& [target, value] : t.write_backs)
      values.emplace_back(target, value.kind == TracedValue::Kind::call ? t.memo[value.index][value.output] : Tensor());
    return write_back_values(values, inputs, t.captured, t.results);
  }
  static Tensors write_back_values(const std::vector<std::pair<TracedValue, Tensor>>& values, const Tensors& inputs,
                                   const Tensors& captured, Tensors outputs) {
    for (const auto& [target, value] : values) {
      Tensor tensor = target.kind == TracedValue::Kind::input ? inputs[target.index] : captured[target.index];
      if (value.defined()) tensor.assign(value);
    }
    return outputs;
  }

  HybridOptions options;
  NameOf name_of;
  std::mutex mutex;
  HybridStats stats;
  std::vector<std::shared_ptr<TracedProgram>> programs;
  std::list<std::shared_ptr<Compiled>> plans;  // most recently used first
  std::list<std::pair<StaticKey, SegmentTree>> trees;
  std::shared_ptr<Compiled> latest;
};

HybridCache::HybridCache(HybridOptions options, NameOf name_of) : impl_(std::make_unique<Impl>(options, std::move(name_of))) {}
HybridCache::~HybridCache() = default;
HybridCache::HybridCache(HybridCache&&) noexcept = default;
HybridCache& HybridCache::operator=(HybridCache&&) noexcept = default;

Tensors HybridCache::call(const Function& function, const Tensors& inputs, const std::string& structure) {
  // Inside another trace the function is part of that program; with symbols it builds a graph.
  const bool symbolic = mode().tracing || std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.is_symbolic(); });
  return symbolic ? function(inputs) : impl_->call(function, inputs, structure);
}
void HybridCache::clear() {
  const std::lock_guard lock(impl_->mutex);
  impl_->programs.clear();
  impl_->plans.clear();
  impl_->trees.clear();
  impl_->latest = nullptr;
}
const HybridOptions& HybridCache::options() const { return impl_->options; }
HybridStats HybridCache::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

static const Compiled& latest_of(const std::shared_ptr<Compiled>& latest, const auto& trees) {
  if (latest) return *latest;
  if (!trees.empty())
    throw UserError(
        "the function reads values to decide what to do, so it is several graphs and not one; use where, cond, foreach or while_loop "
        "instead of if and for on values, or hybridize(strict) to see where the value is read");
  throw UserError("nothing has been compiled yet; call the function once first");
}

Symbol HybridCache::symbol() const {
  // Captured tensors become variables again: a file names them, and their values are stored beside it.
  Graph g = latest_of(impl_->latest, impl_->trees).graph.before;
  for (auto& node : g.nodes) node.constant = Tensor();
  g.outputs.resize(latest_of(impl_->latest, impl_->trees).program->trace.outputs.size());
  for (auto& node : g.nodes)
    for (OutputInfo& o : node.outputs) o = {};
  return Symbol::from_graph(g);
}
Tensor HybridCache::captured(const std::string& name) const {
  const Trace& t = latest_of(impl_->latest, impl_->trees).program->trace;
  for (size_t i = 0; i < t.captured.size(); ++i)
    if (t.captured_names[i] == name) return t.captured[i];
  return {};
}
Symbol HybridCache::graph_before() const { return Symbol::from_graph(latest_of(impl_->latest, impl_->trees).graph.before); }
Symbol HybridCache::graph_after() const { return Symbol::from_graph(latest_of(impl_->latest, impl_->trees).graph.after); }
std::string HybridCache::svg_before() const { return to_svg(latest_of(impl_->latest, impl_->trees).graph.before); }
std::string HybridCache::svg_after() const { return to_svg(latest_of(impl_->latest, impl_->trees).graph.after); }
std::string HybridCache::memory_plan() const { return latest_of(impl_->latest, impl_->trees).graph.plan.str(); }
HybridCache::Memory HybridCache::memory() const {
  const Plan& p = latest_of(impl_->latest, impl_->trees).graph.plan;
  return {p.arena_bytes, p.unplanned_bytes};
}

std::string HybridCache::explain() const {
  const HybridStats s = stats();
  std::string text = fmt::format("{} calls, {} traces, {} plans\n", s.calls, s.traces, s.plans);
  if (!impl_->latest) {
    for (const auto& [key, tree] : impl_->trees) text += tree.str();
    return text;
  }
  const Compiled& c = *impl_->latest;
  text += fmt::format("traced in {:.0f} us; compiled:", c.program->trace_microseconds);
  for (const StageTime& t : c.graph.stages) text += fmt::format(" {} {:.0f} us ({} operators)", t.stage, t.microseconds, t.nodes);
  text += "\nguards:";
  for (const Trace::Guard& g : c.program->trace.guards)
    text +=
        g.axis < 0 ? fmt::format(" shape {} was read;", g.shape) : fmt::format(" extent {} of axis {} was read;", g.shape[g.axis], g.axis);
  if (c.program->trace.guards.empty()) text += " none, every extent is free";
  text += fmt::format("\nmemory of intermediate values: {} bytes planned, {} bytes without a plan\n", c.graph.plan.arena_bytes,
                      c.graph.plan.unplanned_bytes);
  text += "before the passes:\n" + c.graph.before.str() + "after the passes:\n" + c.graph.after.str() +
          c.graph.plan.str(c.runner->step_microseconds());
  return text;
}

}  // namespace gluino
