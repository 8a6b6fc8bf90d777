#include "kernels/gemm/attention.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_tiles.h"
#include "kernels/rows/rows.h"

namespace gluino::kernels {
namespace {

constexpr int64_t kMostRows = 8 * kTileRows;
constexpr int64_t kScores = 1 << 14;  // of a block: they stay in the second-level cache beside keys and values

int64_t rows_at_once(const AttentionGeometry& g) {
  return std::clamp(kScores / std::max<int64_t>(g.keys, 1) / kTileRows * kTileRows, kTileRows, kMostRows);
}

}  // namespace

void attention(const AttentionGeometry& g, const float* query, const float* key, const float* value, const ChangeScores& change, float* out,
               const Scratch& scratch) {
  const int64_t matrices = g.batch * g.heads, key_size = packed_elements(g.depth, g.keys),
                value_size = packed_elements(g.keys, g.value_depth);
  float *keys = floats(matrices * key_size, scratch), *values = floats(matrices * value_size, scratch);
  parallel_for(matrices, kParallelGrain / std::max<int64_t>(key_size + value_size, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      pack_factor(true, g.depth, g.keys, key + g.key.offset(m, g.heads), g.key.row, keys + m * key_size);
      pack_factor(false, g.keys, g.value_depth, value + g.value.offset(m, g.heads), g.value.row, values + m * value_size);
    }
  });

  const int64_t most_rows = rows_at_once(g), blocks = (g.queries + most_rows - 1) / most_rows;
  const int64_t work = most_rows * g.keys * (g.depth + g.value_depth);
  parallel_for(matrices * blocks, 8 * kParallelGrain / std::max<int64_t>(work, 1) + 1, [&](int64_t begin, int64_t end) {
    std::vector<float> memory(most_rows * (g.keys + g.depth) + g.keys);
    float *scores = memory.data(), *scaled = scores + most_rows * g.keys, *exps = scaled + most_rows * g.depth;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t m = item / blocks, first = item % blocks * most_rows, rows = std::min(most_rows, g.queries - first);
      const float* from = query + g.query.offset(m, g.heads) + first * g.query.row;
      int64_t step = g.query.row;
      if (g.query_scale != 1) {
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t d = 0; d < g.depth; ++d) scaled[i * g.depth + d] = from[i * step + d] * g.query_scale;
        from = scaled;
        step = g.depth;
      }
      gemm_packed({rows, g.keys, g.depth}, {from, step}, keys + m * key_size, false, {scores, g.keys});
      if (change) change(m, first, rows, scores);
      for (int64_t i = 0; i < rows; ++i) row_functions<float>().softmax(scores + i * g.keys, g.keys, g.score_scale, false, exps);
      gemm_packed({rows, g.value_depth, g.keys}, {scores, g.keys}, values + m * value_size, false,
                  {out + g.out.offset(m, g.heads) + first * g.out.row, g.out.row});
    }
  });
}

}  // namespace gluino::kernels
