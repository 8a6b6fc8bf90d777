// What the current thread is doing, and the two interceptors that apply() may call.
#pragma once
#include "gluino/op.h"

namespace gluino {

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
  // A concrete tensor is about to take a symbolic value, because traced code updates it in place.
  virtual void on_rebind(const Tensor& target) = 0;
  virtual Tensors record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) = 0;
};

// In-place updates of tensors that are rebound instead of overwritten (symbolic, or on the tape).
void replace_value(Tensor& target, const Tensor& value);
void refresh_view(const Tensor& view);  // takes the base's current value if it has changed

struct Mode {
  bool recording = false;
  bool training = false;
  bool tracing = false;  // calls are recorded, not run, whatever their inputs
};
Mode& mode();  // of this thread

void install_tape_hook(TapeHook* hook);
void install_trace_hook(TraceHook* hook);
TraceHook& trace_hook();

}  // namespace gluino
