// What is known of an operator, as text.
#pragma once
#include "gluino/op.h"

namespace gluino::cli {

std::string operator_page(const OpDef& op, std::string_view name);  // the documentation under one of its names

}  // namespace gluino::cli
