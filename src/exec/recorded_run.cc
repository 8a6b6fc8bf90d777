// A call that is recorded: forward now, backward when the tape asks, and the call again, operator by operator, when gradients are
// differentiated themselves.
#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/tape.h"
#include "dispatch/dependent_outputs.h"
#include "dispatch/own_gradient.h"
#include "dispatch/random.h"
#include "dispatch/run_log.h"
#include "exec/program.h"
#include "exec/ways_back.h"
#include "gluino/autograd.h"
#include "graph/interpret.h"
#include "passes/differentiate.h"

namespace gluino {
namespace {

// The value and place of a captured tensor, whatever becomes of the tensor: a network has many, so it is less than a tensor.
struct CapturedSource {
  Ref<Storage> storage;
  char* data;
  Ref<AutogradEntry> autograd;
  explicit CapturedSource(const Tensor& t) : storage(impl_of(t).storage), data(impl_of(t).data) {
    if (on_tape(t)) autograd = impl_of(t).autograd;
  }
  Tensor tensor(const OutputInfo& info) const {
    Tensor t = make_shape_only(*info.shape, *info.dtype, storage->device());
    impl_of(t).storage = storage;
    impl_of(t).data = data;
    impl_of(t).autograd = autograd;
    return t;
  }
};

// A run that waits for its backward pass.
class HeldRun {
 public:
  HeldRun(std::shared_ptr<Compiled> c, Tensors variables, std::vector<CapturedSource> captured_sources)
      : owner_(std::move(c)),
        run_(std::in_place, *owner_->runner),
        variables_(std::move(variables)),
        captured_sources_(std::move(captured_sources)) {
    writes_.reserve(variables_.size() + captured_sources_.size() + owner_->constants.size());
    is_for_all_given([&](const Storage& s) { return writes_.push_back(s.writes()), true; });
  }

  bool gives_own_gradient() const {
    return std::ranges::any_of(owner_->program->traced.graph.nodes, [](const Graph::Node& n) { return n.op && has_own_gradient(*n.op); });
  }

  Tensors forward() {
    const autograd::Scope scope(false, std::nullopt);
    first_stream_ = peek_random_stream(current_device());
    const RunLog::Scope logged(runs_, RunLog::Scope::Use::write);
    Tensors outputs = run_->forward(variables_, owner_->graph.num_outputs);
    hidden_.assign(outputs.end() - static_cast<std::ptrdiff_t>(owner_->loops.size()), outputs.end());
    outputs.resize(outputs.size() - hidden_.size());
    read_later_ = run_->read_by_backward();
    return outputs;
  }
  std::span<const Tensor> hidden() const { return hidden_; }
  Tensors backward(const autograd::BackwardCall& call) {
    const DeviceScope on_device(owner_->device);
    const bool is_partial = std::find(call.given.begin(), call.given.end(), false) != call.given.end();
    const std::vector<bool>& has_gradient = owner_->graph.has_gradient;
    bool passes_by = false;
    std::vector<bool> flows = has_gradient;  // to which sources more than zeros flow
    if (is_partial || !cut_.empty() || !hidden_.empty() || std::ranges::find(has_gradient, false) != has_gradient.end())
      passes_by = find_reached(call, flows);
    const bool is_spent = !run_;
    Tensors heads = heads_of_all(call.heads);
    std::vector<bool> given = owner_->is_on_tape;
    for (size_t i = 0, next_given = 0; i < given.size(); ++i) given[i] = given[i] && call.given[next_given++];
    const std::vector<bool> left_out = owner_->runner->left_out(given);
    const auto is_needed = [&](int part) { return part < 0 || left_out.empty() || !left_out[part]; };
    check_reads(is_needed);
    // From what nobody asked about zeros would flow, and a gradient of somebody's own may make something of them.
    const bool goes_round = is_spent || ((is_partial || passes_by) && gives_own_gradient() && is_given_unchanged());
    if (mode().recording || goes_round || !call.wanted_results.empty()) {
      // What nobody asked about is not gone through: what lies behind it may have been released.
      for (size_t i = 0; i < heads.size(); ++i)
        if (!given[i]) heads[i] = Tensor();
      Tensors gradients = differentiable_backward(heads, call, flows);
      if (!mode().recording)
        for (Tensors* list : {&gradients, &call.of_results})
          for (Tensor& g : *list)
            if (g.defined()) g = g.detach();
      return gradients;
    }
    fill_parts(heads);
    Tensors destinations;
    std::vector<size_t> sources;  // that the destinations are for
    const std::vector<std::vector<std::string>>& row_modes = owner_->graph.row_modes;
    for (size_t i = 0; i < has_gradient.size(); ++i)
      if (has_gradient[i]) {
        const size_t outputs = row_modes[i].empty() ? 1 : 2 * row_modes[i].size();
        // What is not reached keeps its gradient, and rows have none to be written to.
        for (size_t k = 0; k < outputs; ++k) destinations.push_back(flows[i] && row_modes[i].empty() ? call.destinations[i] : Tensor());
        sources.insert(sources.end(), outputs, i);
      }
    std::function<void(size_t)> ready;
    if (!call.awaited.empty())
      ready = [&](size_t i) {
        if (call.awaited[sources[i]] && flows[sources[i]]) call.ready(sources[i]);
      };
    const int first_output = owner_->graph.num_outputs;
    const Tensors gradients =
        run_->backward(heads, given, static_cast<int>(variables_.size()), first_output, call.retain, destinations, ready);
    // Some results can still be differentiated, but may never be: what the run holds is given back, and the call would be made again.
    if (!call.retain && std::ranges::find(call.unvisited, true) != call.unvisited.end()) {
      run_.reset();
      read_later_.clear();
    }
    Tensors out;
    size_t next = 0;
    for (size_t i = 0; i < has_gradient.size(); ++i) {
      for (const std::string& mode : row_modes[i]) {
        if (flows[i] && is_needed(owner_->runner->part_of_output(first_output + next + 1)))
          call.rows[i].push_back({gradients[next], gradients[next + 1], mode});
        next += 2;
      }
      const bool is_dense = has_gradient[i] && row_modes[i].empty();
      out.push_back(is_dense && flows[i] ? gradients[next] : Tensor());
      next += is_dense;
    }
    return out;
  }

 private:
  // Raises when something was changed that the parts of the backward pass that are needed read.
  void check_reads(const auto& is_needed) const {
    for (const PlanRunner::Run::Read& r : read_later_)
      if (impl_of(r.tensor).storage->writes() != r.writes && std::ranges::any_of(r.parts, is_needed))
        autograd::check_unchanged(r.tensor, r.writes, "a hybridized call: '" + owner_->graph.after.nodes[r.node].name + "'");
  }
  // Outputs that are not on the tape have none, and nothing asks for it.
  Tensors heads_of_all(const Tensors& given) const {
    Tensors all;
    size_t next = 0;
    for (bool is_on : owner_->is_on_tape) all.push_back(is_on ? given[next++] : Tensor());
    return all;
  }
  // Where a call has outputs on the tape and others beside them, the plan goes back from the call as a whole.
  void fill_parts(Tensors& heads) const {
    const Graph& g = owner_->graph.before;
    if (std::ranges::none_of(g.nodes, [](const Graph::Node& n) { return n.op && dependence_rule_of(*n.op); })) return;
    for (size_t i = 0; i < heads.size(); ++i)
      if (const OutputInfo& info = g.info(g.outputs[i]); !heads[i].defined())
        heads[i] = zeros(*info.shape, {*info.dtype, current_device()});
  }
  // Which sources the heads that were given depend on, to which of them gradients flow, and which results stay on the tape. True: calls
  // that give a gradient of their own are passed by.
  bool find_reached(const autograd::BackwardCall& call, std::vector<bool>& flows) {
    const WaysBack ways = find_ways_back(*owner_, call.given, hidden_);
    call.reached = ways.reached;
    for (size_t i = 0; i < flows.size(); ++i) flows[i] = flows[i] && ways.flows[i];
    for (size_t i = 0; i < call.given.size(); ++i) {
      if (call.given[i] && !cut_.empty() && cut_[i])
        throw UserError(
            "backward: what was recorded for a hybridized call has already been released; pass retain_graph = true to the first backward");
      call.unvisited[i] = !ways.released[i];
    }
    if (call.retain) return ways.passes_by_own_gradient;
    cut_.resize(ways.cut.size(), false);
    for (size_t i = 0; i < cut_.size(); ++i) call.cut[i] = cut_[i] = cut_[i] || ways.cut[i];
    return ways.passes_by_own_gradient;
  }
  std::vector<int> source_nodes() const { return source_nodes_of(*owner_); }
  template <class F>
  bool is_for_all_given(F is_so) const {
    const auto of_tensor = [&](const Tensor& t) { return is_so(*impl_of(t).storage); };
    return std::ranges::all_of(variables_, of_tensor) &&
           std::ranges::all_of(captured_sources_, [&](const CapturedSource& s) { return is_so(*s.storage); }) &&
           std::ranges::all_of(owner_->constants, of_tensor);
  }
  bool is_given_unchanged() const {
    size_t next = 0;
    return is_for_all_given([&](const Storage& s) { return s.writes() == writes_[next++]; });
  }
  // The call is made again from what it was given, so that must be there still.
  void check_given() const {
    if (!is_given_unchanged())
      autograd::raise_changed("a hybridized call is made again to be differentiated once more, but what it was given");
  }
  // The same values again: random numbers from the same streams, states as copies that may be updated once more.
  Tensors differentiable_backward(const Tensors& heads, const autograd::BackwardCall& call, const std::vector<bool>& flows) const {
    check_given();
    const Compiled& c = *owner_;
    const TracedProgram& p = *c.program;
    const Graph& g = c.graph.before;
    std::vector<Tensor> values(g.nodes.size());
    std::vector<size_t> variable_nodes;
    for (size_t n = 0; n < g.nodes.size(); ++n)
      if (g.nodes[n].is_variable()) {
        values[n] = variables_[variable_nodes.size()];
        variable_nodes.push_back(n);
      }
    const ReplayRandom random(current_device(), first_stream_);
    const autograd::Scope scope(true, p.signature.training);
    const size_t inputs = p.signature.ranks.size();
    Tensors sources;
    std::vector<size_t> variable_of(inputs);  // per input that is not null, its number among the variables
    for (size_t i = 0, v = 0; i < inputs; ++i) variable_of[i] = p.signature.ranks[i] >= 0 ? v++ : 0;
    for (size_t i = 0, k = 0; i < c.wanted.size(); ++i) {
      if (!c.wanted[i]) continue;
      if (i < inputs) {
        sources.push_back(place_of_its_own(values[variable_nodes[variable_of[i]]]));
        continue;
      }
      const int node = p.traced.captured_nodes[i - inputs];
      Tensor& value = values[node];
      if (!value.defined()) value = captured_sources_[k].tensor(g.nodes[node].outputs[0]);
      sources.push_back(place_of_its_own(value));
      ++k;
    }
    const std::vector<bool> is_state = find_states(g);
    for (size_t n = 0; n < g.nodes.size(); ++n)
      if (is_state[n] && g.nodes[n].is_constant()) values[n] = g.nodes[n].constant.detach().copy();
    const Tensors outputs = [&] {
      const RunLog::Scope logged(runs_, RunLog::Scope::Use::read);
      return interpret(g, values);
    }();
    Tensors reached, reached_heads;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (on_tape(outputs[i]) && heads[i].defined()) {
        reached.push_back(outputs[i]);
        reached_heads.push_back(heads[i]);
      }
    // To what no result depends on nothing flows, not even zeros.
    Tensors wanted, gradients(sources.size());
    std::vector<bool> is_wanted;
    for (size_t i = 0; i < sources.size(); ++i) {
      is_wanted.push_back(flows[i]);
      if (!is_wanted[i]) continue;
      if (!on_tape(sources[i]))
        throw UserError(
            "backward: what a hybridized call was computed from has already been released; pass retain_graph = true to the first backward");
      wanted.push_back(sources[i]);
    }
    std::vector<size_t> wanted_results;
    for (size_t i = 0, next = 0; i < outputs.size() && !call.wanted_results.empty(); ++i)
      if (c.is_on_tape[i] && call.wanted_results[next++] && on_tape(outputs[i])) {
        wanted_results.push_back(next - 1);
        wanted.push_back(outputs[i]);
      }
    if (wanted.empty() || reached.empty()) return gradients;
    const Tensors found =
        autograd::grad_of_part(reached, wanted, reached_heads, {.create_graph = true, .train_mode = p.signature.training});
    size_t k = 0;
    for (size_t i = 0; i < sources.size(); ++i)
      if (is_wanted[i]) gradients[i] = found[k++];
    for (size_t i : wanted_results) call.of_results[i] = found[k++];
    return gradients;
  }

  // One source may have been computed from another: what flows back to each must not go on through it.
  static Tensor place_of_its_own(Tensor& value) { return value = call("_copy", {value}); }

  std::shared_ptr<Compiled> owner_;  // outlives the run, which borrows its runner
  std::optional<PlanRunner::Run> run_;
  Tensors variables_;                             // handles of our own: the caller's may be updated in place
  std::vector<CapturedSource> captured_sources_;  // the captured tensors whose gradients are wanted, likewise
  std::vector<uint64_t> writes_;                  // how often the memory of these, and of constants, had been written
  RandomStream first_stream_{};
  mutable RunLog runs_;
  std::vector<PlanRunner::Run::Read> read_later_;
  Tensors hidden_;         // what the loops have left
  std::vector<bool> cut_;  // per result on the tape: a way back from it leads through what a pass has released; empty: of none
};

Tensor handle_of_our_own(const Tensor& t) {
  Tensor own = make_view(t, impl_of(t).shape, 0);
  if (on_tape(t)) impl_of(own).autograd = impl_of(t).autograd;
  return own;
}

}  // namespace

std::vector<int> source_nodes_of(const Compiled& c) {
  const TracedProgram& p = *c.program;
  const size_t inputs = p.signature.ranks.size();
  std::vector<int> nodes;
  for (size_t i = 0, variable = 0; i < c.wanted.size(); ++i) {
    const bool is_input = i < inputs;
    if (c.wanted[i]) nodes.push_back(is_input ? static_cast<int>(variable) : p.traced.captured_nodes[i - inputs]);
    if (is_input && p.signature.ranks[i] >= 0) ++variable;
  }
  return nodes;
}

Tensors run_recorded(Compiled& c, const Tensors& inputs) {
  const TracedProgram& p = *c.program;
  Tensors variables, sources;
  std::vector<CapturedSource> captured_sources;
  sources.reserve(c.wanted.size());
  captured_sources.reserve(c.wanted.size());
  for (const Tensor& t : variables_of(p, inputs)) variables.push_back(handle_of_our_own(t));
  // What the call itself updates is kept as it was.
  const auto keep = [&](Tensor& t) {
    const autograd::Scope scope(false, std::nullopt);
    const Ref<AutogradEntry> entry = impl_of(t).autograd;
    t = t.detach().copy();
    impl_of(t).autograd = entry;
  };
  for (size_t i = variables.size() - p.traced.updated.size(); i < variables.size(); ++i) keep(variables[i]);
  std::vector<bool> is_written(p.trace.captured.size(), false);
  for (const Ending::WriteBack& w : p.trace.ending.write_backs)
    if (w.target.kind == TracedValue::Kind::captured)
      is_written[w.target.index] = true;
    else
      keep(variables[std::count_if(inputs.begin(), inputs.begin() + w.target.index, [](const Tensor& t) { return t.defined(); })]);
  for (size_t i = 0; i < c.wanted.size(); ++i) {
    if (!c.wanted[i]) continue;
    sources.push_back(i < inputs.size() ? inputs[i] : p.trace.captured[i - inputs.size()]->live());
    if (i < inputs.size()) continue;
    if (!is_written[i - inputs.size()]) {
      captured_sources.emplace_back(sources.back());
      continue;
    }
    Tensor own = handle_of_our_own(sources.back());
    keep(own);
    captured_sources.emplace_back(own);
  }
  const auto held = std::make_shared<HeldRun>(c.shared_from_this(), std::move(variables), std::move(captured_sources));
  Tensors outputs = held->forward(), recorded;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& o = outputs[i];
    // An output may be an input itself: it gets a place of its own on the tape.
    if (impl_of(o).autograd || o.impl()->use_count() > 2) o = make_view(o, impl_of(o).shape, 0);
    if (c.is_on_tape[i]) recorded.push_back(o);
  }
  autograd::record_custom(
      "a hybridized call", sources, recorded, [held](const autograd::BackwardCall& call) { return held->backward(call); },
      [held] { return held->gives_own_gradient(); }, c.shared_from_this(), Tensors(held->hidden().begin(), held->hidden().end()));
  if (!c.loops.empty()) {  // what they have run decides
    const std::vector<bool> is_on = outputs_on_tape(c, held->hidden());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (c.is_on_tape[i] && !is_on[i]) impl_of(outputs[i]).autograd = nullptr;
  }
  return outputs;
}

}  // namespace gluino
