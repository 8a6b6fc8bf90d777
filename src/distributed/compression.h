// How gradients are sent with fewer bytes.
#pragma once
#include <optional>

#include "distributed/collectives.h"

namespace gluino::distributed {

// Values as -threshold, 0 or threshold, four to a byte: out[i / 4]. What is lost stays in `residual`, which is added to the values first.
void quantize_two_bit(const float* values, float* residual, uint8_t* codes, int64_t count, float threshold);

// out = the sum over the ranks of what their codes stand for.
void all_reduce_two_bit_now(Engine& engine, const uint8_t* codes, float* out, int64_t count, float threshold);
// `values` are rounded to a 16-bit type for the way, and so is their sum.
void all_reduce_narrow_now(Engine& engine, const float* values, float* out, int64_t count, DType narrow);

// The rows of `values` that are not all zeros; nullopt where they are more than `most`.
std::optional<std::vector<int64_t>> touched_rows(const float* values, int64_t rows, int64_t row_size, int64_t most);
// out, which may hold anything, becomes the sum over the ranks; returns the bytes that this rank sent.
int64_t all_reduce_rows_now(Engine& engine, const float* values, const std::vector<int64_t>& touched, float* out, int64_t rows,
                            int64_t row_size);

}  // namespace gluino::distributed
