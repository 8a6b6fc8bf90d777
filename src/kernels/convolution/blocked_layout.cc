#include "kernels/convolution/blocked_layout.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(BlockTable, kBlockTable, block_table)

namespace {

// Calls f(channels, place in the plain layout, place in the blocked one) for every block.
template <class F>
void for_each_block(int64_t batch, int64_t channels, int64_t area, F&& f) {
  const int64_t blocks = blocks_of(channels);
  parallel_for(batch * blocks, kParallelGrain / std::max<int64_t>(area * kChannelBlock, 1), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b % blocks * kChannelBlock;
      f(std::min(kChannelBlock, channels - first), (b / blocks * channels + first) * area, b * area * kChannelBlock);
    }
  });
}

}  // namespace

void to_blocked(int64_t batch, int64_t channels, int64_t area, const float* plain, float* blocked) {
  for_each_block(batch, channels, area,
                 [&](int64_t count, int64_t from, int64_t to) { block_table().to_block(count, area, plain + from, blocked + to); });
}

void from_blocked(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* plain) {
  for_each_block(batch, channels, area, [&](int64_t count, int64_t to, int64_t from) {
    block_table().from_block(count, area, blocked + from, kChannelBlock, plain + to, area);
  });
}

std::vector<float> padded_bias(const float* bias, int64_t channels) {
  std::vector<float> padded(blocks_of(channels) * kChannelBlock, 0.0f);
  if (bias) std::copy_n(bias, channels, padded.data());
  return padded;
}

}  // namespace gluino::kernels
