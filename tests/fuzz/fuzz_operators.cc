// Every operator of the registry with random inputs and attributes, on guarded memory: eagerly, with gradients, and compiled. A call may
// succeed or raise an error that names it; it may not crash, hang, write out of bounds, or give what the memory held before.
//
//   fuzz_operators [CASES]            each operator, so many cases (GLUINO_FUZZ_OPERATORS, or 300)
//   fuzz_operators OPERATOR NUMBER    one case, in this process
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "dispatch/composition.h"
#include "dispatch/infer.h"
#include "fuzz/guarded_memory.h"
#include "fuzz/isolated_runs.h"
#include "fuzz/random_calls.h"
#include "fuzz/wrong_errors.h"
#include "gluino/autograd.h"
#include "gluino/hybrid.h"
#include "gluino/random.h"
#include "graph/graph.h"
#include "tensor/impl.h"

namespace gluino::fuzz {
namespace {

enum class Way { eager, recorded, compiled, compiled_recorded };
constexpr Way kWays[] = {Way::eager, Way::recorded, Way::compiled, Way::compiled_recorded};
const char* const kWayNames[] = {"eager", "recorded", "compiled", "compiled and recorded"};
constexpr int kCompiledEvery = 4;  // compiling takes longest

// What a call gave: the error's text, or tensors as text of bytes.
struct Outcome {
  std::string error, problem;
  std::vector<std::string> tensors;
  bool operator==(const Outcome&) const = default;
};

template <class T>
void hide_nan(std::string& bytes) {  // any NaN is as good as another
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (value != value) std::memset(bytes.data() + at, 0x7f, sizeof(T));
  }
}

std::string as_bytes(const Tensor& t) {
  if (!t.defined()) return "null";
  std::string bytes(static_cast<size_t>(t.nbytes()), 0);
  t.copy_to(bytes.data());
  visit_dtype(t.dtype(), [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      for (size_t at = 0; at + 2 <= bytes.size(); at += 2) {
        T value;
        std::memcpy(&value, bytes.data() + at, 2);
        if (std::isnan(static_cast<float>(value))) std::memset(bytes.data() + at, 0x7f, 2);
      }
    } else if constexpr (std::is_floating_point_v<T>) {
      hide_nan<T>(bytes);
    }
  });
  return std::string(dtype_name(t.dtype())) + t.shape().str() + bytes;
}

class CallRun {
 public:
  CallRun(const RandomCall& call, Way way) : call_(call), way_(way) {}

  Outcome run() {
    Outcome outcome;
    try {
      compute(outcome);
    } catch (...) {
      const Caught caught = caught_error();
      outcome.error = caught.text;
      outcome.problem = caught.problem;
      if (!outcome.problem.empty()) return outcome;
      if (!caught.is_users && caught.text.find(" bytes") == std::string::npos)
        outcome.problem = "no error of the user's: " + caught.text;
      else if (way_ == Way::eager && caught.text.find(call_.op->name) == std::string::npos)
        outcome.problem = "does not name the operator: " + caught.text;
      else if (way_ == Way::eager && caught.is_users && !is_too_large(caught.text) && is_accepted_by_rules())
        outcome.problem = "the kernel refuses values, and the definition does not say so (refuses_values): " + caught.text;
    }
    return outcome;
  }

 private:
  bool is_recorded() const { return way_ == Way::recorded || way_ == Way::compiled_recorded; }
  bool is_compiled() const { return way_ == Way::compiled || way_ == Way::compiled_recorded; }

  // Rules know nothing of memory.
  static bool is_too_large(const std::string& text) {
    return text.find("too large") != std::string::npos || text.find("more elements than") != std::string::npos;
  }
  // Attributes, shapes and dtypes are as they should be, and nothing was said about values. Calls whose shapes depend on values are made
  // where they stand in any case, and composed ones are the calls that they are made of.
  bool is_accepted_by_rules() const {
    const OpDef& op = *call_.op;
    if (op.is_dynamic_shape || is_composed(op)) return false;
    try {
      const Attrs attrs = op.parse_attrs(call_.attrs);
      std::vector<Shape> shapes, out;
      std::vector<DType> types, out_types;
      for (const Tensor& t : call_.make_inputs()) {
        shapes.push_back(t.shape());
        types.push_back(t.dtype());
      }
      check_input_count(op, attrs, static_cast<int>(shapes.size()));
      infer_shapes(op, attrs, shapes, out);
      infer_dtypes(op, attrs, types, out_types);
      return !refuses_values(op, attrs);
    } catch (const Error&) {
      return false;
    }
  }
  void compute(Outcome& outcome) {
    const OpDef& op = *call_.op;
    const Attrs attrs = op.parse_attrs(call_.attrs);
    Tensors inputs = call_.make_inputs();
    if (is_recorded())
      for (Tensor& t : inputs)
        if (is_floating(t.dtype())) t.attach_grad();
    const auto function = [&](const Tensors& in) {
      Tensors outputs = apply(op, in, attrs);
      outputs.resize(static_cast<size_t>(op.num_visible_outputs(attrs)));
      return outputs;
    };
    const auto compiled = hybrid(function);
    for (int i = 0; i < (is_compiled() ? 2 : 1); ++i) {
      seed(7);
      Tensors outputs;
      {
        const autograd::Scope scope(is_recorded(), call_.training);
        outputs = is_compiled() ? compiled(inputs) : function(inputs);
      }
      for (const Tensor& t : outputs) outcome.tensors.push_back(as_bytes(t));
      if (is_recorded()) go_back(outputs);
      for (const Tensor& t : inputs) {
        outcome.tensors.push_back(as_bytes(t));
        if (is_recorded()) outcome.tensors.push_back(as_bytes(t.grad()));
      }
    }
  }
  void go_back(const Tensors& outputs) {
    Tensors heads;
    for (const Tensor& t : outputs)
      if (is_floating(t.dtype()) && impl_of(t).autograd) heads.push_back(t);
    if (!heads.empty()) autograd::backward(heads, {}, {.train_mode = call_.training});
  }

  const RandomCall& call_;
  const Way way_;
};

class OperatorFuzz {
 public:
  OperatorFuzz() { install_memory_source(&memory_); }

  // Some cases on a thread of their own, which has no caches yet.
  void run_case(const OpDef& op, int64_t number) {
    if (number % 16 != 5) return run_here(op, number);
    std::thread([&] { run_here(op, number); }).join();
  }
  IsolatedRuns runs;

 private:
  void run_here(const OpDef& op, int64_t number) {
    const RandomCall call = random_call(op, number);
    for (size_t w = 0; w < std::size(kWays); ++w)
      if (w < 2 || number % kCompiledEvery == 0) run_way(call, kWays[w], std::string(kWayNames[w]) + ": " + call.str());
  }
  using Place = GuardedMemory::Place;
  Outcome run_filled(const RandomCall& call, Way way, GuardedMemory::Filling filling) {
    memory_.start(filling);
    Outcome outcome = CallRun(call, way).run();
    if (const std::string damage = memory_.take_damage(); !damage.empty()) outcome.problem = damage;
    return outcome;
  }
  void run_way(const RandomCall& call, Way way, const std::string& what) {
    runs.describe(what);
    const Outcome first = run_filled(call, way, {0xff, Place::before_guard});
    Outcome second = run_filled(call, way, {0x4b, Place::behind_guard});
    if (first.error.empty()) runs.count_result();
    if (!first.problem.empty() || !second.problem.empty()) return runs.fail(first.problem.empty() ? second.problem : first.problem);
    if (first == second) return;
    // Libraries may add up in another order when memory begins elsewhere; only the filling may not be seen.
    second = run_filled(call, way, {0x4b, Place::before_guard});
    if (!(first == second))
      runs.fail("depends on what memory held before" + (first.error == second.error ? "" : ": " + first.error + " / " + second.error));
  }
  GuardedMemory memory_;
};

int run_all(int64_t cases) {
  OperatorFuzz fuzz;
  size_t operators = 0;
  for (const auto& op : OpRegistry::global().all()) {
    fuzz.runs.run(op->name, 0, cases, [&](int64_t number) { fuzz.run_case(*op, number); });
    ++operators;
  }
  for (const Failure& f : fuzz.runs.failures())
    std::printf("%s %ld: %s\n    %s\n", f.subject.c_str(), static_cast<long>(f.number), f.what.c_str(), f.call.c_str());
  std::printf("%zu operators, %ld cases each, %ld calls with a result: %zu failures\n", operators, static_cast<long>(cases),
              static_cast<long>(fuzz.runs.results()), fuzz.runs.failures().size());
  return fuzz.runs.failures().empty() ? 0 : 1;
}

}  // namespace
}  // namespace gluino::fuzz

int main(int argc, char** argv) {
  using namespace gluino;
  setenv("GLUINO_JIT", "off", 0);
  if (argc > 2) {
    fuzz::OperatorFuzz fuzz;
    const OpDef& op = OpRegistry::global().get(argv[1]);
    const int64_t number = std::atoll(argv[2]);
    std::printf("%s\n", fuzz::random_call(op, number).str().c_str());
    fuzz.run_case(op, number);
    return 0;
  }
  const char* wanted = argc > 1 ? argv[1] : std::getenv("GLUINO_FUZZ_OPERATORS");
  return fuzz::run_all(wanted ? std::atoll(wanted) : 300);
}
