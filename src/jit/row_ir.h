// A row program as an LLVM function: for every row a few sweeps of loads, calls and stores, with the lanes of the reductions in registers.
#pragma once
#include <llvm/IR/Module.h>

#include "program/loop_compiler.h"

namespace gluino::jit {

// Adds the function to a module that defines the scalar functions. False: one that the program calls is missing.
bool add_rows(llvm::Module& module, const kernels::RowsRequest& request);

}  // namespace gluino::jit
