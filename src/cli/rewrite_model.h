// A model made into another that gives the same answers.
#pragma once
#include "cli/model.h"

namespace gluino::cli {

struct RewrittenModel {
  Symbol symbol;
  NamedTensors parameters;  // by the names of variables, with or without arg: and aux:
  std::vector<std::string> inputs;
};

// Batch norms disappear into the layers before them, whose weights become other numbers. Returns how many did.
int fold_batch_norms(RewrittenModel& model, const ShapeMap& shapes, const DTypeMap& types);

// Floating-point weights are of this type, and what is computed with them; inputs and outputs are cast, so callers see no change.
// Statistics and scales of normalisations stay as they are.
void cast_model(RewrittenModel& model, DType dtype);

}  // namespace gluino::cli
