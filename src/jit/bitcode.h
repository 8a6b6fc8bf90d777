// The scalar functions as LLVM bitcode, one file per instruction set, inside this library.
#pragma once
#include <string_view>

namespace gluino::jit {

std::string_view bitcode_for(std::string_view isa);

}  // namespace gluino::jit
