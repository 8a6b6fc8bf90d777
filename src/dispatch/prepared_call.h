// A call that is made many times with inputs of the same dtypes: what they decide is decided once.
#pragma once
#include "gluino/op.h"

namespace gluino {

struct PreparedCall {
  const OpDef* op;
  const Attrs* attrs;                 // must outlive it
  DType promoted;                     // what arithmetic is done in
  bool is_converted;                  // the kernel is not written for these dtypes
  std::optional<bool> training = {};  // where it is not the mode of the thread
};
// Raises DTypeError when a dtype does not fit the operator.
PreparedCall prepare_call(const OpDef& op, const Attrs& attrs, std::span<const DType> inputs);
// As apply_into.
void run_prepared(const PreparedCall& call, std::span<const Tensor> inputs, std::span<Tensor> outputs);

}  // namespace gluino
