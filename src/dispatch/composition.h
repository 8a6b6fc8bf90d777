// Operators that are functions of others: a call is those calls, so traces, plans and the tape hold them and not it. Only a symbol whose
// shape is not known yet holds the call itself. Shapes and gradients follow from the others; dtypes are declared.
#pragma once
#include "dispatch/compiler_rules.h"

namespace gluino {

using Composition = std::function<Tensors(const void* attrs, std::span<const Tensor> inputs)>;

// The rules of an operator that computes nothing itself: no others have such rules.
struct ComposedRules : CompilerRules {
  Composition run;
};
inline bool is_composed(const OpDef& op) { return !op.kernel && !op.expression && !op.is_view && op.compiler_rules; }
inline const Composition& composition_of(const OpDef& op) { return static_cast<const ComposedRules&>(*op.compiler_rules).run; }

// The shapes that a composed call on float32 inputs of these shapes gives; nothing is run. The graph layer, which can record calls,
// installs it.
using ComposedShapes = std::vector<Shape> (*)(const OpDef& op, const void* attrs, std::span<const Shape> inputs);
void install_composed_shapes(ComposedShapes f);
std::vector<Shape> composed_shapes(const OpDef& op, const void* attrs, std::span<const Shape> inputs);

// f(attrs, span<const Tensor>) -> Tensor or Tensors, written with calls of other operators.
template <class A, class F>
OpBuilder<A>& composed(OpBuilder<A>& op, F f) {
  auto rules = std::make_shared<ComposedRules>();
  detail::keep(rules->run, std::move(f), [](const F& f, const void* a, std::span<const Tensor> inputs) -> Tensors {
    if constexpr (std::is_convertible_v<decltype(f(OpBuilder<A>::as(a), inputs)), Tensor>)
      return {f(OpBuilder<A>::as(a), inputs)};
    else
      return f(OpBuilder<A>::as(a), inputs);
  });
  return op.compiler_rules(std::move(rules));
}

}  // namespace gluino
