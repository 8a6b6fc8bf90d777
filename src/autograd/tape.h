// The tape: one node per recorded call, linked from outputs to inputs.
#pragma once
#include <atomic>
#include <functional>

#include "dispatch/row_gradient.h"
#include "gluino/autograd.h"
#include "tensor/impl.h"

namespace gluino::autograd {

class TapeEntry;

struct TensorMeta {
  Shape shape;
  DType dtype;
  Device device;
};
TensorMeta meta_of(const Tensor& t);

// What a custom way back gets: gradients of the outputs, and what is expected of it.
struct BackwardCall {
  const Tensors& heads;
  const std::vector<bool>& wanted;  // false where the result would be thrown away
  const Tensors& destinations;      // memory that gradient i may be written to; null where there is none
  bool retain;                      // it may be asked again
  const std::vector<bool>& given;   // false where nothing flowed into an output: its head is zeros
  std::vector<bool>& reached;       // to be set to false for inputs that no given head depends on: they are as if they were not there
  std::vector<bool>& unvisited;     // to be set to true for outputs whose place on the tape this pass does not release
  std::vector<bool>& cut;           // and for those that cannot be differentiated any more all the same
  // Per input whether somebody waits for its gradient; empty: nobody does. Then `ready(i)` may be called as soon as destinations[i] holds
  // it, while others are still being computed.
  const std::vector<bool>& awaited;
  std::function<void(size_t)> ready;
  std::vector<std::vector<PickedRows>>& rows;  // to be set instead of a gradient where rows of an input are all that flows back
  // Outputs whose gradients are asked for, and those: of what others were computed from. Empty: none is.
  const std::vector<bool>& wanted_results;
  Tensors& of_results;
};
using BackwardFn = std::function<Tensors(const BackwardCall&)>;

// What was recorded as a whole, for who wants to see inside; src/exec derives from it.
class RecordedWhole {
 public:
  virtual ~RecordedWhole() = default;
  // Per input whether one of the given outputs was computed from it. `left`: what loops inside say of what they have run; empty: of any
  // run.
  virtual std::vector<bool> reached_from(const std::vector<bool>& given, std::span<const Tensor> left) const = 0;
  std::vector<TensorMeta> input_metas;  // the same at every call
};

class TapeNode final : public RefCounted {
 public:
  ~TapeNode() override;
  std::string name;
  const OpDef* op = nullptr;  // null: `custom` knows the way back
  Attrs attrs;
  BackwardFn custom;
  std::shared_ptr<const RecordedWhole> whole;  // beside `custom`, where there is something to see
  std::function<bool()> gives_own_gradient;    // whether `custom` gives one where zeros flow in; empty: it does not
  std::vector<Ref<TapeEntry>> inputs;          // null where no gradient is wanted
  std::span<const TensorMeta> input_metas;     // its own, or those of `whole`
  std::vector<TensorMeta> own_input_metas, output_metas;
  Tensors left_by_loops;                              // inside of `whole`
  Tensors saved_inputs, saved_outputs;                // null where the gradient does not read them
  std::vector<uint64_t> input_writes, output_writes;  // how often the memory of each had been written then
  uint64_t sequence = 0;                              // larger than that of every input's node
  bool released = false, is_cut = false;
  std::vector<bool> released_outputs;    // of a call that was gone through in part; empty: all are as `released` says
  std::atomic<uint64_t> gone_outputs{};  // whose entries are gone, of the first 64
  bool is_released(int output) const { return released || (!released_outputs.empty() && released_outputs[output]); }
  bool is_gone(int output) const { return output < 64 && (gone_outputs.load() >> output & 1) != 0; }
  void drop_saved();  // backward has run and nobody asked to keep what it needed
  // The same, but for these outputs, as far as somebody still has them. What is cut stays on the tape, where it is an error to go back.
  void drop_saved_except(const std::vector<bool>& unvisited, const std::vector<bool>& cut);
};

// Is told by backward() of the gradients of leaves, each when it is whole, which may be long before backward() is over. Called by the
// thread that runs backward.
class GradientWatcher {
 public:
  virtual ~GradientWatcher() = default;
  virtual void on_gradient(TapeEntry& leaf) = 0;
};

// A tensor's place: output `index` of a node, or a leaf with a gradient of its own.
class TapeEntry final : public AutogradEntry {
 public:
  TapeEntry() = default;
  ~TapeEntry() override {
    if (node && index < 64) node->gone_outputs.fetch_or(uint64_t{1} << index);
  }
  TapeEntry(const TapeEntry&) = delete;
  TapeEntry& operator=(const TapeEntry&) = delete;
  Ref<TapeNode> node;
  int index = 0;
  Tensor leaf_grad;  // set for leaves; without memory where they keep rows
  GradReq req = GradReq::null;
  bool is_fresh = false;     // backward has written leaf_grad since somebody last asked to forget it
  bool is_replaced = false;  // the leaf has been given another gradient
  bool keeps_rows = false;   // the gradient is `row_values` in `rows` and zero elsewhere (row_gradient.h)
  Tensor rows, row_values;
  std::weak_ptr<GradientWatcher> watcher;  // of a leaf
  bool is_leaf() const { return !node; }
  bool has_own_gradient() const override { return is_leaf() && req != GradReq::null; }
};

TapeEntry* entry_of(const Tensor& t);  // null when the tensor is not on the tape
// Whether something flows back from here: what backward has released is a value like any other.
bool is_on_tape(const Tensor& t);
// A write under pause(), where it is traced: its result stays where its first input is on the tape, if it is there.
bool is_overwrite(const OpDef* op);
// How often user code of this thread has asked for a mode.
uint64_t count_mode_reads();
// grad() inside of another pass: what comes out as a constant stays one, and no zeros flow from it.
Tensors grad_of_part(const Tensors& heads, const Tensors& variables, const Tensors& head_grads, BackwardOptions options);
// Puts a call on the tape whose way back is a function of its own.
void record_custom(std::string name, std::span<const Tensor> inputs, std::span<Tensor> outputs, BackwardFn backward,
                   std::function<bool()> gives_own_gradient, std::shared_ptr<const RecordedWhole> whole = nullptr,
                   Tensors left_by_loops = {});

// What detach() gives. Where there is no memory to share, in a trace, or where the base may take another, on a tape, a link
// does the same. What is written through it changes the base's value, not what flows back.
class DetachLink final : public ViewLink {
 public:
  using ViewLink::ViewLink;
  Tensor project(const Tensor& base) const override;
  Tensor embed(const Tensor& base, const Tensor& value) const override;
  std::function<Tensor(const Tensor&)> replay() const override;
};

void note_gradient_place(TapeEntry& leaf);  // traced code reads or writes the gradient of a tensor from outside

void watch_gradient(TapeEntry& leaf, const std::shared_ptr<GradientWatcher>& watcher);
bool are_gradients_watched();  // whether any leaf may have a watcher

// Raises UserError when the memory of a tensor that a gradient reads has been written since.
void check_unchanged(const Tensor& saved, uint64_t writes, std::string_view what);
[[noreturn]] void raise_changed(std::string_view what);

// The same value at the same place on the tape: a further handle on its memory, or a copy.
Tensor handle_of_its_own(const Tensor& t);
Tensor in_memory_of_its_own(const Tensor& t);

// What a user's Function gives: results that are there, and a gradient for each input, of its shape or null for none. Raises UserError.
void check_results(const Tensors& results);
Tensors checked_gradients(Tensors gradients, const std::vector<Shape>& shapes);
// How a user's Function becomes a part of a traced program; src/control_flow installs it.
using TracedFunction = Tensors (*)(const std::shared_ptr<Function>& function, const Tensors& inputs);
void install_traced_function(TracedFunction traced);

}  // namespace gluino::autograd
