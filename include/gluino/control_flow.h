// Loops and branches as operators: foreach, while_loop, cond. On concrete tensors they are ordinary loops over eager
// operators, which autograd records. In a traced program or on symbols each becomes one node whose bodies are graphs of
// their own, so that the program stays one graph whatever the values are, and can be exported.
#pragma once
#include <functional>
#include <utility>

#include "gluino/tensor.h"

namespace gluino {

using TensorsPair = std::pair<Tensors, Tensors>;

// Calls body(slices, states) -> (outputs, new states) for every position of the first axis of `data`.
// Returns the outputs of all steps, stacked along a new first axis, and the final states, whose shapes and dtypes stay
// the same. Tensors that the body reads from outside get gradients like any other.
using ForeachBody = std::function<TensorsPair(const Tensors& slices, const Tensors& states)>;
TensorsPair foreach (const ForeachBody& body, const Tensors& data, const Tensors& init_states);

// Calls func(loop_vars) -> (outputs, new loop_vars) while cond(loop_vars) is not 0, at most max_iterations times.
// Returns the stacked outputs and the final loop_vars. Eagerly the outputs have one row per step that was made; in a
// graph they have max_iterations rows, of which those after the last step are 0.
using LoopCondition = std::function<Tensor(const Tensors& loop_vars)>;
using LoopBody = std::function<TensorsPair(const Tensors& loop_vars)>;
TensorsPair while_loop(const LoopCondition& cond, const LoopBody& func, const Tensors& loop_vars, int64_t max_iterations);

// then_func(inputs) if pred(inputs) is not 0, else else_func(inputs). Both give the same number of tensors, in a graph
// also of the same shapes and dtypes.
using Branch = std::function<Tensors(const Tensors& inputs)>;
Tensors cond(const LoopCondition& pred, const Branch& then_func, const Branch& else_func, const Tensors& inputs);
Tensors cond(const Tensor& pred, const std::function<Tensors()>& then_func, const std::function<Tensors()>& else_func);

}  // namespace gluino
