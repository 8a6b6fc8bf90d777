// Tensors' own side of the tape: gradients of leaves, and what is detached.
#include <cstring>

#include "autograd/row_gradient.h"
#include "dispatch/mode.h"
#include "dispatch/recording_as.h"
#include "dispatch/untraceable.h"
#include "gluino/autograd.h"
#include "gluino/setting.h"
#include "tensor/pool.h"

namespace gluino::autograd {

Tensor DetachLink::project(const Tensor& base) const {
  if (!base.is_symbolic() && !mode().tracing) return make_view(base, impl_of(base).shape, 0);
  const Scope off_tape(false, std::nullopt);
  return gluino::call("BlockGrad", {base});
}
Tensor DetachLink::embed(const Tensor& base, const Tensor& value) const { return gluino::call("_overwrite", {base, value}); }
std::function<Tensor(const Tensor&)> DetachLink::replay() const {
  return [](const Tensor& base) { return base.detach(); };
}

}  // namespace gluino::autograd

namespace gluino {

using autograd::TapeEntry;

// Zeros that take no memory before a backward pass has run: a network that only predicts has none.
static Tensor first_gradient(const Tensor& t) {
  if (mode().tracing) return zeros(t.shape(), {t.dtype(), t.device()});
  Tensor gradient = make_tensor(t.shape(), t.dtype(), t.device());
  fill_with_zeros(bytes_of(gradient), gradient.nbytes());
  return gradient;
}
static TapeEntry* leaf_of(const Tensor& t) {
  TapeEntry* e = t.defined() ? autograd::entry_of(t) : nullptr;
  return e && e->is_leaf() ? e : nullptr;
}
void Tensor::attach_grad(GradReq req) {
  if (is_symbolic() && !mode().tracing)
    throw UserError("attach_grad: a symbol has no gradient of its own; give the array that it is bound to one");
  auto entry = make_ref<TapeEntry>();
  entry->req = req;
  if (is_symbolic())
    trace_hook().on_attach_grad(*this);
  else if (mode().tracing && !impl_->is_made_in_trace())
    throw NotInATrace("attach_grad: a tensor from outside is given a gradient while the function is being traced; do that before the call");
  if (req != GradReq::null) entry->leaf_grad = is_symbolic() ? zeros_like(*this) : first_gradient(*this);
  if (TapeEntry* before = leaf_of(*this)) before->is_replaced = true;
  impl_->autograd = req == GradReq::null ? Ref<TapeEntry>() : entry;
}
// Traced code asks for a gradient, or how it is written: attach_grad() makes that another trace. The one of an argument is another at each
// call.
class GradientPlace final : public detail::SettingState {
 public:
  explicit GradientPlace(Ref<TapeEntry> entry) : entry_(std::move(entry)) {}
  std::string key() const override { return entry_->is_replaced ? "another" : ""; }

 private:
  Ref<TapeEntry> entry_;
};
void autograd::note_gradient_place(TapeEntry& leaf) { detail::note_setting_read(std::make_shared<GradientPlace>(Ref<TapeEntry>(&leaf))); }
static TapeEntry* leaf_that_is_asked(const Tensor& t) {
  TapeEntry* leaf = leaf_of(t);
  if (!t.defined() || !mode().tracing) return leaf;
  if (t.is_symbolic() && (!leaf || !(leaf->leaf_grad.is_symbolic() || impl_of(leaf->leaf_grad).is_made_in_trace())))
    throw Untraceable("it asks for the gradient of an argument");
  if (!leaf && !t.is_symbolic() && !impl_of(t).is_made_in_trace())
    throw Untraceable("it asks for the gradient of a tensor that has none");  // and may get one
  if (leaf && !t.is_symbolic() && !impl_of(t).is_made_in_trace()) autograd::note_gradient_place(*leaf);
  return leaf;
}
Tensor Tensor::grad() const {
  TapeEntry* leaf = leaf_that_is_asked(*this);
  return leaf ? autograd::dense_gradient(*leaf) : Tensor();
}
GradReq Tensor::grad_req() const {
  const TapeEntry* leaf = leaf_that_is_asked(*this);
  return leaf ? leaf->req : GradReq::null;
}
void Tensor::zero_grad() {
  if (TapeEntry* leaf = leaf_of(*this); leaf && leaf->keeps_rows && !mode().tracing) return autograd::forget_rows(*leaf);
  Tensor g = grad();
  if (!g.defined()) return;
  if (mode().tracing) return g.assign(0);
  impl_of(g).autograd = nullptr;
  std::memset(bytes_of(g), 0, g.nbytes());
  impl_of(g).storage->note_write();
}
void Tensor::backward(const Tensor& head, bool retain_graph) const { autograd::backward({*this}, {head}, {.retain_graph = retain_graph}); }
Tensor Tensor::to(Device device) const {
  if (this->device() == device || (is_symbolic() && !mode().tracing)) return *this;  // a symbol is on no device
  if (is_symbolic()) throw Untraceable("it moves a tensor to another device");
  Tensor out = make_tensor(impl_->shape, impl_->dtype, device);
  std::memcpy(impl_of(out).data, bytes_of(*this), nbytes());
  if (mode().recording && autograd::is_on_tape(*this))
    autograd::record_custom(
        "to(device)", {this, 1}, {&out, 1},
        [home = this->device()](const autograd::BackwardCall& call) { return Tensors{call.heads[0].to(home)}; }, nullptr);
  return out;
}

Tensor Tensor::detach() const {
  using autograd::DetachLink;
  if (is_symbolic() || mode().tracing) {
    const autograd::Scope off_tape(false, std::nullopt);
    Tensor detached = call("BlockGrad", {*this});
    if (mode().tracing) impl_of(detached).view = make_ref<DetachLink>(*this, ViewLink::Holds::base);
    return detached;
  }
  bytes_of(*this);
  if (impl_->view)  // the same view of its base, detached: nothing that was recorded is kept
    if (const Tensor base = impl_->view->base(); base.defined()) {
      Tensor detached = base.detach();
      if (dynamic_cast<const DetachLink*>(impl_->view.get())) return detached;
      const RecordingAs off_tape(false);
      if (const auto view = impl_->view->replay()) return view(detached);
    }
  Tensor detached = make_view(*this, impl_->shape, 0);
  if (may_be_linked(*this)) impl_of(detached).view = make_ref<DetachLink>(*this, ViewLink::Holds::anchor);
  return detached;
}

}  // namespace gluino
