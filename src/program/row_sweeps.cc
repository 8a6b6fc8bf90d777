#include "program/row_sweeps.h"

#include <algorithm>

#include "kernels/isa/primitives.h"
#define GLUINO_ISA recorded
#include "program/row_formulas.h"

namespace gluino::kernels {
namespace {

constexpr size_t kMostInstructions = 1024;

// A value of the list that is being written.
struct Recorder;
struct RowExpr {
  Recorder* recorder = nullptr;
  int16_t position = -1;
};

struct Recorder {
  std::vector<RowInstruction> code;

  RowExpr add(RowInstruction in) {
    code.push_back(in);
    return {this, static_cast<int16_t>(code.size() - 1)};
  }
  RowExpr constant(double value) { return add({.op = RowOp::constant, .value = value}); }
  RowExpr call(ScalarFn fn, std::initializer_list<RowExpr> args) {
    RowInstruction in{.op = RowOp::call, .fn = fn};
    int16_t* to = in.args;
    for (const RowExpr& a : args) {
      in.is_row |= code[a.position].is_row;
      *to++ = a.position;
    }
    return add(in);
  }
  // A number made of the whole of x.
  RowExpr number(RowOp op, RowExpr x) { return add({.op = op, .args = {x.position, 0, 0}}); }
};

RowExpr operator+(RowExpr a, RowExpr b) { return a.recorder->call(ScalarFn::add, {a, b}); }
RowExpr operator-(RowExpr a, RowExpr b) { return a.recorder->call(ScalarFn::subtract, {a, b}); }
RowExpr operator*(RowExpr a, RowExpr b) { return a.recorder->call(ScalarFn::multiply, {a, b}); }
RowExpr operator/(RowExpr a, RowExpr b) { return a.recorder->call(ScalarFn::divide, {a, b}); }
RowExpr operator/(double a, RowExpr b) { return b.recorder->constant(a) / b; }

// The places of a row, for the formulas: what is put somewhere is the value that was computed for it.
struct RecordedRows {
  Recorder& recorder;

  static RowExpr at(RowExpr x) { return x; }
  static RowExpr at(const RowExpr* x) { return *x; }
  struct At {
    template <class X>
    RowExpr operator()(X x) const {
      return at(x);
    }
  };
  RowExpr count() const { return recorder.add({.op = RowOp::count}); }
  RowExpr exp(RowExpr x) const { return recorder.call(ScalarFn::exp, {x}); }
  RowExpr sqrt(RowExpr x) const { return recorder.call(ScalarFn::sqrt, {x}); }
  RowExpr wide_log(RowExpr x) const { return recorder.number(RowOp::wide_log, x); }
  template <class F>
  RowExpr sum(F&& f) const {
    return recorder.number(RowOp::sum, f(At()));
  }
  template <class F>
  RowExpr largest(F&& f) const {
    return recorder.number(RowOp::largest, f(At()));
  }
  template <class F>
  void each(F&& f) const {
    const auto put = [](RowExpr* x, RowExpr value) { *x = value; };
    f(At(), put, put);
  }
};

// Writes the stages of a program one after the other.
class Lowering {
 public:
  Lowering(const RowProgram& program, std::span<const RowInput> inputs) : program_(program) {
    plan.inputs.assign(inputs.begin(), inputs.end());
    for (size_t i = 0; i < inputs.size(); ++i) values_.push_back(input(static_cast<int16_t>(i), inputs[i].is_row));
  }
  bool run() {
    for (const RowStage& stage : program_.stages) {
      if (stage.function == RowFunction::map)
        map(stage);
      else if (!function(stage))
        return false;
      if (recorder_.code.size() > kMostInstructions) return false;
    }
    plan.code = std::move(recorder_.code);
    return true;
  }
  int16_t value(int v) const { return values_[v].position; }
  RowSweeps plan;

 private:
  RowExpr input(int16_t number, bool is_row) { return recorder_.add({.op = RowOp::input, .args = {number, 0, 0}, .is_row = is_row}); }

  void map(const RowStage& stage) {
    const Program& p = stage.loops->program();
    std::vector<RowExpr> positions;
    for (int i = 0; i < p.size(); ++i) {
      const Instruction& in = p[i];
      const auto arg = [&](int a) { return positions[in.args[a]]; };
      switch (arity(in.fn)) {
        case 1: positions.push_back(recorder_.call(in.fn, {arg(0)})); break;
        case 2: positions.push_back(recorder_.call(in.fn, {arg(0), arg(1)})); break;
        case 3: positions.push_back(recorder_.call(in.fn, {arg(0), arg(1), arg(2)})); break;
        default: positions.push_back(in.fn == ScalarFn::constant ? recorder_.constant(in.value) : values_[stage.arguments[in.args[0]]]);
      }
    }
    for (int r = 0; r < p.num_results(); ++r) values_.push_back(positions[p.result(r)]);
  }

  bool function(const RowStage& stage) {
    const RecordedRows rows{recorder_};
    const auto argument = [&](size_t a) { return values_[stage.arguments[a]]; };
    RowExpr given[3], exps;
    switch (stage.function) {
      case RowFunction::reduce: given[0] = reduction(stage, argument(0)); break;
      case RowFunction::softmax: recorded::softmax_of(rows, scaled(argument(0), stage.number), &exps, &given[0]); break;
      case RowFunction::log_softmax: recorded::log_softmax_of(rows, scaled(argument(0), stage.number), &exps, &given[0]); break;
      case RowFunction::softmax_grad:
        recorded::softmax_grad_of(rows, argument(0), argument(1), recorder_.constant(stage.number), &given[0]);
        break;
      case RowFunction::log_softmax_grad:
        recorded::log_softmax_grad_of(rows, argument(0), argument(1), recorder_.constant(stage.number), &given[0]);
        break;
      case RowFunction::layer_norm:
        recorded::layer_norm_of(rows, argument(0), recorder_.constant(stage.number), argument(1), argument(2), &given[0], given[1],
                                given[2]);
        break;
      case RowFunction::layer_norm_grad:
        recorded::layer_norm_grad_of(rows, argument(0), argument(1), argument(2), argument(3), argument(4), &given[0], &given[1],
                                     &given[2]);
        break;
      case RowFunction::pick: {
        const int index = index_input(stage.arguments[1]);
        if (index < 0) return false;
        given[0] = recorder_.add({.op = RowOp::pick, .args = {argument(0).position, static_cast<int16_t>(index), 0}});
        break;
      }
      case RowFunction::pick_grad: {
        const int index = index_input(stage.arguments[1]);
        if (index < 0) return false;
        const RowExpr here = recorder_.add({.op = RowOp::is_place, .args = {static_cast<int16_t>(index), 0, 0}, .is_row = true});
        given[0] = recorder_.call(ScalarFn::select, {here, argument(0), recorder_.constant(0)});
        break;
      }
      default: return false;
    }
    values_.insert(values_.end(), given, given + stage.gives());
    return true;
  }
  RowExpr scaled(RowExpr x, double factor) { return factor == 1 ? x : x * recorder_.constant(factor); }
  RowExpr reduction(const RowStage& stage, RowExpr x) {
    const RowExpr reduced = recorder_.add({.op = RowOp::reduce,
                                           .how = stage.how,
                                           .finish = stage.finish,
                                           .block = static_cast<int16_t>(stage.dtype ? kWidenedBlock : kReduceBlock),
                                           .args = {x.position, 0, 0}});
    if (!stage.dtype) return reduced;
    return recorder_.call(*stage.dtype == DType::float16 ? ScalarFn::to_float16 : ScalarFn::to_bfloat16, {reduced});
  }
  // The input of whole numbers that stands for an input of the program; one that a stage computes has none.
  int index_input(int value) {
    const auto count = static_cast<int>(plan.inputs.size() - plan.indices.size());
    if (value >= count) return -1;
    auto found = std::find(plan.indices.begin(), plan.indices.end(), value);
    if (found == plan.indices.end()) {
      plan.indices.push_back(value);
      plan.inputs.push_back({DType::int64, false});
      found = plan.indices.end() - 1;
    }
    return count + static_cast<int>(found - plan.indices.begin());
  }

  const RowProgram& program_;
  Recorder recorder_;
  std::vector<RowExpr> values_;  // of the row program
};

int arguments_of(const RowInstruction& in) {
  switch (in.op) {
    case RowOp::call: return arity(in.fn);
    case RowOp::wide_log:
    case RowOp::reduce:
    case RowOp::sum:
    case RowOp::largest:
    case RowOp::pick: return 1;
    default: return 0;
  }
}
bool is_reduction(const RowInstruction& in) { return in.op == RowOp::reduce || in.op == RowOp::sum || in.op == RowOp::largest; }

// Distributes the values over sweeps.
class Sweeping {
 public:
  Sweeping(RowSweeps& plan, DType type)
      : plan_(plan), code_(plan.code), type_(type), levels_(code_.size()), costs_(code_.size()), needed_(code_.size()) {}

  bool run() {
    find_needed();
    find_levels();
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      RowOutput& out = plan_.outputs[o];
      if (out.kind == RowOutput::Kind::number) continue;
      out.sweep = level(out.value);
      plan_.sweeps = std::max(plan_.sweeps, out.sweep + 1);
    }
    // It may lie where an input does, which nobody reads after the last sweep.
    if (plan_.outputs[0].kind == RowOutput::Kind::row) plan_.outputs[0].sweep = static_cast<int16_t>(plan_.sweeps - 1);
    for (size_t k = 0; k < code_.size(); ++k)
      if (!code_[k].is_row && needed_[k]) code_[k].sweep = levels_[k];
    for (int s = 0; s < plan_.sweeps; ++s)
      if (!fill(static_cast<int16_t>(s))) return false;
    return true;
  }

 private:
  int16_t level(int value) const { return levels_[value]; }

  void find_needed() {
    for (const RowOutput& out : plan_.outputs) needed_[out.value] = true;
    for (size_t k = code_.size(); k-- > 0;)
      if (needed_[k])
        for (int a = 0; a < arguments_of(code_[k]); ++a) needed_[code_[k].args[a]] = true;
  }
  // The first sweep that can compute a row, or before which a number can be known. Costs: of computing an element of it from the inputs.
  void find_levels() {
    for (size_t k = 0; k < code_.size(); ++k) {
      const RowInstruction& in = code_[k];
      for (int a = 0; a < arguments_of(in); ++a) {
        levels_[k] = std::max(levels_[k], level(in.args[a]));
        costs_[k] += costs_[in.args[a]];
      }
      if (needed_[k] && (is_reduction(in) || in.op == RowOp::pick)) plan_.sweeps = std::max(plan_.sweeps, levels_[k] + 1);
      if (is_reduction(in)) ++levels_[k];
      costs_[k] = in.is_row ? std::min(costs_[k] + cost(in), 1000) : 0;
    }
  }
  static int cost(const RowInstruction& in) {
    if (in.op != RowOp::call) return 1;
    switch (in.fn) {
      case ScalarFn::negative:
      case ScalarFn::abs:
      case ScalarFn::add:
      case ScalarFn::subtract:
      case ScalarFn::multiply:
      case ScalarFn::maximum:
      case ScalarFn::minimum:
      case ScalarFn::select:
      case ScalarFn::widen: return 1;
      default: return 10;
    }
  }

  // What a sweep computes: that which its reductions and outputs need and earlier ones have not kept.
  bool fill(int16_t sweep) {
    int16_t block = 0;
    for (size_t k = 0; k < code_.size(); ++k) {
      const RowInstruction& in = code_[k];
      if (!needed_[k] || !is_reduction(in) || levels_[k] != sweep + 1) continue;
      // All of a sweep are carried on together.
      if (in.op == RowOp::reduce && block && block != in.block) return false;
      if (in.op == RowOp::reduce) block = in.block;
      demand(in.args[0], sweep);
    }
    for (const RowOutput& out : plan_.outputs)
      if (out.kind != RowOutput::Kind::number && out.sweep == sweep) demand(out.value, sweep);
    return true;
  }
  void demand(int16_t value, int16_t sweep) {
    RowInstruction& in = code_[value];
    if (!in.is_row || in.op == RowOp::input) return;
    if (in.sweep == sweep) return;
    if (in.sweep >= 0) {
      if (in.slot >= 0 || in.output >= 0) return;
      const int16_t output = output_with(value, in.sweep);
      if (costs_[value] > (output >= 0 ? kCheapBesideOutput : kCheap)) {
        if (output >= 0)
          in.output = output;
        else
          in.slot = static_cast<int16_t>(plan_.slots++);
        return;
      }
    } else {
      in.sweep = sweep;
    }
    for (int a = 0; a < arguments_of(in); ++a) demand(in.args[a], sweep);
  }
  // An output that the sweep fills with the value as it is.
  int16_t output_with(int16_t value, int16_t sweep) const {
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      const RowOutput& out = plan_.outputs[o];
      if (out.kind == RowOutput::Kind::row && out.value == value && out.sweep == sweep && out.dtype == type_)
        return static_cast<int16_t>(o);
    }
    return -1;
  }

  // Up to these costs a value is computed again rather than kept: reading the inputs once more costs as much as reading the value.
  static constexpr int kCheap = 4, kCheapBesideOutput = 2;

  RowSweeps& plan_;
  std::vector<RowInstruction>& code_;
  const DType type_;  // that values are computed in
  std::vector<int16_t> levels_;
  std::vector<int> costs_;
  std::vector<bool> needed_;  // by an output, or by something that is
};

}  // namespace

std::optional<RowSweeps> plan_sweeps(const RowProgram& program, std::span<const RowInput> inputs, std::span<const RowOutput> outputs) {
  Lowering lowering(program, inputs);
  if (!lowering.run()) return std::nullopt;
  RowSweeps plan = std::move(lowering.plan);
  for (size_t r = 0; r < program.results.size(); ++r)
    plan.outputs.push_back({outputs[r].kind, outputs[r].dtype, lowering.value(program.results[r]), 0});
  if (!Sweeping(plan, storage_of(program.type)).run()) return std::nullopt;
  return plan;
}

}  // namespace gluino::kernels
