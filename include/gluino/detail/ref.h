// Ref<T>: a counted pointer to an object that carries its own count; half the size and cost of shared_ptr.
#pragma once
#include <atomic>
#include <utility>

namespace gluino {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  virtual ~RefCounted() = default;
  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    // Sole owner: nobody else can touch the count any more, so the atomic subtraction is not needed.
    const bool is_alone = !is_watched_.load(std::memory_order_relaxed) && count_.load(std::memory_order_acquire) == 1;
    if (is_alone || count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // Somebody without a share will ask whether the object is still there; called by one who has a share.
  void watch() const { is_watched_.store(true, std::memory_order_relaxed); }
  // A share of a watched object, unless its last one is gone. The caller sees to it that the memory is still there.
  bool retain_if_alive() const {
    int count = count_.load(std::memory_order_relaxed);
    while (count > 0)
      if (count_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) return true;
    return false;
  }
  int use_count() const { return count_.load(std::memory_order_acquire); }

 private:
  mutable std::atomic<int> count_{0};
  mutable std::atomic<bool> is_watched_{false};
};

// Overloaded for types that are incomplete where a Ref to them is copied.
template <class T>
void retain_ref(T* p) {
  p->retain();
}
template <class T>
void release_ref(T* p) {
  p->release();
}

// A pointer to the object is made to point elsewhere; for types that want to know.
template <class T>
void overwritten_ref(T*) {}

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* p) : p_(p) {
    if (p_) retain_ref(p_);
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) retain_ref(p_);
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <class U>
  Ref(const Ref<U>& o) : Ref(static_cast<T*>(o.get())) {}
  Ref& operator=(Ref o) noexcept {
    if (p_ && p_ != o.p_) overwritten_ref(p_);
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_) release_ref(p_);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool operator==(const Ref&) const = default;

 private:
  T* p_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace gluino
