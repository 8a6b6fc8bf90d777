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

// Whether a concrete tensor may be rebound to other memory while views of it are in use: then they need a link to it.
inline bool may_be_rebound(const Tensor& t) { return mode().recording || pauses_under_way() > 0 || impl_of(t).autograd; }

// A view that is an operator of its base.
class OperatorLink : public ViewLink {
 public:
  using ViewLink::ViewLink;
  // Such a view is off the tape, its base may be on it, and what is written now would have to be both.
  bool is_made_under_pause() const { return is_made_under_pause_; }

 protected:
  const bool is_recorded_ = mode().tracing ? !trace_hook().is_paused() : mode().recording;

 private:
  const bool is_made_under_pause_ = mode().tracing ? trace_hook().is_paused() : !mode().recording && pauses_under_way() > 0;
};

}  // namespace gluino
