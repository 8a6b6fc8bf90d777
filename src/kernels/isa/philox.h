// Words of Philox4x32-10 (dispatch/random.h says what they are for), many blocks at a time; one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

struct PhiloxTable {
  // words[4 * b + j] = word j of block first + b, for b < blocks.
  void (*words)(uint64_t seed, uint64_t stream, uint64_t first, int64_t blocks, uint32_t* words);
};
const PhiloxTable& philox_table();

}  // namespace gluino::kernels
