// Random calls of an operator: its samples with damages, and calls out of thin air.
#pragma once
#include <random>

#include "gluino/op.h"

namespace gluino::fuzz {

using Random = std::mt19937_64;

struct RandomInput {
  Shape shape;
  DType dtype = DType::float32;
  std::vector<double> values;
};

struct RandomCall {
  const OpDef* op;
  StringMap attrs;
  std::vector<RandomInput> inputs;
  bool training = false;
  std::string str() const;
  Tensors make_inputs() const;
};

// The same call for the same number.
RandomCall random_call(const OpDef& op, int64_t number);

Random random_of(std::string_view subject, int64_t number);
std::string random_attr(const AttrField& field, const std::string& usual, Random& random);
RandomInput random_input(Random& random);

}  // namespace gluino::fuzz
