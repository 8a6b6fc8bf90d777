// The bodies of control-flow operators: recorded from user code, kept in the operator's attributes, run node by node.
#pragma once
#include <memory>
#include <optional>

#include "dispatch/dependent_outputs.h"
#include "graph/trace.h"

namespace gluino {

class Body {
 public:
  explicit Body(Symbol symbol);
  const Symbol& symbol() const { return symbol_; }
  int num_inputs() const { return static_cast<int>(variables_.size()); }
  int num_outputs() const { return symbol_.num_outputs(); }
  bool draws_random() const;
  bool is_state(int input) const { return is_state_[input]; }  // whether running it may update the input
  // Which inputs its outputs depend on, where nothing is paused. `inner`: what a run has left of the loops inside; empty: of any run.
  Dependence dependence(std::span<const Tensor> inner = {}) const;
  bool has_loops() const { return !loops_.empty(); }

  // Fills in what follows from what is known, in both directions.
  void infer_shapes(OptionalShapes& in, OptionalShapes& out) const;
  std::vector<Shape> infer_shapes(std::span<const Shape> in) const;  // raises ShapeError when something stays open
  std::vector<DType> infer_types(std::span<const DType> in) const;

  // Runs it many times on inputs of the same shapes.
  class Runner {
   public:
    Runner(const Body& body, const Tensors& like);
    Tensors operator()(const Tensors& inputs) const;
    // Beside the outputs, what the loops inside leave: the hidden outputs by which dependence() knows what they have run.
    Tensors operator()(const Tensors& inputs, Tensors& inner) const;

   private:
    const Body& body_;
    std::shared_ptr<const Graph> graph_;
  };

 private:
  Symbol symbol_;
  std::shared_ptr<const Graph> graph_;
  std::vector<int> variables_;  // node numbers of the inputs
  std::vector<bool> is_state_;
  std::vector<int> loops_;                // node numbers of the loops inside
  std::optional<Dependence> dependence_;  // where there are none
};

// What the attributes hold.
class Bodies {
 public:
  Bodies() = default;
  Bodies(const std::vector<Symbol>& symbols);
  operator std::vector<Symbol>() const;
  size_t size() const { return bodies_ ? bodies_->size() : 0; }
  const Body& operator[](size_t i) const { return (*bodies_)[i]; }

 private:
  std::shared_ptr<const std::vector<Body>> bodies_;
};

// Raised when a body being recorded asks for a number: it cannot be a graph then.
class BodyReadsValue final : public UserError {
 public:
  using UserError::UserError;
};

// A body recorded from user code.
struct RecordedBody {
  Symbol symbol;
  OptionalInts inputs;               // where each given input stands among the symbol's variables; None: the body does not read it
  Tensors free;                      // tensors from outside that it reads too
  std::vector<int64_t> free_places;  // where they stand
  Tensors outputs;                   // symbolic, for their shapes and dtypes
  std::vector<std::vector<Tracer::PossibleAlias>> passed_on;  // what each output may be of what is outside, of any run of the body
  OptionalInts given_outputs;                                 // per output: which of the given inputs it is
};
// An input that looks like `like`, or like one position of its first axis.
struct BodyInput {
  std::string name;
  Tensor like;
  bool is_slice = false;
  bool is_own = false;  // nobody else sees it when the body updates it; a slice is that, too
};
RecordedBody record_body(const std::string& what, const std::vector<BodyInput>& inputs,
                         const std::function<Tensors(const Tensors&)>& function);

}  // namespace gluino
