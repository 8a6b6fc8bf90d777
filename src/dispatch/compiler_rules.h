// What operators say about themselves to the compiler alone, beside their public definition: which of the passes' questions they have an
// answer to. Written behind it, in the same place: for_compiler(op).compiled_layer(f).fold_affine(g);
#pragma once
#include "gluino/op.h"
#include "program/reduction.h"
#include "program/row_function.h"

namespace gluino {

// A call whose one output holds the products of the matrices, the last two axes, of inputs 0 and 1.
struct MatrixProduct {
  bool transpose_a, transpose_b;
};

// y = x * scale + shift, with one scale and one shift per position of `axis`.
struct ChannelAffine {
  int axis;
  Tensor scale, shift;  // vectors
};
// A call that gives another call's output 0 after a ChannelAffine.
struct FoldedCall {
  Tensors inputs;
  Attrs attrs;
};

// What follows a layer and can be computed with it: another value is added, then negative numbers become zero and, where
// there is a limit, larger numbers become the limit.
struct LayerEpilogue {
  bool add = false, relu = false;
  std::optional<double> limit;  // only with relu
};
// How a compiled program runs a layer in predict mode. Activations may be in the blocked layout: (batch, channels / 8,
// spatial..., 8). Inputs of `op`: data, the packed weight, then the others as they are, then what is added.
struct CompiledLayer {
  std::string op;
  Attrs attrs;
  std::string pack;  // the operator that rearranges input 1, once for as long as it does not change; empty: none
  Attrs pack_attrs;
  bool takes_blocked = false, gives_blocked = false;
};

// One of several calls, each of which reads the result of the one before as its first input.
struct ChainedCall {
  const void* attrs;
  std::vector<Shape> in;
};
// The call that computes them all. Its inputs are theirs in order, without the results between them.
struct JoinedCall {
  std::string op;
  Attrs attrs;
};

// A call whose one output is input 0 with some axes reduced to one number each.
struct Reduction {
  kernels::ReduceOp how;
  kernels::ReduceFinish finish;
  Shape axes;
};
// A call that computes every row (of the last axis) by itself, in the common type of its inputs but at least float32. The function says
// what inputs and outputs are: a row or a number per row, one row for all, an index; outputs also sums over all rows.
struct RowCall {
  kernels::RowFunction function;
  double number;  // its parameter
};

// Each is empty for operators that are nothing of the kind.
struct CompilerRules {
  // Running it does more than to compute its outputs, and all that do so must run in their order: messages to other processes.
  bool has_effect = false;
  std::function<MatrixProduct(const void* attrs)> matrix_product;
  // Output 0 is input 0 with its axes in this order.
  std::function<Shape(const void* attrs, const Shape& in)> permutation;
  // The outputs are the results of this program over the inputs, which broadcast.
  std::function<const Program&(const void* attrs)> program;
  // When predicting, output 0 is this function of input 0, computed from the other inputs.
  std::function<ChannelAffine(const void* attrs, const Tensors& inputs)> channel_affine;
  // The call whose output 0 is this one's after the affine function; null inputs when its axis does not fit.
  std::function<FoldedCall(const void* attrs, const Tensors& inputs, const ChannelAffine& affine)> fold_affine;
  // The compiled form of a call on float32 data of these shapes, where there is one. `blocked`: data may be given blocked.
  std::function<std::optional<CompiledLayer>(const void* attrs, std::span<const Shape> in, LayerEpilogue epilogue, bool blocked)>
      compiled_layer;
  // Whether the same call, with its inputs of four axes in blocks of channels and the others as they are, gives its result in blocks.
  std::function<bool(const void* attrs, std::span<const Shape> in)> works_on_blocks;
  // One call instead of a chain of calls of this operator, where that is faster.
  std::function<std::optional<JoinedCall>(std::span<const ChainedCall> calls)> join;
  // What a call on inputs of these shapes reduces.
  std::function<Reduction(const void* attrs, std::span<const Shape> in)> reduction;
  // How a call on inputs of these shapes works on single rows.
  std::function<std::optional<RowCall>(const void* attrs, std::span<const Shape> in)> row_call;
};

// Null, a variable of a graph, has no rules either.
const CompilerRules& rules_of(const OpDef* op);

// The builder: each function takes the typed attributes and then what the rule is given.
template <class A>
class RulesBuilder {
 public:
  explicit RulesBuilder(OpBuilder<A>& op) { op.compiler_rules(rules_); }

  RulesBuilder& effect() { return rules_->has_effect = true, *this; }
  template <class F>
  RulesBuilder& matrix_product(F f) {
    return set(&CompilerRules::matrix_product, f);
  }
  template <class F>
  RulesBuilder& permutation(F f) {
    return set(&CompilerRules::permutation, f);
  }
  template <class F>
  RulesBuilder& program(F f) {
    return set(&CompilerRules::program, f);
  }
  template <class F>
  RulesBuilder& channel_affine(F f) {
    return set(&CompilerRules::channel_affine, f);
  }
  template <class F>
  RulesBuilder& fold_affine(F f) {
    return set(&CompilerRules::fold_affine, f);
  }
  template <class F>
  RulesBuilder& compiled_layer(F f) {
    return set(&CompilerRules::compiled_layer, f);
  }
  template <class F>
  RulesBuilder& works_on_blocks(F f) {
    return set(&CompilerRules::works_on_blocks, f);
  }
  // f(calls): each has attributes of its own.
  template <class F>
  RulesBuilder& join(F f) {
    return rules_->join = f, *this;
  }
  template <class F>
  RulesBuilder& reduction(F f) {
    return set(&CompilerRules::reduction, f);
  }
  template <class F>
  RulesBuilder& row_call(F f) {
    return set(&CompilerRules::row_call, f);
  }

 private:
  template <class R, class... Given, class F>
  RulesBuilder& set(std::function<R(const void*, Given...)> CompilerRules::*rule, F f) {
    detail::keep((*rules_).*rule, std::move(f),
                 [](const F& f, const void* a, Given... given) -> R { return f(OpBuilder<A>::as(a), std::forward<Given>(given)...); });
    return *this;
  }

  std::shared_ptr<CompilerRules> rules_ = std::make_shared<CompilerRules>();
};
template <class A>
RulesBuilder<A> for_compiler(OpBuilder<A>& op) {
  return RulesBuilder<A>(op);
}

}  // namespace gluino
