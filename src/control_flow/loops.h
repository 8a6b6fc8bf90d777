// Attributes of _foreach, _while_loop and _cond, spelled as MXNet's files spell them, and the loops on concrete tensors.
#pragma once
#include "control_flow/body.h"
#include "gluino/control_flow.h"

namespace gluino {

// Inputs of the operator: data, states, remaining ones. The *_locs say which input of the body each of them is.
struct ForeachAttrs {
  int64_t num_args = 0, num_outputs = 0, num_out_data = 0;
  OptionalInts in_state_locs, in_data_locs, remain_locs;
  Bodies bodies;            // one
  std::vector<int> wanted;  // of the gradient operator: the inputs whose gradients it gives
  static void fields(AttrFields<ForeachAttrs>& f);
};
// cond_input_locs and func_input_locs: which input of the operator each input of a body is. func_var_locs: which input of
// func each loop variable is; where func does not read variable i, it is input i of the operator.
struct WhileLoopAttrs {
  int64_t num_args = 0, num_outputs = 0, num_out_data = 0, max_iterations = 0;
  OptionalInts cond_input_locs, func_input_locs, func_var_locs;
  Bodies bodies;  // cond, func
  std::vector<int> wanted;
  static void fields(AttrFields<WhileLoopAttrs>& f);
};
struct CondAttrs {
  int64_t num_args = 0, num_outputs = 0;
  OptionalInts cond_input_locs, then_input_locs, else_input_locs;
  Bodies bodies;  // cond, then, else
  std::vector<int> wanted;
  static void fields(AttrFields<CondAttrs>& f);
};

// The loops as user code sees them on concrete tensors.
TensorsPair run_foreach(const ForeachBody& body, const Tensors& data, const Tensors& init_states);
TensorsPair run_while_loop(const LoopCondition& cond, const LoopBody& func, const Tensors& loop_vars, int64_t max_iterations);

}  // namespace gluino
