// What the library and its optional companion libgluino_jit say to each other: plain data, so that neither links the other.
#pragma once
#include "gluino/expr.h"

namespace gluino::kernels {

// outputs[r][i] = result r of program(inputs[0][i], inputs[1][i], ...) for i < n, all of the program's compute type. An output may be
// one of the inputs.
using LoopKernel = void (*)(const void* const* inputs, void* const* outputs, int64_t n);

struct LoopRequest {
  const Instruction* code;
  int size;
  const int* results;  // positions in the code
  int num_results;
  ComputeType type;
  uint32_t repeated;     // bit k: input k has one element, which is read for every i
  const char* isa;       // "baseline", "avx2", "avx512"
  const char* identity;  // text that tells this request from all others, for the cache on disk
  const char* folder;    // of that cache; null: none
};

// The one function of libgluino_jit. Null: it cannot be compiled. The number is raised when the request changes.
using CompileLoop = LoopKernel (*)(const LoopRequest&);
inline constexpr const char* kCompileLoopSymbol = "gluino_compile_loop_2";

}  // namespace gluino::kernels
