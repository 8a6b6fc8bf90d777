#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/elementwise/access.h"
#include "kernels/elementwise/direct.h"
#include "kernels/elementwise/eager_loops.h"
#include "kernels/elementwise/fill_blocks.h"
#include "kernels/isa/primitives.h"
#include "program/program_text.h"

namespace gluino::kernels {
namespace {

// Registers: instruction i writes to slot[i]; a slot is free again after its value's last use.
struct Registers {
  std::array<uint8_t, Program::kMaxInstructions> slot{};
  int count = 0;
};
Registers allocate_registers(const Program& p) {
  std::array<int, Program::kMaxInstructions> last_use{};
  for (int i = 0; i < p.size(); ++i)
    if (p[i].fn != ScalarFn::input)
      for (int k = 0; k < arity(p[i].fn); ++k) last_use[p[i].args[k]] = i;
  for (int r = 0; r < p.num_results(); ++r) last_use[p.result(r)] = p.size();
  Registers r;
  std::array<bool, Program::kMaxInstructions> busy{};
  const auto take = [&](int i) {
    int s = 0;
    while (busy[s]) ++s;
    busy[s] = true;
    r.slot[i] = static_cast<uint8_t>(s);
    r.count = std::max(r.count, s + 1);
  };
  // Leaves own their slot from the start: constants are filled once, before any instruction runs.
  for (int i = 0; i < p.size(); ++i)
    if (arity(p[i].fn) == 0) take(i);
  for (int i = 0; i < p.size(); ++i) {
    if (arity(p[i].fn) == 0) continue;
    for (int k = 0; k < arity(p[i].fn); ++k) {
      const int arg = p[i].args[k];
      if (last_use[arg] == i && arity(p[arg].fn) > 0) busy[r.slot[arg]] = false;
    }
    take(i);
  }
  return r;
}

// What is computed for a block: as many numbers as it has elements, or one that all of them share; and which operand is such a one.
enum class Form : uint8_t { all, one, with_one_first, with_one_second };
std::array<Form, Program::kMaxInstructions> forms_of(const Loop& loop, bool in_rows) {
  const Program& p = loop.program;
  const auto is_one = [&](int i) {
    if (p[i].fn != ScalarFn::input) return p[i].fn == ScalarFn::constant;
    return loop.access[p[i].args[0]].kind == Access::scalar || (in_rows && is_repeated_in_rows(loop, p[i].args[0]));
  };
  std::array<Form, Program::kMaxInstructions> form{};
  for (int i = 0; i < p.size(); ++i)
    if (is_one(i) && !p.is_result(i)) form[i] = Form::one;
  for (int i = 0; i < p.size(); ++i) {
    const int n_args = arity(p[i].fn);
    const bool first = n_args == 2 && is_one(p[i].args[0]), second = n_args == 2 && is_one(p[i].args[1]);
    if (first != second)
      form[i] = first ? Form::with_one_first : Form::with_one_second;
    else
      for (int k = 0; k < n_args; ++k) form[p[i].args[k]] = form[p[i].args[k]] == Form::one ? Form::all : form[p[i].args[k]];
  }
  return form;
}

char* place_of(const Result& result, int64_t element) { return static_cast<char*>(result.data) + element * dtype_bytes(result.dtype); }

// Elements [begin, end) of the results, which begin with the one at `begin`.
void run_range(const Loop& loop, const Registers& registers, int64_t begin, int64_t end, std::span<const Result> results) {
  const Program& p = loop.program;
  const PrimitiveTable& table = primitives();
  const auto type = static_cast<size_t>(p.type());
  // Broadcast operands are read where they lie, or one number of them is written out, if blocks end where rows do.
  const int64_t row = length_of_rows(loop);
  const int64_t block = std::min(row && registers.count <= 3 ? 4 * kElementBlock : kElementBlock, end - begin);
  const std::array<Form, Program::kMaxInstructions> form = forms_of(loop, row != 0);
  const int64_t stride = (block * loop.width + 63) / 64 * 64;
  const size_t bytes = static_cast<size_t>(stride * registers.count + 64);
  alignas(64) char small[4096 * 2];
  std::vector<char> large;
  char* base = small;
  if (bytes > sizeof small) {
    large.resize(bytes);
    base = large.data();
  }
  std::array<const char*, Program::kMaxInstructions> value;
  for (int i = 0; i < p.size(); ++i) {
    char* reg = base + stride * registers.slot[i];
    value[i] = reg;
    if (p[i].fn == ScalarFn::constant) {
      fill_constant(p[i].value, loop.type, reg, block);
    } else if (p[i].fn == ScalarFn::input && loop.access[p[i].args[0]].kind == Access::scalar) {
      const Operand& o = loop.operands[p[i].args[0]];
      convert(o.data, o.dtype, reg, loop.type, 1);
      spread(reg, loop.width, block);
    }
  }
  std::array<const char*, Program::kMaxInstructions> spread_from{};
  std::array<int64_t, Program::kMaxInstructions> spread_length{};
  // The last instruction may write its result where it belongs. Others wait for the end of the block: an output may be an input that
  // is still read.
  const int last = p.size() - 1;
  const Result* direct = nullptr;
  for (int r = 0; r < p.num_results(); ++r)
    if (p.result(r) == last && results[r].dtype == loop.type) direct = &results[r];
  for (int64_t at = begin, n; at < end; at += n) {
    n = std::min(block, end - at);
    if (row) n = std::min(n, row - at % row);
    for (int i = 0; i < p.size(); ++i) {
      const Instruction& in = p[i];
      const auto k = static_cast<size_t>(i);
      char* reg = base + stride * registers.slot[k];
      if (in.fn == ScalarFn::constant) continue;
      if (in.fn == ScalarFn::input) {
        const size_t operand = in.args[0];
        if (row && is_repeated_in_rows(loop, operand)) {
          const char* from = address_of(loop, operand, at);
          const int64_t wanted = form[k] == Form::one ? 1 : n;
          if (from == spread_from[k] && wanted <= spread_length[k]) continue;
          convert(from, loop.operands[operand].dtype, reg, loop.type, 1);
          spread(reg, loop.width, wanted);
          spread_from[k] = from;
          spread_length[k] = wanted;
        } else if (loop.access[operand].kind != Access::scalar)
          value[k] = static_cast<const char*>(load(loop, operand, at, n, row != 0, reg, p.num_results() > 1 && p.is_result(i)));
        continue;
      }
      char* target = i == last && direct ? place_of(*direct, at - begin) : reg;
      const auto& kernels = form[k] == Form::with_one_first    ? table.with_one[0]
                            : form[k] == Form::with_one_second ? table.with_one[1]
                                                               : table.scalar;
      kernels[static_cast<int>(in.fn)][type](value[in.args[0]], value[in.args[1]], value[in.args[2]], target, n);
      value[k] = target;
    }
    for (int r = 0; r < p.num_results(); ++r) {
      const Result& result = results[r];
      const char* from = value[p.result(r)];
      char* to = place_of(result, at - begin);
      if (from != to) convert(from, loop.type, to, result.dtype, n);
    }
  }
}

// Runs of consecutive elements that one call of a compiled loop can compute, and how it reads the operands there.
struct Runs {
  int64_t length;                     // of one run
  uint32_t repeated = 0;              // operands with one element per run
  bool gathered = false;              // broadcast operands are first written out, because runs of them would be too short
  bool converted = false;             // some operands have other types and are first converted, block by block
  std::optional<StoredTypes> stored;  // the loop itself converts some

  DType output_dtype(const Loop& loop, size_t r) const { return stored ? stored->outputs[r] : loop.type; }
};

// The dtypes of all arrays, if the loop can convert what it must; what the loop stores that is not `stored`, has the computed type.
std::optional<StoredTypes> types_converted_in_loop(const Loop& loop, std::span<const DType> stored) {
  const ComputeType type = loop.program.type();
  StoredTypes types;
  types.inputs.fill(loop.type);
  types.outputs.fill(loop.type);
  for (size_t k = 0; k < loop.operands.size(); ++k) types.inputs[k] = loop.operands[k].dtype;
  for (size_t r = 0; r < stored.size(); ++r)
    if (can_write_stored(type, stored[r])) types.outputs[r] = stored[r];
  const auto differs = [&](DType dtype) { return dtype != loop.type; };
  const bool reads_others = std::ranges::any_of(types.inputs, differs);
  if (reads_others && !can_read_stored(type)) return std::nullopt;
  return reads_others || std::ranges::any_of(types.outputs, differs) ? std::optional(types) : std::nullopt;
}

std::optional<Runs> find_runs(const Loop& loop, int64_t elements, std::span<const DType> stored) {
  if (loop.operands.size() > CompiledLoops::kMostInputs) return std::nullopt;
  bool strided = false;
  Runs runs{.length = elements};
  for (size_t k = 0; k < loop.operands.size(); ++k) {
    runs.converted |= loop.operands[k].dtype != loop.type;
    strided |= loop.access[k].kind == Access::strided;
  }
  if (strided) {
    const int64_t row = length_of_rows(loop);
    runs.gathered = row == 0;
    runs.length = row ? row : kElementBlock;
  }
  if (!runs.gathered) runs.stored = types_converted_in_loop(loop, stored);
  if (runs.stored) runs.converted = false;
  for (size_t k = 0; k < loop.operands.size(); ++k) {
    if (loop.access[k].kind == Access::scalar || (is_repeated_in_rows(loop, k) && !runs.gathered)) runs.repeated |= 1u << k;
  }
  return runs;
}

void run_compiled(const Loop& loop, const Runs& runs, LoopKernel kernel, int64_t begin, int64_t end, std::span<const Result> results) {
  const size_t count = loop.operands.size();
  std::array<const void*, CompiledLoops::kMostInputs> inputs;
  std::array<void*, Program::kMaxResults> outputs;
  bool narrowed = false;
  for (size_t r = 0; r < results.size(); ++r) narrowed |= results[r].dtype != runs.output_dtype(loop, r);
  const bool in_blocks = runs.gathered || runs.converted || narrowed;
  std::vector<char> scratch(in_blocks ? (count + results.size()) * static_cast<size_t>(kElementBlock * loop.width) : 0);
  const auto block = [&](size_t k) { return scratch.data() + static_cast<int64_t>(k) * kElementBlock * loop.width; };
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(end - at, runs.length - (runs.gathered ? 0 : at % runs.length));
    if (in_blocks) n = std::min(n, kElementBlock);
    for (size_t k = 0; k < count; ++k) {
      if (runs.repeated >> k & 1 || !in_blocks) {
        inputs[k] = address_of(loop, k, at);
        if (runs.stored || loop.operands[k].dtype == loop.type) continue;
        convert(inputs[k], loop.operands[k].dtype, block(k), loop.type, 1);
        inputs[k] = block(k);
      } else if (runs.stored) {
        inputs[k] = address_of(loop, k, at);
      } else {
        inputs[k] = load(loop, k, at, n, !runs.gathered, block(k));
      }
    }
    for (size_t r = 0; r < results.size(); ++r)
      outputs[r] = results[r].dtype == runs.output_dtype(loop, r) ? place_of(results[r], at - begin) : block(count + r);
    kernel(inputs.data(), outputs.data(), n);
    for (size_t r = 0; r < results.size(); ++r)
      if (results[r].dtype != runs.output_dtype(loop, r))
        convert(outputs[r], loop.type, place_of(results[r], at - begin), results[r].dtype, n);
    at += n;
  }
}

// Whether one loop shall compute a result and reduce it; else it is written to a block first. Nothing is gathered for that loop or
// converted after it, and it begins anew in each row: too often in short ones, unless a block of them would be computed row by row, too;
// and with too many single elements behind the last vector where functions are long.
constexpr int64_t kLeastCombined = 128;
bool can_combine(const Loop& loop, const Runs& runs, int64_t side_by_side) {
  const Program& p = loop.program;
  if (runs.gathered || runs.converted || side_by_side == 0) return false;
  if (side_by_side < kLeastCombined && runs.length > side_by_side) return false;
  if (loop.type != DType::float32 && loop.type != DType::float64) return false;
  for (int i = 0; i < p.size(); ++i)
    if (is_long(p[i].fn)) return false;
  for (int r = 1; r < p.num_results(); ++r)
    if (dtype_of_value(p, p.result(r)) != loop.type) return false;
  return true;
}

void run_combining(const Loop& loop, const Runs& runs, CombiningKernel kernel, std::span<const int64_t> rows, int64_t n, double* acc,
                   std::span<const Result> others) {
  constexpr size_t kRowsAtOnce = 32;
  std::array<const void*, kRowsAtOnce * kMostLoopInputs> inputs;
  std::array<void*, kRowsAtOnce * Program::kMaxResults> outputs;
  for (size_t first = 0; first < rows.size(); first += kRowsAtOnce) {
    const auto here = rows.subspan(first, std::min(kRowsAtOnce, rows.size() - first));
    // Runs begin at the same places in all rows, or hold whole rows.
    for (int64_t i = 0; i < n;) {
      const int64_t count = std::min(n - i, runs.length - (here[0] + i) % runs.length);
      for (size_t r = 0; r < here.size(); ++r) {
        for (size_t k = 0; k < loop.operands.size(); ++k) inputs[r * kMostLoopInputs + k] = address_of(loop, k, here[r] + i);
        for (size_t o = 0; o < others.size(); ++o) outputs[r * others.size() + o] = place_of(others[o], here[r] + i);
      }
      kernel(inputs.data(), outputs.data(), acc + i, static_cast<int64_t>(here.size()), count);
      i += count;
    }
  }
}

}  // namespace

struct ElementwiseRange::Parts {
  Loop loop;
  std::optional<Runs> runs;
  LoopKernel kernel;
  Registers registers;  // where there is no kernel
  CombiningKernel combining = nullptr;
};

ElementwiseRange::ElementwiseRange(const Program& program, std::span<const Operand> operands, const Shape& shape, CompiledLoops* loops,
                                   std::span<const DType> stored, std::optional<ReducedTogether> reduced) {
  const int64_t elements = shape.elements();
  Parts parts{make_loop(program, operands, shape), std::nullopt, nullptr, {}};
  if (loops) parts.runs = find_runs(parts.loop, elements, stored);
  bool is_awaited = false;
  if (parts.runs && reduced && can_combine(parts.loop, *parts.runs, reduced->side_by_side)) {
    const CompiledCode& code = loops->find_combining(reduced->how, parts.runs->repeated, parts.runs->stored, elements);
    parts.combining = reinterpret_cast<CombiningKernel>(code.get());
    is_awaited = !code.has_failed();
  }
  if (parts.runs && !is_awaited) parts.kernel = loops->find(parts.runs->repeated, parts.runs->stored, elements);
  if (!parts.kernel) parts.registers = allocate_registers(program);
  parts_ = std::make_unique<const Parts>(std::move(parts));
}
ElementwiseRange::ElementwiseRange(Parts parts) : parts_(std::make_unique<const Parts>(std::move(parts))) {}
ElementwiseRange::~ElementwiseRange() = default;
ElementwiseRange::ElementwiseRange(ElementwiseRange&&) noexcept = default;

ElementwiseRange ElementwiseRange::rebound(std::span<const Operand> operands) const {
  Parts parts = *parts_;
  parts.loop.operands = operands;
  return ElementwiseRange(std::move(parts));
}

void ElementwiseRange::run(int64_t begin, int64_t end, std::span<const Result> results) const {
  if (parts_->kernel)
    run_compiled(parts_->loop, *parts_->runs, parts_->kernel, begin, end, results);
  else
    run_range(parts_->loop, parts_->registers, begin, end, results);
}

bool ElementwiseRange::combines() const { return parts_->combining != nullptr; }
void ElementwiseRange::combine(std::span<const int64_t> rows, int64_t n, double* acc, std::span<const Result> others) const {
  run_combining(parts_->loop, *parts_->runs, parts_->combining, rows, n, acc, others);
}

void run_elementwise(const Program& program, std::span<const Operand> operands, std::span<const Result> results, const Shape& shape,
                     CompiledLoops* loops) {
  const int64_t n = shape.elements();
  if (n == 0 || (results.size() == 1 && run_direct(program, operands, results[0], shape))) return;
  const EagerLoop eager(program, operands, loops ? 0 : n);
  std::array<DType, Program::kMaxResults> dtypes;
  std::ranges::transform(results, dtypes.begin(), &Result::dtype);
  const std::span<const DType> stored(dtypes.data(), results.size());
  const ElementwiseRange range = eager.loops() ? ElementwiseRange(eager.loops()->program(), eager.operands(), shape, eager.loops(), stored)
                                               : ElementwiseRange(program, operands, shape, loops, stored);
  parallel_for(n, kParallelGrain / 4, [&](int64_t begin, int64_t end) {
    std::array<Result, Program::kMaxResults> here;
    for (size_t r = 0; r < results.size(); ++r) here[r] = {place_of(results[r], begin), results[r].dtype};
    range.run(begin, end, {here.data(), results.size()});
  });
}

}  // namespace gluino::kernels
