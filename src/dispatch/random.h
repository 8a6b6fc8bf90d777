// The generators' state and Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A number depends only on (seed, stream, element): streams are handed out one per operator call.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "gluino/device.h"

namespace gluino {

struct RandomStream {
  uint64_t seed, stream;
  bool operator==(const RandomStream&) const = default;

  // Four words for block `block`.
  std::array<uint32_t, 4> words(uint64_t block) const {
    uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = static_cast<uint32_t>(stream),
             c3 = static_cast<uint32_t>(stream >> 32);
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53} * c0, b = uint64_t{0xCD9E8D57} * c2;
      const uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
      c1 = static_cast<uint32_t>(b);
      c3 = static_cast<uint32_t>(a);
      c0 = n0;
      c2 = n2;
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return {c0, c1, c2, c3};
  }
};

// A stream of its own for one operator call.
RandomStream next_random_stream(Device device);
RandomStream peek_random_stream(Device device);  // what the next call will get
using RandomStreams = std::array<RandomStream, Device::kMaxDevices>;
RandomStreams peek_random_streams();  // of all devices

// Ranks of one job draw the same numbers from the same seed, so that they begin with the same weights; what must differ among them
// although the seed is one, what dropout leaves out, is drawn from this stream. For rank 0 it is the same.
RandomStream of_this_rank(RandomStream stream);
void set_random_rank(int rank);

// While it lives, this thread draws the streams from `first` on instead of the device's: for work that is done again
// and must see the same numbers.
class [[nodiscard]] ReplayRandom {
 public:
  ReplayRandom(Device device, RandomStream first);
  ~ReplayRandom();
  ReplayRandom(const ReplayRandom&) = delete;
  ReplayRandom& operator=(const ReplayRandom&) = delete;
  RandomStream next() const { return next_; }

 private:
  friend void seed(uint64_t seed, std::optional<Device> device);
  friend RandomStream next_random_stream(Device);
  friend RandomStream peek_random_stream(Device);
  friend void advance_random_stream(Device, const RandomStream&);
  static ReplayRandom* of(Device device);  // the innermost, or null
  Device device_;
  RandomStream next_;
  ReplayRandom* outer_;
};
// The streams before `next` have been drawn by replaying what peek_random_stream gave: nobody gets them again.
void advance_random_stream(Device device, const RandomStream& next);

// In [0, 1): 24 bits of one word, or 53 of two.
inline float unit_float(uint32_t w) { return static_cast<float>(w >> 8) * 0x1p-24f; }
inline double unit_double(uint32_t high, uint32_t low) { return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53; }

// As many numbers as one element needs: attempt t of element i is block i + t * 2^44.
class ElementRandom {
 public:
  static constexpr uint64_t kNextBlock = uint64_t{1} << 44;
  ElementRandom(const RandomStream& stream, int64_t element) : stream_(stream), block_(static_cast<uint64_t>(element)) {}
  double uniform() {  // in [0, 1)
    if (used_ == 4) {
      words_ = stream_.words(block_);
      block_ += kNextBlock;
      used_ = 0;
    }
    used_ += 2;
    return unit_double(words_[used_ - 2], words_[used_ - 1]);
  }
  double positive() { return 1 - uniform(); }  // in (0, 1]

 private:
  const RandomStream& stream_;
  uint64_t block_;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
};

}  // namespace gluino
