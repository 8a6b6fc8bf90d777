// gluino bench: how long a model takes, eagerly and hybridized, and where.
#include <chrono>
#include <cstdlib>
#include <map>

#include "base/file.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "exec/runner.h"
#include "gluino/device.h"
#include "graph/observe.h"
#include "graph/work.h"

namespace gluino::cli {
namespace {

using Clock = std::chrono::steady_clock;
double microseconds_since(Clock::time_point start) { return std::chrono::duration<double, std::micro>(Clock::now() - start).count(); }

struct BenchOptions {
  ModelOptions model;
  InputOptions inputs;
  std::string trace;
  int threads = 0;
  int64_t calls = 0;  // 0: as many as fit into the time
  double seconds = 2;
  int64_t rows = 15;
};

// One operator's part of a call.
struct Part {
  std::string name, op;
  double microseconds = 0;
};

struct Measured {
  std::string mode;
  std::vector<double> calls;  // microseconds, sorted
  double first_call = 0;
  int64_t peak_bytes = 0;
  std::vector<Part> parts;
  double percentile(double p) const {
    return calls[std::min(calls.size() - 1, static_cast<size_t>(p / 100 * static_cast<double>(calls.size())))];
  }
};

Measured measure(const std::string& mode, HybridBlock& net, const Tensors& inputs, const BenchOptions& options) {
  Measured m{.mode = mode};
  const int64_t live = memory_stats().live;
  reset_peak();
  const Clock::time_point first = Clock::now();
  net(inputs);
  m.first_call = microseconds_since(first);
  net(inputs);
  Progress progress("timing " + mode);
  const Clock::time_point start = Clock::now();
  for (;;) {
    const Clock::time_point call = Clock::now();
    net(inputs);
    m.calls.push_back(microseconds_since(call));
    const double share = options.calls > 0 ? static_cast<double>(m.calls.size()) / static_cast<double>(options.calls)
                                           : microseconds_since(start) / 1e6 / options.seconds;
    if (share >= 1 && (options.calls > 0 || m.calls.size() >= 3)) break;
    progress.show(share);
  }
  m.peak_bytes = memory_stats().peak - live;
  std::sort(m.calls.begin(), m.calls.end());
  return m;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr int kTimedRuns = 11;  // of which the median of each operator is taken

std::vector<Part> time_operators(const Graph& graph, const std::vector<std::string>& names, const Tensors& inputs) {
  std::vector<Part> parts;
  std::vector<std::vector<double>> times(graph.nodes.size());
  const std::vector<Tensor> values = bind_inputs(graph, names, inputs);
  for (int run = 0; run < kTimedRuns; ++run)
    interpret_observed(graph, values, [&](size_t n, const Tensors&, double microseconds) { times[n].push_back(microseconds); });
  for (size_t n = 0; n < times.size(); ++n)
    if (!times[n].empty()) parts.push_back({graph.nodes[n].name, graph.nodes[n].op->name, median(times[n])});
  return parts;
}

std::vector<Part> time_steps(const CompiledGraph& compiled, const std::vector<std::string>& names, const Tensors& inputs) {
  const PlanRunner keeper(compiled.plan, true);  // what follows from the weights alone stays while it lives
  const Tensors variables = plan_variables(compiled, names, inputs);
  std::vector<std::vector<double>> times(compiled.plan.steps.size());
  for (int run = 0; run < kTimedRuns; ++run) {
    PlanRunner runner(compiled.plan, true);  // each times its first two runs
    for (int call = 0; call < 2; ++call) PlanRunner::Run(runner).forward(variables, compiled.num_outputs);
    const std::vector<double> each = runner.step_microseconds();
    for (size_t k = 0; k < times.size(); ++k) times[k].push_back(each[k]);
  }
  std::vector<Part> parts;
  for (size_t k = 0; k < times.size(); ++k)
    parts.push_back({compiled.plan.steps[k].name, compiled.plan.steps[k].op->name, median(times[k])});
  return parts;
}

Json measured_json(const Measured& m) {
  Json parts = Json::array();
  for (const Part& p : m.parts) parts.push_back({{"name", p.name}, {"operator", p.op}, {"microseconds", p.microseconds}});
  double sum = 0;
  for (double c : m.calls) sum += c;
  return {{"calls", m.calls.size()},
          {"microseconds",
           {{"first_call", m.first_call},
            {"min", m.calls.front()},
            {"p50", m.percentile(50)},
            {"p90", m.percentile(90)},
            {"p99", m.percentile(99)},
            {"max", m.calls.back()},
            {"mean", sum / static_cast<double>(m.calls.size())}}},
          {"peak_bytes", m.peak_bytes},
          {"operators", parts}};
}

// chrome://tracing and Perfetto show one call of each mode, operator after operator.
Json chrome_trace(const std::vector<Measured>& all) {
  Json events = Json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", i}, {"args", {{"name", all[i].mode}}}});
    double at = 0;
    for (const Part& p : all[i].parts) {
      events.push_back({{"name", p.name},
                        {"cat", p.op},
                        {"ph", "X"},
                        {"ts", at},
                        {"dur", p.microseconds},
                        {"pid", 1},
                        {"tid", i},
                        {"args", {{"operator", p.op}}}});
      at += p.microseconds;
    }
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

std::string time_text(double microseconds) {
  return microseconds < 1e3   ? fmt::format("{:.1f} us", microseconds)
         : microseconds < 1e6 ? fmt::format("{:.2f} ms", microseconds / 1e3)
                              : fmt::format("{:.2f} s", microseconds / 1e6);
}

// The operators of one kind together, the slowest first.
std::string kinds_table(const Measured& m, int64_t rows) {
  std::map<std::string, std::pair<double, int>> kinds;
  double total = 0;
  for (const Part& p : m.parts) {
    kinds[p.op].first += p.microseconds;
    ++kinds[p.op].second;
    total += p.microseconds;
  }
  std::vector<std::pair<std::string, std::pair<double, int>>> sorted(kinds.begin(), kinds.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  Rows lines;
  for (const auto& [op, sum] : sorted)
    if (static_cast<int64_t>(lines.size()) < rows)
      lines.push_back(
          {op, std::to_string(sum.second), time_text(sum.first), fmt::format("{:.1f} %", 100 * sum.first / std::max(total, 1e-9))});
  return table(lines, "lrrr", "    ");
}

void print_text(const std::vector<Measured>& all, const Json& report, const BenchOptions& options) {
  fmt::print("{} threads, {} operations a call, {} of intermediate values by plan\n", report["threads"].get<int>(),
             amount(report["flops"].get<double>()), bytes_text(report["planned_bytes"]));
  Rows rows{{"", "calls", "first", "min", "p50", "p90", "p99", "calls/s", "GFLOP/s", "peak"}};
  for (const Measured& m : all)
    rows.push_back({m.mode, std::to_string(m.calls.size()), time_text(m.first_call), time_text(m.calls.front()),
                    time_text(m.percentile(50)), time_text(m.percentile(90)), time_text(m.percentile(99)),
                    fmt::format("{:.1f}", 1e6 / m.percentile(50)),
                    fmt::format("{:.1f}", report["flops"].get<double>() / m.percentile(50) / 1e3), bytes_text(m.peak_bytes)});
  fmt::print("{}", table(rows, "lrrrrrrrrr", ""));
  for (const Measured& m : all) fmt::print("{}, by operator:\n{}", m.mode, kinds_table(m, options.rows));
  if (!options.trace.empty()) fmt::print("trace written to {}\n", options.trace);
}

int bench(const BenchOptions& options, bool json) {
  setenv("GLUINO_JIT", "wait", 0);  // what is compiled in the background would come into the times
  if (options.threads > 0) set_num_threads(options.threads);
  LoadedModel model = load_model(options.model, named_inputs(options.inputs));
  const Tensors inputs = make_inputs(model, options.inputs, true);
  const ModelProgram program = make_program(model, inputs);
  const CompiledGraph compiled = program.compile();
  std::vector<Measured> all{measure("eager", *model.net, inputs, options)};
  all[0].parts = time_operators(program.graph, model.inputs, inputs);
  model.net->hybridize(true, {.static_alloc = true});
  all.push_back(measure("hybridized", *model.net, inputs, options));
  all[1].parts = time_steps(compiled, model.inputs, inputs);

  int64_t flops = 0;
  for (const auto& node : program.graph.nodes) flops += operations_of(program.graph, node);
  Json report{
      {"model", model.files.symbol_path}, {"threads", num_threads()}, {"flops", flops}, {"planned_bytes", compiled.plan.arena_bytes}};
  for (const Measured& m : all) report[m.mode] = measured_json(m);
  if (!options.trace.empty()) write_file(options.trace, json_text(chrome_trace(all)));
  if (json)
    print_json(report);
  else
    print_text(all, report, options);
  return 0;
}

}  // namespace

void add_bench(Commands& commands) {
  auto options = std::make_shared<BenchOptions>();
  Command command = commands.add("bench", "Times a model, eagerly and hybridized, call by call and operator by operator.");
  add_model_options(command, options->model);
  add_shape_options(command, options->inputs);
  add_input_options(command, options->inputs);
  command.option("--threads", options->threads, "threads that an operator may use").positive();
  command.option("--calls", options->calls, "calls to time, instead of as many as fit into the time").positive();
  command.option("--seconds", options->seconds, "how long each way is timed").positive().with_default();
  command.option("--rows", options->rows, "kinds of operators to show").with_default();
  command.option("--trace", options->trace, "write one call of each way for chrome://tracing or Perfetto").type("FILE");
  command.runs([options](bool json) { return bench(*options, json); });
}

}  // namespace gluino::cli
