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

// The graph layer installs one: turns calls on symbolic tensors, and calls without inputs while tracing, into nodes.
class TraceHook {
 public:
  virtual ~TraceHook() = default;
  virtual Tensors record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) = 0;
};

struct Mode {
  bool recording = false;
  bool training = false;
  bool tracing = false;  // creation and random operators are recorded too
};
Mode& mode();  // of this thread

void install_tape_hook(TapeHook* hook);
void install_trace_hook(TraceHook* hook);

}  // namespace gluino
