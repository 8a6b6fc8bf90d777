// What the library and its optional companion libgluino_jit say to each other: plain data, so that neither links the other.
#pragma once
#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "gluino/dtype.h"
#include "gluino/expr.h"
#include "program/reduction.h"

namespace gluino::kernels {

// Machine code of earlier processes.
class CodeCache {
 public:
  virtual ~CodeCache() = default;
  virtual std::optional<std::string> find(std::string_view identity) const = 0;
  virtual void put(std::string_view identity, std::string_view object) const = 0;
};

// What code is compiled for, and where it is kept.
struct CompileTarget {
  const char* isa;        // "baseline", "avx2", "avx512"
  const char* identity;   // text that tells this request from all others
  const CodeCache* kept;  // null: nowhere
};

inline constexpr int kMostLoopInputs = 8;
// Functions that are long chains of instructions, each waiting for the one before.
inline bool is_long(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::exp:
    case ScalarFn::expm1:
    case ScalarFn::log:
    case ScalarFn::log1p:
    case ScalarFn::tanh:
    case ScalarFn::erf: return true;
    default: return false;
  }
}

// The dtypes of the arrays that a loop reads and writes. Elements of other types than the computed one are converted in registers.
struct StoredTypes {
  std::array<DType, kMostLoopInputs> inputs{};
  std::array<DType, Program::kMaxResults> outputs{};
  auto operator<=>(const StoredTypes&) const = default;
};
// Which ones a loop can convert; the computed type's own is another matter.
inline bool can_read_stored(ComputeType type) { return type == ComputeType::f32 || type == ComputeType::f64; }
inline bool can_write_stored(ComputeType type, DType dtype) {
  if (dtype == DType::boolean) return type == ComputeType::f32 || type == ComputeType::f64;
  return type == ComputeType::f32 && (dtype == DType::float16 || dtype == DType::bfloat16);
}

// outputs[r][i] = result r of program(inputs[0][i], inputs[1][i], ...) for i < n. An output may be one of the inputs.
using LoopKernel = void (*)(const void* const* inputs, void* const* outputs, int64_t n);

struct LoopRequest {
  const Instruction* code;
  int size;
  const int* results;  // positions in the code
  int num_results;
  ComputeType type;
  uint32_t repeated;          // bit k: input k has one element, which is read for every i
  const StoredTypes* stored;  // null: all are of the program's compute type
  CompileTarget target;
};

// The same for several rows of n elements, whose first result is reduced instead of stored: acc[i] = combine(acc[i], map(it)), in double,
// row after row. The other results are of the compute type. Row r reads inputs[r * kMostLoopInputs + k] and stores the other results, in
// their order, from outputs[r * (num_results - 1)] on.
using CombiningKernel = void (*)(const void* const* inputs, void* const* outputs, double* acc, int64_t rows, int64_t n);

struct CombiningRequest : LoopRequest {
  ReduceOp how;
};

// What is done to a row, as a list of values; each reads earlier ones. A value has one element per place of the row, or is one number.
// input: args[0] is its number. count: how many places a row has. wide_log: the logarithm, computed in double. reduce: as the operators'
// reductions, carried on in double after every `block` elements. sum, largest: as in EagerRows. pick: the element of args[0] at the place
// that the number of input args[1] names. is_place: 1 at the place that the number of input args[0] names, 0 elsewhere.
enum class RowOp : uint8_t { input, constant, count, call, wide_log, reduce, sum, largest, pick, is_place };
struct RowInstruction {
  RowOp op = RowOp::constant;
  ScalarFn fn = ScalarFn::input;  // of a call
  ReduceOp how = ReduceOp::sum;   // of a reduction, and the next two
  ReduceFinish finish = ReduceFinish::none;
  int16_t block = 0;
  int16_t args[3] = {0, 0, 0};
  double value = 0;     // of a constant
  bool is_row = false;  // one element per place
  // A row is gone through in sweeps: after each one the reductions in it are known. Rows: the sweep that computes the value first.
  // Numbers: the sweep before which it is computed. -1: none.
  int16_t sweep = -1;
  // Where a row is kept that later sweeps read: a row of the scratch memory, or an output of the computed type. -1 both: they compute it
  // again.
  int16_t slot = -1, output = -1;
};
struct RowInput {
  DType dtype;
  bool is_row;
  bool operator==(const RowInput&) const = default;
};
struct RowOutput {
  enum class Kind : uint8_t { row, number, sum } kind;  // sum: the row is added to what is there
  DType dtype;
  int16_t value;
  int16_t sweep;  // the one that writes it; of rows and sums
};

// For each of `rows` rows of `n` elements. The first row of input k begins at inputs[k], the next one steps[k] elements further. Rows and
// numbers of outputs follow one another. Output 0 may be the memory of an input that is a row of the same dtype. `scratch` has room for
// one row per slot.
using RowsKernel = void (*)(const void* const* inputs, const int64_t* steps, void* const* outputs, void* scratch, int64_t rows, int64_t n);

struct RowsRequest {
  ComputeType type;
  const RowInstruction* code;
  int size;
  const RowInput* inputs;
  int num_inputs;
  const RowOutput* outputs;
  int num_outputs;
  int sweeps;
  CompileTarget target;
};

// The functions of libgluino_jit. Null: it cannot be compiled. The number is raised when a request changes.
struct Compiler {
  LoopKernel (*loop)(const LoopRequest&);
  CombiningKernel (*combining)(const CombiningRequest&);
  RowsKernel (*rows)(const RowsRequest&);
};
using GetCompiler = const Compiler* (*)();
inline constexpr const char* kCompilerSymbol = "gluino_compiler_6";

}  // namespace gluino::kernels
