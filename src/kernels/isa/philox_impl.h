// Included by philox_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set; GLUINO_ISA names the namespace.
#include <stdint.h>

#include "kernels/isa/philox.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

constexpr int kSideBySide = 16;  // blocks

// Some blocks from counter `first` on; the words of each stand together.
inline void some_blocks(uint64_t seed, uint64_t stream, uint64_t first, uint32_t* words) {
  uint32_t c[4][kSideBySide];
  for (int b = 0; b < kSideBySide; ++b) {
    c[0][b] = static_cast<uint32_t>(first + static_cast<uint64_t>(b));
    c[1][b] = static_cast<uint32_t>((first + static_cast<uint64_t>(b)) >> 32);
    c[2][b] = static_cast<uint32_t>(stream);
    c[3][b] = static_cast<uint32_t>(stream >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int b = 0; b < kSideBySide; ++b) {
      const uint64_t x = uint64_t{0xD2511F53} * c[0][b], y = uint64_t{0xCD9E8D57} * c[2][b];
      const uint32_t n0 = static_cast<uint32_t>(y >> 32) ^ c[1][b] ^ k0, n2 = static_cast<uint32_t>(x >> 32) ^ c[3][b] ^ k1;
      c[1][b] = static_cast<uint32_t>(y);
      c[3][b] = static_cast<uint32_t>(x);
      c[0][b] = n0;
      c[2][b] = n2;
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int b = 0; b < kSideBySide; ++b)
    for (int j = 0; j < 4; ++j) words[4 * b + j] = c[j][b];
}

void words_of(uint64_t seed, uint64_t stream, uint64_t first, int64_t blocks, uint32_t* words) {
  for (; blocks >= kSideBySide; blocks -= kSideBySide, first += kSideBySide, words += 4 * kSideBySide)
    some_blocks(seed, stream, first, words);
  uint32_t rest[4 * kSideBySide];
  if (blocks > 0) some_blocks(seed, stream, first, rest);
  for (int64_t i = 0; i < 4 * blocks; ++i) words[i] = rest[i];
}

}  // namespace

extern const PhiloxTable kPhiloxTable;
const PhiloxTable kPhiloxTable = {words_of};

}  // namespace gluino::kernels::GLUINO_ISA
