// Tensor: the one value type. Concrete (owns or views memory) or symbolic (names a value of a graph being built).
// Every operator function takes and returns Tensors, so one piece of user code serves both.
#pragma once
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gluino/device.h"
#include "gluino/dtype.h"
#include "gluino/ref.h"
#include "gluino/shape.h"

struct DLManagedTensor;

namespace gluino {

namespace detail {
class TensorImpl;
void retain_ref(TensorImpl* impl);
void release_ref(TensorImpl* impl);
}  // namespace detail
class Tensor;
class IndexedTensor;
using Tensors = std::vector<Tensor>;

// How backward() treats a leaf's gradient: overwrite it, add to it, or leave it alone.
enum class GradReq : uint8_t { null, write, add };

struct Slice {  // begin:end:step with NumPy's meaning; an absent part is nullopt
  std::optional<int64_t> begin, end;
  int64_t step = 1;
  Slice() = default;
  Slice(std::optional<int64_t> b, std::optional<int64_t> e, int64_t s = 1) : begin(b), end(e), step(s) {}
};
struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis kEllipsis{};
inline constexpr NewAxis kNewAxis{};

struct TensorOptions {
  std::optional<DType> dtype;
  std::optional<Device> device;
};

class Index;

class Tensor {
 public:
  Tensor() = default;  // null: no value at all, as for an absent optional input
  explicit Tensor(Ref<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(double scalar);  // a float32 scalar of shape ()

  bool defined() const { return static_cast<bool>(impl_); }
  explicit operator bool() const;  // the value of a one-element tensor, as in Python
  bool is_symbolic() const;

  const Shape& shape() const;
  int64_t extent(int64_t axis) const;  // one extent; while tracing only this one becomes a guard
  int ndim() const;
  int64_t size() const;
  DType dtype() const;
  Device device() const;
  int64_t nbytes() const { return size() * dtype_bytes(dtype()); }

  // Reading values. While tracing these end a segment.
  template <class T = float>
  T item() const;
  template <class T = float>
  std::vector<T> to_vector() const;  // converts the element type where needed
  void copy_to(void* destination) const;
  const Tensor& copy_to(Tensor& destination) const;  // converts dtype, broadcasts
  template <class T>
  const T* data() const {
    return static_cast<const T*>(raw_data(dtype_of<T>));
  }
  // For writing now: what compiled programs derived from the old values is computed again. Ask again for later writes.
  template <class T>
  T* mutable_data() {
    note_write();
    return static_cast<T*>(raw_data(dtype_of<T>));
  }

  Tensor copy() const;
  Tensor astype(DType dtype) const;
  Tensor to(Device device) const;
  Tensor reshape(const Shape& shape, bool reverse = false) const;  // shares memory; 0, -1, -2, -3, -4 as in MXNet
  Tensor transpose(const Shape& axes = {}) const;
  Tensor sum(std::optional<Shape> axis = {}, bool keepdims = false) const;
  Tensor mean(std::optional<Shape> axis = {}, bool keepdims = false) const;
  Tensor max(std::optional<Shape> axis = {}, bool keepdims = false) const;
  Tensor min(std::optional<Shape> axis = {}, bool keepdims = false) const;

  // Indexing as in NumPy: x[2], x[{Slice(1, 3), kEllipsis, -1}], x[mask]. What x[...] gives can be assigned to.
  IndexedTensor operator[](const Index& index) const;
  IndexedTensor operator[](std::initializer_list<Index> index) const;
  Tensor index(std::span<const Index> index) const;
  void assign(std::span<const Index> index, const Tensor& value);
  void assign(const Tensor& value);  // overwrite all elements, broadcasting
  void assign(double value);

  Tensor& operator+=(const Tensor& rhs);
  Tensor& operator-=(const Tensor& rhs);
  Tensor& operator*=(const Tensor& rhs);
  Tensor& operator/=(const Tensor& rhs);
  Tensor& operator+=(double rhs);
  Tensor& operator-=(double rhs);
  Tensor& operator*=(double rhs);
  Tensor& operator/=(double rhs);
  Tensor operator-() const;

  // Autograd; defined in src/autograd.
  void attach_grad(GradReq req = GradReq::write);
  Tensor grad() const;
  GradReq grad_req() const;
  void zero_grad();
  void backward(const Tensor& head = {}, bool retain_graph = false) const;
  Tensor detach() const;

  DLManagedTensor* to_dlpack() const;                   // the consumer calls its deleter
  static Tensor from_dlpack(DLManagedTensor* managed);  // takes ownership; strided input is copied
  std::string str() const;

  const Ref<detail::TensorImpl>& impl() const { return impl_; }
  bool is_same(const Tensor& o) const { return impl_ == o.impl_; }

 private:
  void note_write();
  void* raw_data(DType expected) const;
  Tensor& update(std::string_view op, const Tensor& rhs);
  Tensor& update(std::string_view scalar_op, double rhs);
  Ref<detail::TensorImpl> impl_;
};

// One part of an index.
class Index {
 public:
  Index(int i) : value_(static_cast<int64_t>(i)) {}
  Index(int64_t i) : value_(i) {}
  Index(Slice s) : value_(s) {}
  Index(Ellipsis e) : value_(e) {}
  Index(NewAxis n) : value_(n) {}
  Index(Tensor t) : value_(std::move(t)) {}  // integer array or boolean mask
  const std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor>& value() const { return value_; }

 private:
  std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor> value_;
};

// What x[...] gives: a Tensor that remembers where it came from, so that x[...] = y writes into x.
class IndexedTensor : public Tensor {
 public:
  IndexedTensor(Tensor value, Tensor source, std::vector<Index> index)
      : Tensor(std::move(value)), source_(std::move(source)), index_(std::move(index)) {}
  IndexedTensor(const IndexedTensor&) = default;
  void operator=(const Tensor& value) && { source_.assign(index_, value); }
  void operator=(const IndexedTensor& value) && { source_.assign(index_, value); }
  void operator=(double value) &&;
  void operator+=(const Tensor& rhs) &&;
  void operator-=(const Tensor& rhs) &&;
  void operator*=(const Tensor& rhs) &&;
  void operator/=(const Tensor& rhs) &&;
  void operator+=(double rhs) &&;
  void operator-=(double rhs) &&;
  void operator*=(double rhs) &&;
  void operator/=(double rhs) &&;

 private:
  Tensor source_;
  std::vector<Index> index_;
};

Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
Tensor full(const Shape& shape, double value, TensorOptions options = {});
Tensor empty(const Shape& shape, TensorOptions options = {});
Tensor arange(double stop, TensorOptions options = {});
Tensor arange(double start, double stop, double step = 1, TensorOptions options = {});
Tensor linspace(double start, double stop, int64_t count, bool endpoint = true, TensorOptions options = {});
Tensor eye(int64_t rows, int64_t columns = 0, int64_t k = 0, TensorOptions options = {});
Tensor zeros_like(const Tensor& like);
Tensor ones_like(const Tensor& like);
Tensor full_like(const Tensor& like, double value);

// Copies `data` (elements in row-major order) into a new tensor of the same element type.
template <class T>
Tensor from_data(const T* data, const Shape& shape, TensorOptions options = {});
template <class T>
Tensor from_vector(const std::vector<T>& values, std::optional<Shape> shape = {}, TensorOptions options = {});
// tensor({1, 2, 3}), tensor({{1, 2}, {3, 4}}): float32 unless options say otherwise.
struct NestedList {
  NestedList(double v) : value(v) {}
  NestedList(std::initializer_list<NestedList> l) : items(l), is_list(true) {}
  double value = 0;
  std::vector<NestedList> items;
  bool is_list = false;
};
Tensor tensor(std::initializer_list<NestedList> values, TensorOptions options = {});

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator%(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator%(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);
Tensor operator==(const Tensor& a, double b);
Tensor operator!=(const Tensor& a, double b);
Tensor operator<(const Tensor& a, double b);
Tensor operator<=(const Tensor& a, double b);
Tensor operator>(const Tensor& a, double b);
Tensor operator>=(const Tensor& a, double b);

// Like NumPy's: rows in brackets, elided in the middle when there are more than 1000 elements.
std::ostream& operator<<(std::ostream& os, const Tensor& t);

bool all_close(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
bool array_equal(const Tensor& a, const Tensor& b);  // same shape, dtype and bits, NaN equal to itself
void waitall();                                      // CPU execution is synchronous: returns at once

}  // namespace gluino
