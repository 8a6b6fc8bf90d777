#include "kernels/elementwise/direct.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/elementwise/access.h"
#include "kernels/elementwise/fill_blocks.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {
namespace {

constexpr size_t kMostArguments = 3;

// The call, and what it reads: the operand, or a number.
struct Call {
  ScalarFn fn;
  ComputeType type;
  DType dtype;  // of operands and result: the computed one, or a 16-bit float
  size_t count = 0;
  std::array<int, kMostArguments> operand;     // -1: a number
  std::array<int64_t, kMostArguments> number;  // of the computed type
  bool is_narrow() const { return dtype != storage_of(type); }
};
std::optional<Call> only_call_of(const Program& p, std::span<const Operand> operands, const Result& result) {
  // Rounding to what the result is stored in is done in any case.
  const ScalarFn rounding = result.dtype == DType::float16 ? ScalarFn::to_float16 : ScalarFn::to_bfloat16;
  const bool is_rounded = is_narrow_float(result.dtype) && p.size() > 1 && p[p.size() - 1].fn == rounding;
  const Instruction& last = p[is_rounded ? p[p.size() - 1].args[0] : p.size() - 1];
  const DType type = storage_of(p.type());
  Call call{last.fn, p.type(), result.dtype, static_cast<size_t>(arity(last.fn)), {}, {}};
  const bool has_dtype = result.dtype == type || (type == DType::float32 && is_narrow_float(result.dtype));
  if (call.count == 0 || p.num_results() != 1 || p.result(0) != p.size() - 1 || !has_dtype) return {};
  for (size_t k = 0; k < call.count; ++k) {
    const Instruction& leaf = p[last.args[k]];
    if (arity(leaf.fn) > 0) return {};
    call.operand[k] = leaf.fn == ScalarFn::input ? leaf.args[0] : -1;
    if (leaf.fn == ScalarFn::constant) fill_constant(leaf.value, type, &call.number[k], 1);
    if (leaf.fn == ScalarFn::input && (operands[leaf.args[0]].dtype != call.dtype || operands[leaf.args[0]].first != 0)) return {};
  }
  return call;
}

// Where the arguments of a row begin; each has neighbouring elements there, or one for all of them.
struct Row {
  std::array<const char*, kMostArguments> data{};
  std::array<bool, kMostArguments> is_one{};
};
Row first_row(const Call& call, std::span<const Operand> operands) {
  Row row;
  for (size_t k = 0; k < call.count; ++k) {
    const bool is_number = call.operand[k] < 0;
    row.data[k] = is_number ? reinterpret_cast<const char*>(&call.number[k]) : static_cast<const char*>(operands[call.operand[k]].data);
    row.is_one[k] = is_number;
  }
  return row;
}

// Null: there is none.
ScalarKernel kernel_for(const Call& call, const Row& row) {
  const auto f = static_cast<size_t>(call.fn), t = static_cast<size_t>(call.type);
  const auto ones = std::count(row.is_one.begin(), row.is_one.end(), true);
  if (call.is_narrow()) {
    if (ones > 1 || (ones == 1 && call.count != 2)) return nullptr;
    return primitives().narrow[f][call.dtype == DType::float16 ? 0 : 1][ones == 0 ? 0 : row.is_one[0] ? 1 : 2];
  }
  if (ones == 0) return primitives().scalar[f][t];
  return ones == 1 && call.count == 2 ? primitives().with_one[row.is_one[0] ? 0 : 1][f][t] : nullptr;
}

// Kernels read one number in the computed type.
struct OneNumber {
  alignas(8) char bytes[8];
  const char* widened(const Call& call, const char* from) {
    convert(from, call.dtype, bytes, storage_of(call.type), 1);
    return bytes;
  }
};

// Every operand has all elements, or one.
bool run_whole(const Call& call, Row row, std::span<const Operand> operands, char* out, int64_t elements) {
  for (size_t k = 0; k < call.count; ++k)
    if (call.operand[k] >= 0) row.is_one[k] = elements > 1 && operands[call.operand[k]].shape->elements() == 1;
  const ScalarKernel kernel = kernel_for(call, row);
  if (!kernel) return false;
  const int64_t width = dtype_bytes(call.dtype);
  std::array<OneNumber, kMostArguments> one;
  for (size_t k = 0; k < call.count; ++k)
    if (call.is_narrow() && row.is_one[k] && call.operand[k] >= 0) row.data[k] = one[k].widened(call, row.data[k]);
  parallel_for(elements, kParallelGrain, [&](int64_t begin, int64_t end) {
    std::array<const char*, kMostArguments> data = row.data;
    for (size_t k = 0; k < call.count; ++k)
      if (!row.is_one[k]) data[k] += begin * width;
    kernel(data[0], data[1], data[2], out + begin * width, end - begin);
  });
  return true;
}

// Some are broadcast: row by row, as far as elements lie side by side in all of them.
bool run_rows(const Call& call, Row first, const Loop& loop, char* out, int64_t elements) {
  const int64_t length = length_of_rows(loop), width = dtype_bytes(call.dtype);
  if (length == 0) return false;
  const int last = loop.axes - 1;
  std::array<const Access*, kMostArguments> access{};
  for (size_t k = 0; k < call.count; ++k) {
    if (call.operand[k] < 0) continue;
    access[k] = &loop.access[call.operand[k]];
    if (access[k]->strides[last] > 1) return false;
    first.is_one[k] = access[k]->strides[last] == 0;
  }
  const ScalarKernel kernel = kernel_for(call, first);
  if (!kernel) return false;
  parallel_for(elements / length, std::max<int64_t>(1, kParallelGrain / length), [&](int64_t begin, int64_t end) {
    std::array<const char*, kMostArguments> data = first.data;
    std::array<int64_t, Shape::kMaxAxes> position{};
    for (int64_t i = last - 1, rest = begin; i >= 0; rest /= loop.extents[i--]) position[i] = rest % loop.extents[i];
    const auto move = [&](int axis, int64_t steps) {
      for (size_t k = 0; k < call.count; ++k)
        if (access[k]) data[k] += steps * access[k]->strides[axis] * width;
    };
    for (int i = 0; i < last; ++i) move(i, position[i]);
    for (int64_t r = begin; r < end; ++r) {
      std::array<const char*, kMostArguments> here = data;
      std::array<OneNumber, kMostArguments> one;
      for (size_t k = 0; k < call.count; ++k)
        if (call.is_narrow() && first.is_one[k] && access[k]) here[k] = one[k].widened(call, data[k]);
      kernel(here[0], here[1], here[2], out + r * length * width, length);
      for (int i = last - 1; i >= 0; --i) {
        move(i, 1);
        if (++position[i] < loop.extents[i]) break;
        move(i, -position[i]);
        position[i] = 0;
      }
    }
  });
  return true;
}

}  // namespace

bool run_direct(const Program& program, std::span<const Operand> operands, const Result& result, const Shape& shape) {
  const auto call = only_call_of(program, operands, result);
  if (!call) return false;
  char* out = static_cast<char*>(result.data);
  const bool is_whole =
      std::ranges::all_of(operands, [&](const Operand& o) { return o.shape == &shape || *o.shape == shape || o.shape->elements() == 1; });
  const Row row = first_row(*call, operands);
  if (is_whole) return run_whole(*call, row, operands, out, shape.elements());
  return run_rows(*call, row, make_loop(program, operands, shape), out, shape.elements());
}

}  // namespace gluino::kernels
