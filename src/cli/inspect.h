// Looking at operators and files without writing a program.
#pragma once
#include <string>
#include <vector>

#include "gluino/op.h"

namespace gluino::cli {

// The documentation of an operator under one of its names.
std::string operator_page(const OpDef& op, std::string_view name);

// Commands; they print and return the exit code.
int show_operators(const std::string& name);                                      // all of them for an empty name
int show_graph(const std::string& path, const std::vector<std::string>& shapes);  // shapes as "data=1,3,224,224"
int show_params(const std::string& path);
int show_info();

}  // namespace gluino::cli
