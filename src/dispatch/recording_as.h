#pragma once
#include "dispatch/mode.h"
#include "tensor/impl.h"

namespace gluino {

// A view follows its base as it did when it was made: on the tape or off it, whatever holds where the base's new value is first seen.
class RecordingAs {
 public:
  explicit RecordingAs(bool recording) : before_(mode().recording) { mode().recording = recording; }
  ~RecordingAs() { mode().recording = before_; }
  RecordingAs(const RecordingAs&) = delete;
  RecordingAs& operator=(const RecordingAs&) = delete;

 private:
  bool before_;
};

// How often pause() is in force inside a record() of this thread.
int& pauses_under_way();

// What the innermost scope that traced code is in asks for, also where it asks for what holds already: elsewhere, in a file's graph, it may
// not.
struct AskedModes {
  bool training = false;  // or prediction
  bool pause = false;
};
AskedModes& asked_modes();  // of this thread

// A concrete tensor may be rebound to other memory while views of it are in use, so they need a link to it. Only a view of a view of a
// view and so on has none: a loop that makes one of its last one must not keep them all.
inline bool may_be_linked(const Tensor& base) {
  constexpr int most = 32;
  int depth = 0;
  for (const detail::TensorImpl* t = &impl_of(base); t && t->view; t = t->view->kept_base())
    if (++depth == most) return mode().recording && impl_of(base).autograd;
  return true;
}

// A view off the tape of something on it is made of another handle of the same memory, so that it keeps nothing that was recorded.
// Null where that cannot be had: then only the memory is shared.
inline Tensor base_off_tape(const Tensor& base) {
  if (!impl_of(base).view || !impl_of(base).autograd) return base;
  return impl_of(base).view->replay() ? base.detach() : Tensor();
}
// What is on the tape, or a value of a trace, keeps its base. So does a view of a view, which has a link of its own.
inline ViewLink::Holds holds_of(const Tensor& base, bool is_recorded) {
  return is_recorded || mode().tracing || base.is_symbolic() || impl_of(base).view ? ViewLink::Holds::base : ViewLink::Holds::anchor;
}

// A view that is an operator of its base. It is where its base is, on the tape or off it, also when that joins the tape later; only one
// made under pause() stays off.
class OperatorLink : public ViewLink {
 public:
  OperatorLink(const Tensor& base, Holds holds) : ViewLink(base, holds) {
    if (!is_made_under_pause_) note_that_it_follows();
  }
  // Such a view is off the tape, its base may be on it, and what is written now would have to be both.
  bool is_made_under_pause() const { return is_made_under_pause_; }

 protected:
  bool follows_onto_tape() const { return !is_made_under_pause_; }

 private:
  const bool is_made_under_pause_ = mode().tracing ? trace_hook().is_paused() : !mode().recording && pauses_under_way() > 0;
};

}  // namespace gluino
