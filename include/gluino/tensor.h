// Tensor: the one value type. Concrete (owns or views memory) or symbolic (names a value of a graph being built).
// Every operator function takes and returns Tensors, so one piece of user code serves both.
#pragma once
#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gluino/device.h"
#include "gluino/dtype.h"
#include "gluino/detail/ref.h"
#include "gluino/shape.h"

struct DLManagedTensor;

namespace gluino {

class Tensor;
namespace detail {
class TensorImpl;
void retain_ref(TensorImpl* impl);
void release_ref(TensorImpl* impl);
void overwritten_ref(TensorImpl* impl);
enum class Operation : uint8_t { add, subtract, multiply, divide, modulo, equal, not_equal, less, less_equal, greater, greater_equal };
// tensor op number, or number op tensor. `is_whole`: the number is of an integral type.
Tensor with_number(Operation op, const Tensor& tensor, double number, bool is_whole, bool number_first = false);
}  // namespace detail
class IndexedTensor;
using Tensors = std::vector<Tensor>;

// How backward() treats a leaf's gradient: overwrite it, add to it, or leave it alone.
enum class GradReq : uint8_t { null, write, add };

struct Slice {  // begin:end:step with NumPy's meaning; an absent part is nullopt
  std::optional<int64_t> begin = {}, end = {};
  int64_t step = 1;
  Slice() = default;
  Slice(std::optional<int64_t> b, std::optional<int64_t> e, int64_t s = 1) : begin(b), end(e), step(s) {}
};
struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis kEllipsis{};
inline constexpr NewAxis kNewAxis{};

struct TensorOptions {
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

class Index;

// The axes of a reduction: x.sum(), x.sum(1), x.sum({0, 2}).
class Axes {
 public:
  Axes() = default;  // all of them
  Axes(std::nullopt_t) {}
  Axes(std::integral auto axis) : axes_(Shape{static_cast<int64_t>(axis)}) {}
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}
  Axes(Shape axes) : axes_(std::move(axes)) {}
  Axes(std::optional<Shape> axes) : axes_(std::move(axes)) {}
  const std::optional<Shape>& axes() const { return axes_; }

 private:
  std::optional<Shape> axes_;
};

// A number of C++ beside a tensor. Whole numbers keep the dtype of whole tensors, fractions (2.0 too) make them float32.
// What becomes a number by itself, as a Setting<double> does, is one.
template <class N>
concept Number = requires(const N& n) {
  requires std::is_arithmetic_v<decltype(+n)>;
};
template <Number N>
inline constexpr bool is_whole_number = std::is_integral_v<decltype(+std::declval<const N&>())>;

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
  Tensor sum(const Axes& axes = {}, bool keepdims = false) const;
  Tensor mean(const Axes& axes = {}, bool keepdims = false) const;
  Tensor max(const Axes& axes = {}, bool keepdims = false) const;
  Tensor min(const Axes& axes = {}, bool keepdims = false) const;
  Tensor prod(const Axes& axes = {}, bool keepdims = false) const;
  Tensor var(const Axes& axes = {}, bool keepdims = false, int64_t ddof = 0) const;  // mean squared distance from the mean
  Tensor std(const Axes& axes = {}, bool keepdims = false, int64_t ddof = 0) const;
  Tensor pow(double exponent) const;
  Tensor matmul(const Tensor& other) const;
  // As the functions of the same names (functions.h).
  Tensor maximum(const Tensor& other) const;
  Tensor maximum(double other) const;
  Tensor minimum(const Tensor& other) const;
  Tensor minimum(double other) const;
  Tensor tril(int64_t diagonal = 0) const;
  Tensor triu(int64_t diagonal = 0) const;
  Tensor roll(int64_t shift, std::optional<int64_t> axis = {}) const;
  Tensor isnan() const;
  Tensor nonzero() const;
  Tensor unique() const;

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
  Tensor& operator+=(Number auto rhs) { return update(detail::Operation::add, static_cast<double>(rhs), is_whole_number<decltype(rhs)>); }
  Tensor& operator-=(Number auto rhs) {
    return update(detail::Operation::subtract, static_cast<double>(rhs), is_whole_number<decltype(rhs)>);
  }
  Tensor& operator*=(Number auto rhs) {
    return update(detail::Operation::multiply, static_cast<double>(rhs), is_whole_number<decltype(rhs)>);
  }
  Tensor& operator/=(Number auto rhs) {
    return update(detail::Operation::divide, static_cast<double>(rhs), is_whole_number<decltype(rhs)>);
  }
  Tensor operator-() const;
  Tensor operator~() const;  // not, of truth values; the bits turned around, of whole numbers

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
  Tensor& update(detail::Operation op, const Tensor& rhs);
  Tensor& update(detail::Operation op, double rhs, bool is_whole);
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
  void operator+=(Number auto rhs) && { std::move(*this).store(*this + rhs); }
  void operator-=(Number auto rhs) && { std::move(*this).store(*this - rhs); }
  void operator*=(Number auto rhs) && { std::move(*this).store(*this * rhs); }
  void operator/=(Number auto rhs) && { std::move(*this).store(*this / rhs); }

 private:
  void store(const Tensor& changed) &&;  // what an operator in place gives
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
inline Tensor zeros(const Shape& shape, DType dtype) { return zeros(shape, TensorOptions{.dtype = dtype}); }
inline Tensor ones(const Shape& shape, DType dtype) { return ones(shape, TensorOptions{.dtype = dtype}); }
inline Tensor full(const Shape& shape, double value, DType dtype) { return full(shape, value, TensorOptions{.dtype = dtype}); }
inline Tensor empty(const Shape& shape, DType dtype) { return empty(shape, TensorOptions{.dtype = dtype}); }
inline Tensor arange(double stop, DType dtype) { return arange(stop, TensorOptions{.dtype = dtype}); }
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
inline Tensor tensor(std::initializer_list<NestedList> values, DType dtype) { return tensor(values, TensorOptions{.dtype = dtype}); }

// Dtypes follow NumPy's rules with float32 as the default: comparisons give truth values, whole numbers divided by whole
// numbers are float32, truth values beside whole numbers are int64. (Python's mx.nd keeps MXNet's.)
Tensor operator&(const Tensor& a, const Tensor& b);  // and, of truth values; common bits, of whole numbers
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
#define GLUINO_OPERATOR(symbol, name)                                                                         \
  Tensor operator symbol(const Tensor& a, const Tensor& b);                                                   \
  template <std::derived_from<Tensor> T, Number N>                                                            \
  Tensor operator symbol(const T& a, const N& b) {                                                            \
    return detail::with_number(detail::Operation::name, a, static_cast<double>(b), is_whole_number<N>);       \
  }                                                                                                           \
  template <Number N, std::derived_from<Tensor> T>                                                            \
  Tensor operator symbol(const N& a, const T& b) {                                                            \
    return detail::with_number(detail::Operation::name, b, static_cast<double>(a), is_whole_number<N>, true); \
  }
GLUINO_OPERATOR(+, add)
GLUINO_OPERATOR(-, subtract)
GLUINO_OPERATOR(*, multiply)
GLUINO_OPERATOR(/, divide)
GLUINO_OPERATOR(%, modulo)
GLUINO_OPERATOR(==, equal)
GLUINO_OPERATOR(!=, not_equal)
GLUINO_OPERATOR(<, less)
GLUINO_OPERATOR(<=, less_equal)
GLUINO_OPERATOR(>, greater)
GLUINO_OPERATOR(>=, greater_equal)
#undef GLUINO_OPERATOR

// Like NumPy's: rows in brackets, elided in the middle when there are more than 1000 elements.
std::ostream& operator<<(std::ostream& os, const Tensor& t);

bool all_close(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
bool array_equal(const Tensor& a, const Tensor& b);  // same shape, dtype and bits, NaN equal to itself
void waitall();                                      // CPU execution is synchronous: returns at once

}  // namespace gluino
