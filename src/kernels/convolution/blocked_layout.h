// The blocked layout of activations: (batch, channels / 8, height, width, 8), with zeros in the padding of the last block.
#pragma once
#include <cstdint>
#include <vector>

namespace gluino::kernels {

inline constexpr int64_t kChannelBlock = 8;
inline int64_t blocks_of(int64_t channels) { return (channels + kChannelBlock - 1) / kChannelBlock; }

// `area` is height * width; the plain layout is (batch, channels, height, width).
void to_blocked(int64_t batch, int64_t channels, int64_t area, const float* plain, float* blocked);
void from_blocked(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* plain);

// A bias for all channels of all blocks: zero where there is none, and in the padding of the last block.
std::vector<float> padded_bias(const float* bias, int64_t channels);

// One block of one image, for `channels` <= 8 that are `area` or plain_step apart in the plain layout, and vectors that are
// 8 or block_step apart in the block; one table per instruction set.
struct BlockTable {
  void (*to_block)(int64_t channels, int64_t area, const float* plain, float* block);
  void (*from_block)(int64_t channels, int64_t area, const float* block, int64_t block_step, float* plain, int64_t plain_step);
  void (*add_block)(int64_t channels, int64_t area, const float* block, int64_t block_step, float* plain,
                    int64_t plain_step);                     // to what is there
  void (*limit)(int64_t vectors, float most, float* block);  // to 0 and most; NaN stays
};
const BlockTable& block_table();

}  // namespace gluino::kernels
