// The order of the elements of a row: elements become whole numbers that sort as they do, so that one sort serves all dtypes.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gluino::ops {

template <class T>
using OrderKey = std::conditional_t<(sizeof(T) <= sizeof(uint32_t)), uint32_t, uint64_t>;

// Smaller elements have smaller keys; -0 has that of 0, NaN the largest.
template <class T>
OrderKey<T> order_key(T x) {
  using Key = OrderKey<T>;
  constexpr Key kSign = Key{1} << (std::numeric_limits<Key>::digits - 1);
  if constexpr (std::is_integral_v<T>) {
    return std::is_signed_v<T> ? static_cast<Key>(x) ^ kSign : static_cast<Key>(x);
  } else {
    using Real = std::conditional_t<sizeof(Key) == sizeof(double), double, float>;
    const Real v = static_cast<Real>(x) + Real(0);
    const Key bits = std::bit_cast<Key>(v);
    return v != v ? ~Key{0} : bits & kSign ? ~bits : bits | kSign;
  }
}

// A key and where its element stands; in the order of keys, equal ones in that of their places.
template <class Key>
struct Placed {
  uint64_t key;
  uint64_t place;
  static Placed of(Key key, int64_t place) { return {key, static_cast<uint64_t>(place)}; }
  auto operator<=>(const Placed&) const = default;
};
template <>
struct Placed<uint32_t> {
  uint64_t packed;
  static Placed of(uint32_t key, int64_t place) { return {uint64_t{key} << 32 | static_cast<uint32_t>(place)}; }
  auto operator<=>(const Placed&) const = default;
};
inline uint64_t key_of(const Placed<uint64_t>& p) { return p.key; }
inline uint64_t key_of(const Placed<uint32_t>& p) { return p.packed >> 32; }
inline int64_t place_of(const Placed<uint64_t>& p) { return static_cast<int64_t>(p.place); }
inline int64_t place_of(const Placed<uint32_t>& p) { return static_cast<int64_t>(p.packed & 0xffffffff); }

// Sorts rows one after the other, in memory that is kept between them.
template <class T>
class RowOrder {
 public:
  using Key = OrderKey<T>;
  using Item = Placed<Key>;
  static constexpr int64_t kLongest =
      sizeof(Key) == sizeof(uint32_t) ? std::numeric_limits<uint32_t>::max() : std::numeric_limits<int64_t>::max();

  // The first `count` of `n` elements, at most kLongest, in order.
  std::span<const Item> sort(const T* row, int64_t n, int64_t count, bool ascending) {
    keys_.resize(static_cast<size_t>(n));
    const Key flip = ascending ? Key{0} : ~Key{0};
    for (int64_t i = 0; i < n; ++i) keys_[i] = order_key(row[i]) ^ flip;
    if (count < n / kFewAre)
      select(count);
    else
      take_all();
    return {items_.data(), static_cast<size_t>(std::min(count, n))};
  }

 private:
  static constexpr int64_t kFewAre = 8;  // to choose an eighth and less, not all are put in order
  static constexpr size_t kFew = 64;
  static constexpr size_t kLongRow = 128;  // from here on digits are faster than comparisons
  static constexpr int kDigit = 8, kDigits = sizeof(Key);

  void take_all() {
    items_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) items_[i] = Item::of(keys_[i], static_cast<int64_t>(i));
    if (items_.size() < kLongRow || items_.size() > std::numeric_limits<uint32_t>::max())
      std::sort(items_.begin(), items_.end());
    else
      sort_by_digits();
  }

  // From the last digit to the first, each time keeping the order so far.
  void sort_by_digits() {
    std::array<std::array<uint32_t, 1 << kDigit>, kDigits> counts{};
    for (Key key : keys_)
      for (int d = 0; d < kDigits; ++d) ++counts[d][digit(key, d)];
    spare_.resize(items_.size());
    for (int d = 0; d < kDigits; ++d) {
      auto& count = counts[d];
      if (count[digit(keys_[0], d)] == keys_.size()) continue;  // all have the same
      uint32_t next = 0;
      for (uint32_t& c : count) next += std::exchange(c, next);
      for (const Item& item : items_) spare_[count[digit(static_cast<Key>(key_of(item)), d)]++] = item;
      items_.swap(spare_);
    }
  }
  static size_t digit(Key key, int d) { return static_cast<size_t>(key >> (kDigit * d)) & ((1 << kDigit) - 1); }

  // The best so far, and behind them others that came before the last of these: later elements that equal it come behind it. Few are put
  // where they belong at once, many are chosen from when there are twice as many.
  void select(int64_t count) {
    const auto wanted = static_cast<size_t>(std::max<int64_t>(count, 1)), most = wanted <= kFew ? wanted : 2 * wanted, n = keys_.size();
    items_.clear();
    for (size_t i = 0; i < wanted; ++i) items_.push_back(Item::of(keys_[i], static_cast<int64_t>(i)));
    std::sort(items_.begin(), items_.end());
    Key limit = static_cast<Key>(key_of(items_.back()));
    constexpr size_t kBlock = 32;
    for (size_t at = wanted; at < n; at += kBlock) {
      const size_t end = std::min(n, at + kBlock);
      int any = 0;
      for (size_t i = at; i < end; ++i) any |= keys_[i] < limit;
      for (size_t i = at; any && i < end; ++i) {
        if (keys_[i] >= limit) continue;
        const Item item = Item::of(keys_[i], static_cast<int64_t>(i));
        if (most == wanted) {
          items_.pop_back();
          items_.insert(std::upper_bound(items_.begin(), items_.end(), item), item);
          limit = static_cast<Key>(key_of(items_.back()));
        } else {
          items_.push_back(item);
          if (items_.size() == most) limit = keep_best(wanted);
        }
      }
    }
    if (most > wanted) {
      keep_best(wanted);
      std::sort(items_.begin(), items_.end());
    }
  }
  // Gives the key of the last one.
  Key keep_best(size_t wanted) {
    const auto last = items_.begin() + static_cast<ptrdiff_t>(wanted) - 1;
    std::nth_element(items_.begin(), last, items_.end());
    items_.resize(wanted);
    return static_cast<Key>(key_of(items_.back()));
  }

  std::vector<Key> keys_;
  std::vector<Item> items_, spare_;
};

}  // namespace gluino::ops
