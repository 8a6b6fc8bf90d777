#include "gluino/tensor.h"

#include <cstring>

#include "base/extents.h"
#include "base/format.h"
#include "gluino/detail/lock.h"
#include "kernels/isa/primitives.h"
#include "tensor/impl.h"

namespace gluino {

MakesForOthers::MakesForOthers() : trace_(std::exchange(outermost_trace, 0)) {}
MakesForOthers::~MakesForOthers() { outermost_trace = trace_; }

void detail::retain_ref(TensorImpl* impl) { impl->retain(); }
void detail::overwritten_ref(TensorImpl* impl) {
  if (impl->is_captured.load(std::memory_order_relaxed) && traces_under_way == 0)
    impl->times_overwritten.fetch_add(1, std::memory_order_relaxed);
}
// A view holds its base, which may be a view: a long chain of them is let go one by one, so that the stack does not grow with it.
void detail::release_ref(TensorImpl* impl) {
  if (!impl->view || impl->use_count() > 1) return impl->release();
  thread_local std::vector<TensorImpl*>* pending = nullptr;
  if (pending) return pending->push_back(impl);
  std::vector<TensorImpl*> list;
  pending = &list;
  impl->release();
  while (!list.empty()) {
    TensorImpl* last = list.back();
    list.pop_back();
    last->release();  // may add to the list
  }
  pending = nullptr;
}

Tensor make_tensor(const Shape& shape, DType dtype, Device device) {
  int64_t bytes;
  if (__builtin_mul_overflow(shape.elements(), int64_t{dtype_bytes(dtype)}, &bytes))
    raise<ShapeError>("a tensor of shape {} is too large", shape);
  auto impl = make_ref<detail::TensorImpl>(shape, dtype, device);
  impl->storage = make_ref<Storage>(bytes, device);
  impl->data = impl->storage->data();
  return Tensor(std::move(impl));
}

Tensor make_view(const Tensor& base, const Shape& shape, int64_t element_offset) {
  const detail::TensorImpl& b = impl_of(base);
  if (b.view) refresh_view(base);
  auto impl = make_ref<detail::TensorImpl>(shape, b.dtype, b.device);
  impl->storage = b.storage;
  impl->data = b.data + element_offset * dtype_bytes(b.dtype);
  return Tensor(std::move(impl));
}

Tensor make_shape_only(const Shape& shape, DType dtype, Device device) {
  return Tensor(make_ref<detail::TensorImpl>(shape, dtype, device));
}

static const detail::TensorImpl& checked(const Tensor& t) {
  if (!t.defined()) throw UserError("a null tensor has no value; it was never assigned");
  return impl_of(t);
}

static NoForkMutex anchors;  // guards TensorImpl::anchor and TensorAnchor::tensor_

TensorAnchor::TensorAnchor(detail::TensorImpl& t) : version(t.version), tensor_(&t), first_version_(t.version) {}
TensorAnchor::~TensorAnchor() {
  if (heir_.defined()) impl_of(heir_).version_of_heir = nullptr;
}
Tensor TensorAnchor::lock() const {
  const std::lock_guard lock(anchors);
  if (heir_.defined()) return heir_;
  if (!tensor_ || !tensor_->retain_if_alive()) return {};
  Tensor held{Ref<detail::TensorImpl>(tensor_)};
  tensor_->release();  // the share that was taken to look
  return held;
}
void TensorAnchor::let_go(detail::TensorImpl& from) {
  const bool has_changed = from.version != first_version_;
  const int views = use_count() - 1;
  Tensor heir;
  if (from.storage && (views > 1 || (views == 1 && has_changed))) {
    auto impl = make_ref<detail::TensorImpl>(from.shape, from.dtype, from.device);
    impl->storage = from.storage;
    impl->data = from.data;
    impl->view = from.view;
    if (has_changed && is_followed) impl->autograd = from.autograd;  // else it would keep all that was recorded for nobody
    impl->version = from.version;
    impl->trace_it_was_made_in = from.trace_it_was_made_in;
    impl->version_of_heir = &version;
    heir = Tensor(std::move(impl));
  }
  const std::lock_guard lock(anchors);
  tensor_ = nullptr;
  heir_ = std::move(heir);
}
static Ref<TensorAnchor> anchor_of(detail::TensorImpl& t) {
  const std::lock_guard lock(anchors);
  if (!t.anchor) {
    t.watch();
    t.anchor = make_ref<TensorAnchor>(t);
  }
  return t.anchor;
}

ViewLink::ViewLink(const Tensor& base, Holds holds) : seen_(impl_of(base).version) {
  if (holds == Holds::base)
    kept_ = base;
  else
    anchor_ = anchor_of(impl_of(base));
}
Tensor ViewLink::base() const { return anchor_ ? anchor_->lock() : kept_; }
const detail::TensorImpl* ViewLink::kept_base() const { return kept_.defined() ? &impl_of(kept_) : nullptr; }
bool ViewLink::is_current() const { return seen_ == (anchor_ ? anchor_->version.load() : impl_of(kept_).version); }
void ViewLink::set_current() { seen_ = anchor_ ? anchor_->version.load() : impl_of(kept_).version; }

void rebind(detail::TensorImpl& t, const detail::TensorImpl& n) {
  t.symbolic = n.symbolic;
  t.autograd = n.autograd;
  t.storage = n.storage;
  t.data = n.data;
  t.next_version();
  if (trace_watch && n.symbolic) trace_watch->on_symbolic_rebind(t, *n.symbolic);
}
void refresh_view(const Tensor& view) {
  bool is_current = true;
  for (const detail::TensorImpl* t = &impl_of(view); t && t->view && is_current; t = t->view->kept_base())
    is_current = t->view->is_current();
  if (is_current) return;
  struct Stage {
    detail::TensorImpl* view;
    Tensor base;
  };
  std::vector<Stage> chain;  // of views, each of the next one; the last of something that is none
  for (detail::TensorImpl* t = &impl_of(view); t->view; t = &impl_of(chain.back().base)) {
    chain.push_back({t, t->view->base()});
    if (!chain.back().base.defined()) {  // gone, and with it all who could have updated it
      chain.pop_back();
      break;
    }
  }
  for (size_t k = chain.size(); k-- > 0;) {
    ViewLink& link = *chain[k].view->view;
    if (link.is_current()) continue;
    link.set_current();
    const Tensor value = link.project(chain[k].base);
    if (trace_watch && impl_of(value).symbolic && !chain[k].view->symbolic)
      trace_watch->on_symbolic_refresh(Tensor(Ref<detail::TensorImpl>(chain[k].view)));
    rebind(*chain[k].view, impl_of(value));
  }
}

char* bytes_of(const Tensor& t) {
  const detail::TensorImpl& i = checked(t);
  if (i.view) refresh_view(t);
  if (!i.storage)
    throw UserError(i.symbolic ? "a symbolic tensor has no memory; its value is known only when the graph runs"
                               : "a shape-only tensor has no value");
  return i.data;
}

bool Tensor::is_symbolic() const { return impl_ && impl_->symbolic; }

const Shape& Tensor::shape() const {
  const detail::TensorImpl& i = checked(*this);
  if (i.symbolic) i.symbolic->on_shape_read(-1);
  return i.shape;
}
int64_t Tensor::extent(int64_t axis) const {
  const detail::TensorImpl& i = checked(*this);
  const int a = normalize_axis(axis, i.shape);
  if (i.symbolic) i.symbolic->on_shape_read(a);
  return i.shape[a];
}
int Tensor::ndim() const {
  const detail::TensorImpl& i = checked(*this);
  if (i.symbolic && !i.symbolic->has_shape) i.symbolic->on_shape_read(-1);
  return i.shape.ndim();
}
int64_t Tensor::size() const { return shape().elements(); }
DType Tensor::dtype() const { return checked(*this).dtype; }
Device Tensor::device() const { return checked(*this).device; }

void Tensor::note_write() {
  if (!impl_ || !impl_->storage) return;
  if (trace_watch && !impl_->is_made_in_trace()) trace_watch->on_memory_write(*this);
  impl_->storage->note_write();
}

void* Tensor::raw_data(DType expected) const {
  const detail::TensorImpl& i = checked(*this);
  if (i.dtype != expected) raise<DTypeError>("data<{}>() was asked of a {} tensor; call astype({}) first", expected, i.dtype, expected);
  if (trace_watch && i.storage && !i.is_made_in_trace()) trace_watch->on_value_read(*this);
  return bytes_of(*this);
}

// The concrete tensor behind a handle: a symbolic one is computed now.
static Tensor concrete(const Tensor& t) {
  if (checked(t).symbolic) return impl_of(t).symbolic->read_value();
  if (trace_watch && impl_of(t).storage && !impl_of(t).is_made_in_trace()) trace_watch->on_value_read(t);
  return t;
}

template <class T>
T Tensor::item() const {
  const Tensor value = concrete(*this);
  const detail::TensorImpl& i = impl_of(value);
  if (i.shape.elements() != 1) raise<ShapeError>("item() needs a tensor of one element, this one has shape {}", i.shape);
  T out;
  kernels::convert(bytes_of(value), i.dtype, &out, dtype_of<T>, 1);
  return out;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor value = concrete(*this);
  const detail::TensorImpl& i = impl_of(value);
  const int64_t n = i.shape.elements();
  std::vector<T> out(n);
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<uint8_t> bytes = astype(DType::boolean).template to_vector<uint8_t>();
    for (size_t k = 0; k < out.size(); ++k) out[k] = bytes[k] != 0;
  } else {
    kernels::convert(bytes_of(value), i.dtype, out.data(), dtype_of<T>, n);
  }
  return out;
}

Tensor::operator bool() const {
  const Tensor value = concrete(*this);
  if (impl_of(value).shape.elements() != 1)
    raise<UserError>("the truth of a tensor of shape {} is ambiguous; reduce it to one element first", impl_of(value).shape);
  return value.item<double>() != 0;
}

void Tensor::copy_to(void* destination) const {
  const Tensor value = concrete(*this);
  const detail::TensorImpl& i = impl_of(value);
  if (!destination && i.shape.elements() > 0) throw UserError("copy_to: the destination is a null pointer");
  std::memcpy(destination, bytes_of(value), i.shape.elements() * dtype_bytes(i.dtype));
}

Tensor::Tensor(double scalar) : Tensor(make_tensor({}, DType::float32, current_device())) {
  *mutable_data<float>() = static_cast<float>(scalar);
}

Tensor empty(const Shape& shape, TensorOptions options) {
  for (int64_t extent : shape)
    if (extent < 0 || extent > kMaxExtent) raise<ShapeError>("a tensor cannot have shape {}: extents are 0 to {}", shape, kMaxExtent);
  return make_tensor(shape, options.dtype.value_or(DType::float32), options.device.value_or(current_device()));
}

template <class T>
Tensor from_data(const T* data, const Shape& shape, TensorOptions options) {
  if (!data && shape.elements() > 0) throw UserError("from_data: the data is a null pointer");
  Tensor t = empty(shape, {options.dtype.value_or(dtype_of<T>), options.device});
  kernels::convert(data, dtype_of<T>, impl_of(t).data, t.dtype(), shape.elements());
  return t;
}

template <class T>
Tensor from_vector(const std::vector<T>& values, std::optional<Shape> shape, TensorOptions options) {
  const Shape s = shape.value_or(Shape{static_cast<int64_t>(values.size())});
  if (s.elements() != static_cast<int64_t>(values.size()))
    raise<ShapeError>("from_vector: {} values do not fill shape {}", values.size(), s);
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<uint8_t> bytes(values.begin(), values.end());
    return from_data(bytes.data(), s, {options.dtype.value_or(DType::boolean), options.device});
  } else {
    return from_data(values.data(), s, options);
  }
}
#define GLUINO_INSTANTIATE(T)                                          \
  template T Tensor::item<T>() const;                                  \
  template std::vector<T> Tensor::to_vector<T>() const;                \
  template Tensor from_data<T>(const T*, const Shape&, TensorOptions); \
  template Tensor from_vector<T>(const std::vector<T>&, std::optional<Shape>, TensorOptions);
GLUINO_INSTANTIATE(float)
GLUINO_INSTANTIATE(double)
GLUINO_INSTANTIATE(float16)
GLUINO_INSTANTIATE(bfloat16)
GLUINO_INSTANTIATE(int8_t)
GLUINO_INSTANTIATE(uint8_t)
GLUINO_INSTANTIATE(int32_t)
GLUINO_INSTANTIATE(int64_t)
GLUINO_INSTANTIATE(bool)
#undef GLUINO_INSTANTIATE

static void flatten_nested(const std::vector<NestedList>& items, int depth, Shape& shape, std::vector<double>& values) {
  const auto extent = static_cast<int64_t>(items.size());
  if (shape.ndim() == depth) shape.push_back(extent);
  if (shape[depth] != extent) raise<ShapeError>("tensor: rows have {} and {} elements", shape[depth], extent);
  for (const NestedList& item : items) {
    if (item.is_list) {
      flatten_nested(item.items, depth + 1, shape, values);
    } else {
      if (shape.ndim() != depth + 1) throw ShapeError("tensor: numbers and lists are mixed on one level");
      values.push_back(item.value);
    }
  }
}

Tensor tensor(std::initializer_list<NestedList> values, TensorOptions options) {
  Shape shape;
  std::vector<double> flat;
  flatten_nested(std::vector<NestedList>(values), 0, shape, flat);
  if (shape.elements() != static_cast<int64_t>(flat.size())) throw ShapeError("tensor: the lists are not all equally deep");
  return from_data(flat.data(), shape, {options.dtype.value_or(DType::float32), options.device});
}

bool array_equal(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  if (!is_floating(a.dtype())) return std::memcmp(bytes_of(a), bytes_of(b), a.nbytes()) == 0;
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i)
    if (!(x[i] == y[i] || (x[i] != x[i] && y[i] != y[i]))) return false;
  return true;
}

bool all_close(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  if (!(a.shape() == b.shape())) return false;
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (equal_nan && x[i] != x[i] && y[i] != y[i])) continue;
    if (!(std::abs(x[i] - y[i]) <= atol + rtol * std::abs(y[i]))) return false;
  }
  return true;
}

void waitall() {}

}  // namespace gluino
