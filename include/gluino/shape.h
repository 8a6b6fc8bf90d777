// Shape: the extents of a tensor, also used for any short tuple of integers (axes, strides, kernel sizes).
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace gluino {

// Up to kInline extents live inside the object; more (at most kMaxAxes) go to the heap.
// An extent of kUnknown appears only during shape inference.
class Shape {
 public:
  static constexpr int kInline = 6;
  static constexpr int kMaxAxes = 32;
  static constexpr int64_t kUnknown = -1;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(dims.begin(), static_cast<int>(dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : Shape(dims.data(), static_cast<int>(dims.size())) {}
  Shape(const int64_t* dims, int n) { assign(dims, n); }
  static Shape filled(int n, int64_t value);
  Shape(const Shape& o) : Shape(o.data(), o.size_) {}
  Shape(Shape&& o) noexcept { steal(o); }
  Shape& operator=(const Shape& o) {
    if (this != &o) {
      Shape copy(o);
      release();
      steal(copy);
    }
    return *this;
  }
  Shape& operator=(Shape&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~Shape() { release(); }

  int ndim() const { return size_; }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* data() const { return capacity_ ? heap_ : inline_; }
  int64_t* data() { return capacity_ ? heap_ : inline_; }
  int64_t operator[](int i) const { return data()[checked(i)]; }
  int64_t& operator[](int i) { return data()[checked(i)]; }
  int64_t back() const { return data()[checked(size_ - 1)]; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }

  void push_back(int64_t extent) { insert(size_, extent); }
  void insert(int position, int64_t extent);
  void erase(int position);

  // Product of the extents: 1 for a scalar. Raises when it does not fit into 63 bits.
  int64_t elements() const;
  int64_t elements(int first, int last) const;  // product of the extents in [first, last)
  bool is_known() const { return std::find(begin(), end(), kUnknown) == end(); }

  std::string str() const;  // "(2, 3)", "(4,)", "()"

  bool operator==(const Shape& o) const { return size_ == o.size_ && std::equal(begin(), end(), o.begin()); }

 private:
  int checked(int i) const {
    if (static_cast<uint32_t>(i) >= static_cast<uint32_t>(size_)) [[unlikely]]
      no_such_extent(i);
    return i;
  }
  [[noreturn]] void no_such_extent(int i) const;  // an IndexError
  void assign(const int64_t* dims, int n);
  void steal(Shape& o) {
    size_ = o.size_;
    capacity_ = o.capacity_;
    if (capacity_) {
      heap_ = o.heap_;
    } else {
      std::copy(o.inline_, o.inline_ + size_, inline_);
    }
    o.size_ = o.capacity_ = 0;
  }
  void release() {
    if (capacity_) delete[] heap_;
    size_ = capacity_ = 0;
  }

  int32_t size_ = 0;
  int32_t capacity_ = 0;  // 0: the extents are inline
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

// Turns a possibly negative axis into [0, ndim).
int normalize_axis(int64_t axis, const Shape& shape);
// The shape that inputs broadcast to by NumPy's rule.
Shape broadcast_shapes(std::span<const Shape> shapes);

}  // namespace gluino
