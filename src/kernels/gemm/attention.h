// Attention, softmax(f(Q K')) V, over blocks of queries whose scores stay in the cache. Every number is computed as by the products and
// the softmax one after the other: the same bits.
#pragma once
#include <cstdint>
#include <functional>

#include "base/scratch.h"

namespace gluino::kernels {

// Where the matrices of one operand lie: rows of neighbouring numbers `row` apart, matrices `batch` and `head` apart.
struct HeadLayout {
  int64_t row, batch, head;
  int64_t offset(int64_t matrix, int64_t heads) const { return matrix / heads * batch + matrix % heads * head; }
};

struct AttentionGeometry {
  int64_t batch, heads;  // batch * heads matrices
  int64_t queries, keys, depth, value_depth;
  float query_scale;  // of the queries, before the product
  float score_scale;  // of the scores, by softmax
  HeadLayout query, key, value, out;
};

// What happens to rows [first, first + rows) of the scores of a matrix, `keys` numbers each, before their softmax.
using ChangeScores = std::function<void(int64_t matrix, int64_t first, int64_t rows, float* scores)>;

void attention(const AttentionGeometry& g, const float* query, const float* key, const float* value, const ChangeScores& change, float* out,
               const Scratch& scratch);

}  // namespace gluino::kernels
