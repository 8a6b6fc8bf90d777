// Included by blocked_layout_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set.
#include "kernels/convolution/blocked_layout.h"
#include "kernels/isa/lanes.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

void to_block(int64_t channels, int64_t area, const float* plain, float* block) {
  int64_t i = 0;
  for (; i + kLanes <= area; i += kLanes) {
    Lanes v[kLanes];
    for (int64_t c = 0; c < kLanes; ++c) v[c] = c < channels ? load(plain + c * area + i) : spread(0.0f);
    transpose(v);
    for (int64_t c = 0; c < kLanes; ++c) store(block + (i + c) * kLanes, v[c]);
  }
  for (; i < area; ++i)
    for (int64_t c = 0; c < kLanes; ++c) block[i * kLanes + c] = c < channels ? plain[c * area + i] : 0.0f;
}

template <bool kAdd>
void from_block(int64_t channels, int64_t area, const float* block, int64_t block_step, float* plain, int64_t plain_step) {
  int64_t i = 0;
  for (; i + kLanes <= area; i += kLanes) {
    Lanes v[kLanes];
    for (int64_t c = 0; c < kLanes; ++c) v[c] = load(block + (i + c) * block_step);
    transpose(v);
    for (int64_t c = 0; c < kLanes; ++c)
      if (c < channels) store(plain + c * plain_step + i, kAdd ? load(plain + c * plain_step + i) + v[c] : v[c]);
  }
  for (; i < area; ++i)
    for (int64_t c = 0; c < channels; ++c) {
      float& to = plain[c * plain_step + i];
      to = kAdd ? to + block[i * block_step + c] : block[i * block_step + c];
    }
}

void limit(int64_t vectors, float most, float* block) {
  for (int64_t i = 0; i < vectors; ++i) store(block + i * kLanes, relu(load(block + i * kLanes), most));
}

}  // namespace

extern const BlockTable kBlockTable;
const BlockTable kBlockTable = {to_block, from_block<false>, from_block<true>, limit};

}  // namespace gluino::kernels::GLUINO_ISA
