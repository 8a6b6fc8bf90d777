// A scalar program as an LLVM function: loads, one call per instruction, a store, in a loop for the vectoriser.
#pragma once
#include <llvm/IR/Module.h>

#include "program/loop_compiler.h"

namespace gluino::jit {

// Adds the function to a module that defines the scalar functions. False: one that the program calls is missing.
bool add_loop(llvm::Module& module, const kernels::LoopRequest& request);
bool add_combining_loop(llvm::Module& module, const kernels::CombiningRequest& request);

}  // namespace gluino::jit
