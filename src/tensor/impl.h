// TensorImpl: what a Tensor handle points to. Concrete tensors have storage; symbolic ones have a SymbolicValue.
#pragma once
#include <atomic>
#include <functional>

#include "gluino/tensor.h"
#include "tensor/storage.h"

namespace gluino {

namespace detail {
class TensorImpl;
}

// A value of a graph under construction; src/graph derives from it.
class SymbolicValue : public RefCounted {
 public:
  bool has_shape = false, has_dtype = false;
  virtual std::string describe() const = 0;
  virtual void on_shape_read(int axis) = 0;  // user code looked at an extent; axis -1: the whole shape
  virtual Tensor read_value() = 0;           // user code needs the number itself
};

// A tensor's place on the tape; src/autograd derives from it.
class AutogradEntry : public RefCounted {
 public:
  virtual bool has_own_gradient() const = 0;  // attach_grad() was called
};

// What outlives a tensor and tells whether it is still there, for those who must not keep it. When it goes before views that have not seen
// its last value, or that share its memory with each other, another tensor with that value takes its place.
class TensorAnchor : public RefCounted {
 public:
  explicit TensorAnchor(detail::TensorImpl& t);
  ~TensorAnchor() override;
  Tensor lock() const;                    // null when it is gone
  void let_go(detail::TensorImpl& from);  // by the tensor's destructor
  std::atomic<uint64_t> version;
  std::atomic<bool> is_followed = false;  // by views that join the tape with it

 private:
  detail::TensorImpl* tensor_;
  const uint64_t first_version_;
  Tensor heir_;
};

// How a view stays in step with its base where they do not share memory for good, because the base is symbolic or may be rebound while
// operators are recorded: an in-place update of either side reaches the other.
class ViewLink : public RefCounted {
 public:
  // A view on the tape keeps its base, as the tape does. One off the tape must not: with the base it would keep all that was recorded.
  enum class Holds { base, anchor };
  ViewLink(const Tensor& base, Holds holds);
  Tensor base() const;                          // null when nobody else had it and it is gone
  const detail::TensorImpl* kept_base() const;  // null where the view does not keep it
  bool is_current() const;                      // the base has not been rebound since the view was computed
  void set_current();
  void set_outdated() { seen_ = kNeverSeen; }
  virtual Tensor project(const Tensor& base) const = 0;                     // the view's value
  virtual Tensor embed(const Tensor& base, const Tensor& value) const = 0;  // the base's value after the view took `value`
  // Makes the same view of another base, without this link; empty where it needs more than the base.
  virtual std::function<Tensor(const Tensor& base)> replay() const = 0;
  virtual bool depends_on_shape() const { return false; }  // such a view is right for bases of the same shape only

 protected:
  void note_that_it_follows() const {  // the base onto the tape
    if (anchor_) anchor_->is_followed = true;
  }

 private:
  static constexpr uint64_t kNeverSeen = ~uint64_t{0};
  Tensor kept_;
  Ref<TensorAnchor> anchor_;
  uint64_t seen_;  // the base's version when the view was last computed
};

// What a trace must know of the tensors that its thread handles. Set while user code is being traced.
class TraceWatch {
 public:
  virtual ~TraceWatch() = default;
  virtual void on_value_read(const Tensor& concrete) = 0;    // user code looks at its value
  virtual void on_memory_write(const Tensor& concrete) = 0;  // user code asks for its memory, to write
  virtual void on_symbolic_refresh(const Tensor& view) = 0;  // a view from outside is about to follow a base that traced code updated
  virtual void on_symbolic_rebind(const detail::TensorImpl& t, const SymbolicValue& value) = 0;  // t takes another value of the trace
};
inline thread_local TraceWatch* trace_watch = nullptr;
inline thread_local int traces_under_way = 0;      // on this thread, also where one is paused
inline thread_local uint64_t outermost_trace = 0;  // the number of the first of them; 0: there is none

// Tensors that are made meanwhile are not the traced function's.
class [[nodiscard]] MakesForOthers {
 public:
  MakesForOthers();
  ~MakesForOthers();
  MakesForOthers(const MakesForOthers&) = delete;
  MakesForOthers& operator=(const MakesForOthers&) = delete;

 private:
  uint64_t trace_;
};

namespace detail {

class TensorImpl final : public RefCounted {
 public:
  TensorImpl(const Shape& s, DType t, Device d) : shape(s), dtype(t), device(d), trace_it_was_made_in(outermost_trace) {}
  Ref<Storage> storage;  // null for symbolic and shape-only tensors
  char* data = nullptr;  // the first element
  Shape shape;
  DType dtype;
  Device device;
  Ref<AutogradEntry> autograd;
  Ref<SymbolicValue> symbolic;
  Ref<ViewLink> view;
  Ref<TensorAnchor> anchor;                          // of those who watch it
  std::atomic<uint64_t>* version_of_heir = nullptr;  // where those look who watched the tensor whose place this one took
  uint64_t version = 0;                              // how often the tensor took another value by rebinding
  uint64_t trace_it_was_made_in;                     // by the code that was traced; 0: in none
  // By the code that is being traced now: nobody else has it.
  bool is_made_in_trace() const { return trace_it_was_made_in != 0 && trace_it_was_made_in == outermost_trace; }
  // A program reads it. Since then variables that were this tensor have been made another so many times, while nothing was traced: one of
  // them may be what the program's function reads.
  std::atomic<bool> is_captured{false};
  std::atomic<uint32_t> times_overwritten{0};

  ~TensorImpl() override {
    if (anchor) anchor->let_go(*this);
  }
  void next_version() {
    ++version;
    if (anchor) anchor->version = version;
    if (version_of_heir) *version_of_heir = version;
  }
};

}  // namespace detail

Tensor make_tensor(const Shape& shape, DType dtype, Device device);                // uninitialised
Tensor make_view(const Tensor& base, const Shape& shape, int64_t element_offset);  // shares the storage, not the tape
Tensor make_shape_only(const Shape& shape, DType dtype, Device device);
inline detail::TensorImpl& impl_of(const Tensor& t) { return *t.impl(); }
void rebind(detail::TensorImpl& t, const detail::TensorImpl& n);  // t takes the value of n
void refresh_view(const Tensor& view);                            // takes the base's current value if it has changed
// Memory of a concrete tensor; raises for null, symbolic and shape-only ones.
char* bytes_of(const Tensor& t);

}  // namespace gluino
