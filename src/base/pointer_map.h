// PointerMap: what belongs to each of many objects, by address. One piece of memory for all: a table of pieces costs a graph of many nodes
// more than what is looked up in it.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gluino {

template <class V>
class PointerMap {
 public:
  V* find(const void* key) {
    if (places_.empty()) return nullptr;
    Place& p = places_[place_of(key)];
    return p.key ? &p.value : nullptr;
  }
  const V* find(const void* key) const { return const_cast<PointerMap*>(this)->find(key); }
  bool contains(const void* key) const { return find(key) != nullptr; }
  // `key` must be there.
  const V& at(const void* key) const { return places_[place_of(key)].value; }
  // The value of `key`, which is this one where there was none, and whether that is so.
  std::pair<V&, bool> try_emplace(const void* key, V value) {
    if (2 * (count_ + 1) > places_.size()) grow(places_.empty() ? 16 : 2 * places_.size());
    Place& p = places_[place_of(key)];
    if (p.key) return {p.value, false};
    ++count_;
    p = {key, std::move(value)};
    return {p.value, true};
  }
  void reserve(size_t count) {
    if (const size_t size = std::bit_ceil(2 * (count + 1)); size > places_.size()) grow(size);
  }
  size_t size() const { return count_; }

 private:
  struct Place {
    const void* key = nullptr;
    V value{};
  };
  // Where the key is, or would be.
  size_t place_of(const void* key) const {
    const size_t mask = places_.size() - 1;
    const uint64_t mixed = reinterpret_cast<uintptr_t>(key) * 0x9e3779b97f4a7c15u;
    size_t i = mixed >> 20 & mask;
    while (places_[i].key && places_[i].key != key) i = (i + 1) & mask;
    return i;
  }
  void grow(size_t size) {
    std::vector<Place> old(size);
    old.swap(places_);
    for (Place& p : old)
      if (p.key) places_[place_of(p.key)] = std::move(p);
  }
  std::vector<Place> places_;  // a power of two of them
  size_t count_ = 0;
};

}  // namespace gluino
