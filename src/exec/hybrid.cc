// HybridCache: from a call's signature to a program. Signature: dtypes, ranks, modes, structure, and exactly those extents, settings and
// tensors from outside that the trace looked at. Every set of shapes that fits gets a plan of its own, not a trace.
#include "gluino/hybrid.h"

#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "base/format.h"
#include "dispatch/random.h"
#include "exec/hybrid_cache.h"
#include "gluino/autograd.h"
#include "tensor/pool.h"

namespace gluino {
namespace {

// What is kept without anybody saying how much: plans by their size, traces and trees by number, as they are small.
constexpr int64_t kMaxPlanBytes = int64_t{256} << 20;
constexpr size_t kMaxPrograms = 64;
// The first shapes of a program get plans at once, and so do all of a small one. Later ones get theirs when they come a second time:
// lengths that only grow never do.
constexpr int kPlansAtOnce = 4;
constexpr size_t kSmallProgram = 24;  // calls
constexpr size_t kMaxMetOnce = 4096;
// When most calls need another trace, they are made operator by operator, and every kTraceCost-th one is traced.
constexpr int kTraceCost = 8, kMaxWastedTraces = 32 * kTraceCost;
// Where they are put a program cannot see: bound to a variable that the owner has moved since, or added to a container.
constexpr const char* kPutsTensors =
    "it puts tensors into variables or containers from outside; return them, or keep them with assign() in a tensor that is there before";

}  // namespace

// Numbers of the device that have been drawn from `first` on are drawn again.
template <class F>
static HybridCache::Result draw_again(Device device, const RandomStream& first, F&& run) {
  HybridCache::Result result;
  RandomStream last;
  std::exception_ptr error;
  {
    const ReplayRandom random(device, first);
    try {
      result = run();
    } catch (...) {
      error = std::current_exception();
    }
    last = random.next();
  }
  advance_random_stream(device, last);
  if (error) std::rethrow_exception(error);
  return result;
}

// A program runs on the device of its inputs; the function that it was made of, and whatever runs as it is, on that of its caller.
HybridCache::Result HybridCache::Impl::call(const Function& function, const Tensors& inputs, const std::string& structure,
                                            std::span<const Tensor> destinations) {
  const Device callers = current_device();
  Device device = callers;
  for (const Tensor& t : inputs)
    if (t.defined()) device = impl_of(t).device;
  if (device == callers) return call_here(function, inputs, structure, destinations);
  const auto as_called = [&](const Tensors& in) {
    const DeviceScope back(callers);
    return function(in);
  };
  const DeviceScope scope(device);
  return call_here(as_called, inputs, structure + " called on " + callers.str(), destinations);
}

HybridCache::Result HybridCache::Impl::call_here(const Function& function, const Tensors& inputs, const std::string& structure,
                                                 std::span<const Tensor> destinations) {
  for (const Tensor& t : inputs) {
    if (!t.defined()) continue;
    if (impl_of(t).view) refresh_view(t);
    if (impl_of(t).device != current_device()) return function(inputs);  // they are on several devices
  }
  Found found;
  {
    const std::lock_guard lock(mutex);
    ++stats.calls;
    found = find(inputs, structure);
    if (found.compiled || found.tree) wasted_traces_ = std::max(0, wasted_traces_ - 1);
  }
  if (found.compiled) return run_plan(found.compiled, function, inputs, destinations);
  if (found.tree) return run_found(found, function, inputs);
  return trace_and_run(function, inputs, structure);
}

// ---- finding

HybridCache::Impl::Found HybridCache::Impl::find(const Tensors& inputs, const std::string& structure) {
  Found found;
  for (auto it = plans.begin(); it != plans.end(); ++it)
    if ((*it)->serves(inputs, structure)) {
      if (it != plans.begin()) plans.splice(plans.begin(), plans, it);
      found.compiled = latest = plans.front();
      return found;
    }
  if (trees.empty()) return found;
  const Signature signature = Signature::of(inputs, structure);
  const std::vector<Shape> shapes = Signature::shapes_of(inputs);
  for (auto it = trees.begin(); it != trees.end(); ++it)
    if (it->signature == signature && it->tree->shapes() == shapes && it->tree->is_current(inputs)) {
      if (it != trees.begin()) trees.splice(trees.begin(), trees, it);
      found.tree = trees.front().tree;
      return found;
    }
  return found;
}

// A known trace serves new shapes when inference accepts them and every extent that user code read comes out the same.
std::shared_ptr<TracedProgram> HybridCache::Impl::find_program(const Tensors& inputs, const std::string& structure) {
  std::vector<std::shared_ptr<TracedProgram>> candidates;
  const Signature signature = Signature::of(inputs, structure);
  {
    const std::lock_guard lock(mutex);
    // What holds no longer will not hold again, as far as tensors are concerned. A program may have many plans.
    std::unordered_set<const TracedProgram*> outdated;
    for (const auto& p : programs)
      if (std::ranges::any_of(p->trace.captured, [](const auto& c) { return c->is_let_go(); })) outdated.insert(p.get());
    if (!outdated.empty()) {
      std::erase_if(plans, [&](const auto& c) { return outdated.contains(c->program.get()); });
      std::erase_if(programs, [&](const auto& p) { return outdated.contains(p.get()); });
    }
    for (const auto& p : programs)
      if (p->signature == signature && p->holds(inputs)) candidates.push_back(p);
  }
  const std::vector<Shape> shapes = Signature::shapes_of(inputs);
  for (const auto& p : candidates) {
    if (options.static_shape && !(shapes == p->shapes))
      raise<ShapeError>("hybridize(static_shape): the input has shape {}, the program was made for {}", shapes[0], p->shapes[0]);
    if (p->guards_hold(inputs)) return p;
  }
  return nullptr;
}

// ---- running

// An eager call after a program that failed: it draws the numbers again that have been drawn from `first` on.
static HybridCache::Result run_untraced(const HybridCache::Function& function, const Tensors& inputs, const RandomStream& first) {
  return draw_again(current_device(), first, [&] { return function(inputs); });
}
// After a trace that was given up. What it initialised may have been drawn from other devices' numbers.
static HybridCache::Result run_untraced(const HybridCache::Function& function, const Tensors& inputs, const RandomStreams& first,
                                        int id = 0) {
  while (id < Device::kMaxDevices && peek_random_stream(cpu(id)) == first[id]) ++id;
  if (id == Device::kMaxDevices) return function(inputs);
  return draw_again(cpu(id), first[id], [&] { return run_untraced(function, inputs, first, id + 1); });
}

HybridCache::Result HybridCache::Impl::run_found(const Found& found, const Function& function, const Tensors& inputs) {
  if (found.compiled) return run_plan(found.compiled, function, inputs);
  return have_overlaps(inputs) || found.tree->updates_leaf(inputs) ? function(inputs) : run_tree(*found.tree, function, inputs);
}
HybridCache::Result HybridCache::Impl::run_plan(const std::shared_ptr<Compiled>& c, const Function& function, const Tensors& inputs,
                                                std::span<const Tensor> destinations) {
  if (c->program->has_refused_updates(inputs)) return function(inputs);
  if (options.verify && c->program->trace.ending.escaped.empty()) return verified(c, function, inputs);
  const RandomStream first = c->draws_random ? peek_random_stream(current_device()) : RandomStream{};
  try {
    return run_compiled(*c, inputs, destinations);
  } catch (const UserError&) {
    return fail_as_eager(*c, function, inputs, first);
  }
}
// Inside a catch block. A program leaves nothing behind when it fails; eager code does what stands before, and then fails by itself.
HybridCache::Result HybridCache::Impl::fail_as_eager(const Compiled& c, const Function& function, const Tensors& inputs,
                                                     const RandomStream& first) {
  if (c.updates_layers) throw;
  return c.draws_random ? run_untraced(function, inputs, first) : function(inputs);
}

bool HybridCache::Impl::deserves_plan(TracedProgram& program, const Tensors& inputs) {
  const std::lock_guard lock(mutex);
  if (program.plans < kPlansAtOnce || program.calls <= kSmallProgram || options.verify) return true;
  std::vector<int64_t> extents;
  for (const Tensor& t : inputs)
    if (t.defined()) extents.insert(extents.end(), impl_of(t).shape.begin(), impl_of(t).shape.end());
  if (program.met_once.erase(extents)) return true;
  if (program.met_once.size() >= kMaxMetOnce) program.met_once.clear();
  program.met_once.insert(std::move(extents));
  return false;
}

HybridCache::Result HybridCache::Impl::run_program(const std::shared_ptr<TracedProgram>& p, const Function& function,
                                                   const Tensors& inputs) {
  if (!deserves_plan(*p, inputs)) {
    if (p->has_refused_updates(inputs)) return function(inputs);
    const RandomStream first = peek_random_stream(current_device());
    try {
      return run_interpreted(*p, inputs);
    } catch (const UserError&) {
      if (updates_layers(p->traced.graph)) throw;
      return run_untraced(function, inputs, first);
    }
  }
  std::shared_ptr<Compiled> c;
  if (const std::string why = why_not_made([&] { c = Compiled::make(p, inputs, options.static_alloc); }); !why.empty()) {
    give_up(*p, why);
    return function(inputs);
  }
  keep(c);
  return run_plan(c, function, inputs);
}
// Code of the user's (the gradient of a Function) and shapes may turn out to fit into no program when it is made; then the function runs as
// it is, and fails by itself if it must. Gives what was wrong.
std::string HybridCache::Impl::why_not_made(const std::function<void()>& make) const {
  try {
    make();
  } catch (const InternalError&) {
    throw;
  } catch (const NotInATrace&) {
    throw;
  } catch (const std::exception& e) {
    if (options.strict) throw;
    return std::string("no program can be made of it: ") + e.what();
  }
  return "";
}
void HybridCache::Impl::give_up(const TracedProgram& program, const std::string& why) {
  refuse(program.signature, why);
  const std::lock_guard lock(mutex);
  std::erase_if(plans, [&](const auto& c) { return c->program.get() == &program; });
  std::erase_if(programs, [&](const auto& p) { return p.get() == &program; });
}

HybridCache::Result HybridCache::Impl::run_tree(SegmentTree& tree, const Function& function, const Tensors& inputs) {
  const RandomStream first = peek_random_stream(current_device());
  SegmentRun run;
  try {
    run = tree.run(inputs);
  } catch (const UserError&) {
    if (tree.updates_layers()) throw;
    return run_untraced(function, inputs, first);
  }
  if (run.ending) return finish_run(*run.ending, std::move(run.values), inputs, tree.captured());
  // A branch not seen before: the function runs again to record it, with the values it has already seen.
  RandomStreams before = peek_random_streams();
  before[current_device().id()] = first;
  PerProcessMutex::Lock tracing = trace_mutex_.lock();
  Trace t;
  try {
    t = trace(function, inputs, name_of, options.strict, std::move(run.memo));
  } catch (const Untraceable&) {
    tracing.unlock();
    return run_untraced(function, inputs, before);
  }
  Result result = finish_run(t.ending, t.values, inputs, t.captured);
  if (t.error) std::rethrow_exception(t.error);
  if (t.serves_once || t.ending.puts_tensors()) return result;
  const int made = tree.insert(std::move(t));
  const std::lock_guard lock(mutex);
  ++stats.traces;
  stats.segments += made;
  return result;
}

// ---- tracing

bool HybridCache::Impl::is_worth_tracing(const Signature& signature) {
  const std::lock_guard lock(mutex);
  if (std::any_of(refused.begin(), refused.end(), [&](const Refused& r) { return r.signature == signature; })) return false;
  if (wasted_traces_ > kMaxWastedTraces && !options.strict && !options.verify) {
    --wasted_traces_;
    return false;
  }
  wasted_traces_ += kTraceCost;
  return true;
}

HybridCache::Result HybridCache::Impl::trace_and_run(const Function& function, const Tensors& inputs, const std::string& structure) {
  PerProcessMutex::Lock tracing = trace_mutex_.lock();
  Found found;
  {
    const std::lock_guard lock(mutex);
    found = find(inputs, structure);  // another thread may have traced it meanwhile
  }
  if (found.compiled || found.tree) {
    tracing.unlock();
    return run_found(found, function, inputs);
  }
  if (auto program = find_program(inputs, structure)) return run_program(program, function, inputs);
  Signature signature = Signature::of(inputs, structure);
  if (have_overlaps(inputs) || !is_worth_tracing(signature)) {
    tracing.unlock();
    return function(inputs);
  }
  const auto start = std::chrono::steady_clock::now();
  const RandomStreams first = peek_random_streams();
  Trace t;
  try {
    t = trace(function, inputs, name_of, options.strict, {});
  } catch (const Untraceable& e) {
    if (e.is_lasting()) refuse(signature, e.what());
    tracing.unlock();
    Result result = run_untraced(function, inputs, first);
    if (!e.is_lasting()) refuse(signature, e.what());  // what fails when it is traced, and only then
    return result;
  }
  trim_cached_memory(current_device());  // it may have held every intermediate value
  {
    const std::lock_guard lock(mutex);
    ++stats.traces;
  }
  if (t.error || t.serves_once) {
    Result result = finish_run(t.ending, t.values, inputs, t.captured);
    if (t.error) std::rethrow_exception(t.error);
    return result;
  }
  const bool puts_tensors = t.ending.puts_tensors();
  if (puts_tensors) refuse(signature, kPutsTensors);
  if (!t.reads.empty()) {
    Result result = finish_run(t.ending, t.values, inputs, t.captured);
    if (puts_tensors) return result;
    keep_for_files(signature, t, inputs);
    auto tree = std::make_shared<SegmentTree>(Signature::shapes_of(inputs));
    const int made = tree->insert(std::move(t));
    keep(std::move(signature), std::move(tree));
    const std::lock_guard lock(mutex);
    stats.segments += made;
    return result;
  }
  auto program = std::make_shared<TracedProgram>();
  program->signature = std::move(signature);
  program->is_repeatable = !puts_tensors;
  program->shapes = Signature::shapes_of(inputs);
  program->calls = t.calls.size();
  if (const std::string why = why_not_made([&] { program->traced = to_graph(t, inputs); }); !why.empty()) {
    refuse(program->signature, why);
    tracing.unlock();
    return t.has_run ? finish_run(t.ending, t.values, inputs, t.captured) : run_untraced(function, inputs, first);
  }
  program->trace = std::move(t);
  program->trace_microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  keep(program);
  if (!program->trace.has_run) return run_program(program, function, inputs);
  Result result = finish_run(program->trace.ending, std::exchange(program->trace.values, {}), inputs, program->trace.captured);
  program->trace.memo.clear();
  for (Ending::Escaped& e : program->trace.ending.escaped) e.made = {};  // they are others' now
  if (const std::string why = why_not_made([&] { keep(Compiled::make(program, inputs, options.static_alloc)); }); !why.empty())
    give_up(*program, why);
  return result;
}

// A loop that gives as many rows as it made steps is several programs, and one graph in a file, where it gives all rows.
void HybridCache::Impl::keep_for_files(const Signature& signature, const Trace& t, const Tensors& inputs) {
  why_not_made([&] {
    std::optional<TraceGraph> graph = to_graph_of_file(t, inputs);
    if (!graph) return;
    auto program = std::make_shared<TracedProgram>();
    program->signature = signature;
    program->is_repeatable = false;
    program->shapes = Signature::shapes_of(inputs);
    program->calls = t.calls.size();
    program->traced = *std::move(graph);
    program->trace = t;
    program->trace.calls.clear();
    program->trace.memo.clear();
    program->trace.values.clear();
    keep(program);
    keep(Compiled::make(program, inputs, options.static_alloc));
  });
}

void HybridCache::Impl::refuse(const Signature& signature, const std::string& why) {
  const std::lock_guard lock(mutex);
  if (refused.size() < kMaxPrograms) refused.push_back({signature, why});
}

// ---- keeping

void HybridCache::Impl::keep(std::shared_ptr<TracedProgram> program) {
  const std::lock_guard lock(mutex);
  programs.push_front(std::move(program));
  while (programs.size() > kMaxPrograms) {
    std::erase_if(plans, [&](const auto& c) { return c->program == programs.back(); });
    programs.pop_back();
  }
}
void HybridCache::Impl::keep(std::shared_ptr<Compiled> plan) {
  const std::lock_guard lock(mutex);
  ++stats.plans;
  ++plan->program->plans;
  latest = plan;
  plans.push_front(std::move(plan));
  int64_t bytes = 0;
  for (const auto& c : plans) bytes += c->bytes;
  while (plans.size() > 1 && (options.max_plans > 0 ? static_cast<int>(plans.size()) > options.max_plans : bytes > kMaxPlanBytes)) {
    bytes -= plans.back()->bytes;
    plans.pop_back();
  }
}
void HybridCache::Impl::keep(Signature signature, std::shared_ptr<SegmentTree> tree) {
  const std::lock_guard lock(mutex);
  trees.push_front({std::move(signature), std::move(tree)});
  while (trees.size() > kMaxPrograms) trees.pop_back();
}
void HybridCache::Impl::clear() {
  const std::lock_guard lock(mutex);
  programs.clear();
  plans.clear();
  trees.clear();
  refused.clear();
  latest = nullptr;
}

// ---- the public face

HybridCache::HybridCache(HybridOptions options, NameOf name_of) : impl_(std::make_unique<Impl>(options, std::move(name_of))) {}
HybridCache::~HybridCache() = default;
HybridCache::HybridCache(HybridCache&&) noexcept = default;
HybridCache& HybridCache::operator=(HybridCache&&) noexcept = default;

HybridCache::Result HybridCache::call(const Function& function, const Tensors& inputs, const std::string& structure,
                                      std::span<const Tensor> destinations) {
  // Inside another trace the function is part of that program, and of what that is compared with; with symbols it builds a graph.
  const bool symbolic = mode().tracing || std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.is_symbolic(); });
  return symbolic || mode().comparing ? function(inputs) : impl_->call(function, inputs, structure, destinations);
}
void HybridCache::clear() { impl_->clear(); }
const HybridOptions& HybridCache::options() const { return impl_->options; }

}  // namespace gluino
