// What the current thread is doing, and the two interceptors that apply() may call.
#pragma once
#include <optional>

#include "gluino/op.h"

namespace gluino {

// What the mode of a recorded call has of its own, where it is not that of the program around it.
struct CallMode {
  bool is_paused = false;        // made under autograd::pause(): nothing flows back through it
  std::optional<bool> training;  // made under train_mode() or predict_mode()
  bool operator==(const CallMode&) const = default;
};

// Autograd installs one: sees every concrete call made while recording.
class TapeHook {
 public:
  virtual ~TapeHook() = default;
  virtual void record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs, std::span<Tensor> outputs) = 0;
  virtual bool needs_record(std::span<const Tensor> inputs) const = 0;
};

// The graph layer installs one: turns calls on symbolic tensors, and all calls while tracing, into nodes.
class TraceHook {
 public:
  virtual ~TraceHook() = default;
  // A tensor is about to take another value, because traced code updates it in place: a concrete one a symbolic value, or a symbolic one.
  virtual void on_rebind(const Tensor& target, const Tensor& value) = 0;
  virtual Tensors record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) = 0;
  virtual bool is_paused() const = 0;  // traced code has paused what its caller records

  // ---- backward() and grad() in traced code
  // Gradients of symbolic heads, as further calls; null where nothing flows. Raises UserError for a variable that is not on the tape.
  virtual Tensors gradients(const Tensors& heads, const Tensors& head_grads, const Tensors& variables, bool retain) = 0;
  virtual Tensors tensors_with_gradients() = 0;  // all that the trace has met and that are leaves of the tape
  virtual void on_attach_grad(const Tensor& symbolic) = 0;
  virtual void after_each_run(std::function<void()> action) = 0;  // what every run of the program must do again
};

// In-place updates of tensors that are rebound instead of overwritten (symbolic, or on the tape).
void replace_value(Tensor& target, const Tensor& value);

struct Mode {
  bool recording = false;
  bool training = false;
  bool tracing = false;    // calls are recorded, not run, whatever their inputs
  bool comparing = false;  // hybridize(verify) makes the eager call: what is hybridized inside runs as it is
};
Mode& mode();  // of this thread

void install_tape_hook(TapeHook* hook);
bool is_recorded(const Tensor& t);  // something flows back from it: what backward has released is a value like any other
void install_trace_hook(TraceHook* hook);
TraceHook& trace_hook();
// A view of a concrete tensor's memory joins the tape as what the operator would have given.
void record_view(const OpDef& op, const Attrs& attrs, const Tensor& source, Tensor& view);

}  // namespace gluino
