// Handles that C programs hold: numbers that name an object, its kind and how often its place has been given out, so that a handle that
// was freed, or never was one, is told from every other. An object that is in use while it is freed lives until the last use is over.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "gluino/detail/lock.h"

namespace gluino::c_api {

// What a table must know of its objects: the number of the kind, and the word for messages.
template <class T>
struct HandleKind;

// Says in the error which mistake was made with the handle.
[[noreturn]] void raise_bad_handle(uint64_t handle, int wanted_kind, const char* wanted_name);

// A handle from its lowest bit: the place in the table, the generation of the place, the kind. 53 bits, which a double holds exactly,
// for languages that know no other numbers.
inline constexpr int kPlaceBits = 24, kGenerationBits = 26;
inline constexpr uint64_t kMaxGeneration = (uint64_t{1} << kGenerationBits) - 1;
inline int kind_of(uint64_t handle) { return static_cast<int>(handle >> (kPlaceBits + kGenerationBits)); }

template <class T>
class HandleTable {
  struct Slot {
    // Generation in the upper half; kAlive and the number of uses under way in the lower one.
    std::atomic<uint64_t> word{0};
    T* object = nullptr;
  };

 public:
  // Leaked on purpose: other threads may still run when the process ends.
  static HandleTable& global() {
    static auto* table = new HandleTable;
    return *table;
  }

  uint64_t add(std::unique_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) grow();
    const uint32_t place = free_.back();
    free_.pop_back();
    Slot& s = *slot(place);
    s.object = object.release();
    const uint64_t generation = s.word.load(std::memory_order_relaxed) >> 32;
    s.word.store(generation << 32 | kAlive, std::memory_order_release);
    count_.fetch_add(1, std::memory_order_relaxed);
    return uint64_t{HandleKind<T>::number} << (kPlaceBits + kGenerationBits) | generation << kPlaceBits | place;
  }

  void remove(uint64_t handle) {
    Slot* s = find(handle);
    uint64_t word = s ? s->word.load(std::memory_order_acquire) : 0;
    do {
      if (!s || !is_alive(word, handle)) raise_bad_handle(handle, HandleKind<T>::number, HandleKind<T>::name);
    } while (!s->word.compare_exchange_weak(word, word & ~kAlive, std::memory_order_acq_rel));
    count_.fetch_sub(1, std::memory_order_relaxed);
    if ((word & kUses) == 0) recycle(*s, handle);
  }

  // The object for as long as this lives.
  class Use {
   public:
    explicit Use(uint64_t handle) : handle_(handle), slot_(global().find(handle)) {
      uint64_t word = slot_ ? slot_->word.load(std::memory_order_acquire) : 0;
      do {
        if (!slot_ || !is_alive(word, handle)) raise_bad_handle(handle, HandleKind<T>::number, HandleKind<T>::name);
      } while (!slot_->word.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel));
    }
    ~Use() {
      const uint64_t left = slot_->word.fetch_sub(1, std::memory_order_acq_rel) - 1;
      if ((left & (kAlive | kUses)) == 0) global().recycle(*slot_, handle_);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    T& operator*() const { return *slot_->object; }
    T* operator->() const { return slot_->object; }

   private:
    uint64_t handle_;
    Slot* slot_;
  };

  int64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kAlive = uint64_t{1} << 31, kUses = kAlive - 1;
  static constexpr uint32_t kChunk = 4096, kChunks = (uint32_t{1} << kPlaceBits) / kChunk;

  static bool is_alive(uint64_t word, uint64_t handle) { return (word & kAlive) && word >> 32 == (handle >> kPlaceBits & kMaxGeneration); }

  Slot* slot(uint32_t place) const {
    Slot* chunk = chunks_[place / kChunk].load(std::memory_order_acquire);
    return chunk ? chunk + place % kChunk : nullptr;
  }
  Slot* find(uint64_t handle) const {
    return kind_of(handle) == HandleKind<T>::number ? slot(handle & ((uint64_t{1} << kPlaceBits) - 1)) : nullptr;
  }

  void grow() {
    if (used_chunks_ == kChunks) throw std::bad_alloc();
    free_.reserve(free_.size() + kChunk);
    auto* chunk = new Slot[kChunk];
    for (uint32_t i = 0; i < kChunk; ++i) chunk[i].word.store(uint64_t{1} << 32, std::memory_order_relaxed);
    for (uint32_t i = kChunk; i-- > 0;) free_.push_back(used_chunks_ * kChunk + i);
    chunks_[used_chunks_++].store(chunk, std::memory_order_release);
  }

  // Nobody can reach the object any more. A place whose generations are used up is never given out again.
  void recycle(Slot& s, uint64_t handle) {
    delete std::exchange(s.object, nullptr);
    const uint64_t generation = (s.word.load(std::memory_order_relaxed) >> 32) + 1;
    const std::lock_guard lock(mutex_);
    s.word.store(generation << 32, std::memory_order_release);
    if (generation <= kMaxGeneration) free_.push_back(handle & ((uint64_t{1} << kPlaceBits) - 1));
  }

  std::array<std::atomic<Slot*>, kChunks> chunks_{};
  NoForkMutex mutex_;
  std::vector<uint32_t> free_;
  uint32_t used_chunks_ = 0;
  std::atomic<int64_t> count_{0};
};

}  // namespace gluino::c_api
