// Graph files that name any operators with any attributes and inputs, and tensors for their variables.
#pragma once
#include "fuzz/random_calls.h"
#include "gluino/symbol.h"

namespace gluino::fuzz {

struct RandomGraph {
  std::string json;
  std::map<std::string, RandomInput> variables;  // those that were meant; damage may have made others
};

// The same graph for the same number.
RandomGraph random_graph(int64_t number);

}  // namespace gluino::fuzz
