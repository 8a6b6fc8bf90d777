// Autograd: records operators while a scope says so, and computes gradients by walking the record backwards.
#pragma once
#include <memory>
#include <optional>

#include "gluino/tensor.h"

namespace gluino {
class Symbol;
}

namespace gluino::autograd {

bool is_recording();
bool is_training();

// Changes the mode of this thread while it lives.
class [[nodiscard]] Scope {
 public:
  Scope(std::optional<bool> recording, std::optional<bool> training);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  bool previous_recording_, previous_training_;
};
// auto scope = autograd::record();
inline Scope record(bool train_mode = true) { return Scope(true, train_mode); }
inline Scope pause(bool train_mode = false) { return Scope(false, train_mode); }
inline Scope train_mode() { return Scope(std::nullopt, true); }
inline Scope predict_mode() { return Scope(std::nullopt, false); }

struct BackwardOptions {
  bool retain_graph = false;  // keep what was recorded, for another backward
  bool create_graph = false;  // record the backward pass itself, for higher orders; implies retain_graph
  bool train_mode = true;
};

// Writes the gradient of sum(heads[i] * head_grads[i]) into the .grad() of every leaf it depends on.
// A null or missing head gradient stands for ones.
void backward(const Tensors& heads, const Tensors& head_grads = {}, BackwardOptions options = {});

// The variable's gradient goes to memory of the caller's: as attach_grad(req), with `gradient` as its .grad().
void mark_variable(const Tensor& variable, const Tensor& gradient, GradReq req = GradReq::write);

// Whether backward() has written the tensor's .grad() since set_fresh_grad(tensor, false): Trainer updates nothing twice.
bool has_fresh_grad(const Tensor& tensor);
void set_fresh_grad(const Tensor& tensor, bool is_fresh);

// Returns the gradients with respect to `variables` instead, and writes into no .grad().
Tensors grad(const Tensors& heads, const Tensors& variables, const Tensors& head_grads = {}, BackwardOptions options = {});

// The recorded computation of a tensor as a graph; its variables are the tensors that it started from.
Symbol get_symbol(const Tensor& recorded);

// A function with a gradient of the user's own. Calls made inside forward are not recorded.
class Function {
 public:
  virtual ~Function() = default;
  virtual Tensors forward(const Tensors& inputs) = 0;
  virtual Tensors backward(const Tensors& heads) = 0;  // one gradient per input, null for none
  void save_for_backward(Tensors tensors) { saved_ = std::move(tensors); }
  const Tensors& saved() const { return saved_; }

 private:
  Tensors saved_;
};
// The object must live until backward has run, hence the shared pointer.
Tensors call(const std::shared_ptr<Function>& function, const Tensors& inputs);

}  // namespace gluino::autograd
