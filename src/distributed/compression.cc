#include "distributed/compression.h"

#include <algorithm>
#include <cstring>

#include "kernels/isa/primitives.h"

namespace gluino::distributed {
namespace {

constexpr uint8_t kUp = 1, kDown = 2;  // else 0

int8_t level_of(const uint8_t* codes, int64_t i) {
  const int code = codes[i / 4] >> (2 * (i % 4)) & 3;
  return code == kUp ? int8_t{1} : code == kDown ? int8_t{-1} : int8_t{0};
}

}  // namespace

void quantize_two_bit(const float* values, float* residual, uint8_t* codes, int64_t count, float threshold) {
  std::memset(codes, 0, static_cast<size_t>((count + 3) / 4));
  for (int64_t i = 0; i < count; ++i) {
    residual[i] += values[i];
    uint8_t code = 0;
    if (residual[i] >= threshold) {
      code = kUp;
      residual[i] -= threshold;
    } else if (residual[i] <= -threshold) {
      code = kDown;
      residual[i] += threshold;
    }
    codes[i / 4] = static_cast<uint8_t>(codes[i / 4] | code << (2 * (i % 4)));
  }
}

// Each rank adds up its part of the codes as whole numbers; these are what all others get.
void all_reduce_two_bit_now(Engine& engine, const uint8_t* codes, float* out, int64_t count, float threshold) {
  const int ranks = engine.size();
  const int64_t bytes = (count + 3) / 4;
  const std::vector<int64_t> to = part_offsets(bytes, ranks);
  const int64_t own = to[engine.rank() + 1] - to[engine.rank()];
  std::vector<int64_t> from, sums_offsets;
  for (int r = 0; r <= ranks; ++r) {
    from.push_back(r * own);
    sums_offsets.push_back(to[r] * 4 * static_cast<int64_t>(sizeof(int16_t)));
  }
  std::vector<char> received(static_cast<size_t>(from.back()));
  std::vector<int16_t> sums(static_cast<size_t>(bytes * 4));
  if (ranks > 1)
    engine.complete(engine.transport().all_to_all({const_cast<char*>(reinterpret_cast<const char*>(codes)), to.data()},
                                                  {received.data(), from.data()}));
  int16_t* mine = sums.data() + to[engine.rank()] * 4;
  for (int r = 0; r < ranks; ++r) {
    const auto* part = r == engine.rank() ? codes + to[r] : reinterpret_cast<const uint8_t*>(received.data()) + from[r];
    for (int64_t i = 0; i < own * 4; ++i) mine[i] = static_cast<int16_t>(mine[i] + level_of(part, i));
  }
  all_gather_pieces_now(engine, reinterpret_cast<const char*>(mine), reinterpret_cast<char*>(sums.data()), sums_offsets);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(sums[static_cast<size_t>(i)]) * threshold;
}

void all_reduce_narrow_now(Engine& engine, const float* values, float* out, int64_t count, DType narrow) {
  std::vector<char> bits(static_cast<size_t>(2 * count));
  kernels::convert(values, DType::float32, bits.data(), narrow, count);
  all_reduce_now(engine, bits.data(), bits.data(), count, narrow, Reduce::sum);
  kernels::convert(bits.data(), narrow, out, DType::float32, count);
}

std::optional<std::vector<int64_t>> touched_rows(const float* values, int64_t rows, int64_t row_size, int64_t most) {
  std::vector<int64_t> touched;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = values + r * row_size;
    if (std::all_of(row, row + row_size, [](float v) { return v == 0; })) continue;
    if (static_cast<int64_t>(touched.size()) == most) return std::nullopt;
    touched.push_back(r);
  }
  return touched;
}

int64_t all_reduce_rows_now(Engine& engine, const float* values, const std::vector<int64_t>& touched, float* out, int64_t rows,
                            int64_t row_size) {
  const int ranks = engine.size();
  const auto count = static_cast<int64_t>(touched.size()), row_bytes = row_size * static_cast<int64_t>(sizeof(float));
  std::vector<int64_t> counts(static_cast<size_t>(ranks)), number_offsets{0}, value_offsets{0};
  all_gather_now(engine, reinterpret_cast<const char*>(&count), reinterpret_cast<char*>(counts.data()), sizeof count);
  for (const int64_t n : counts) {
    number_offsets.push_back(number_offsets.back() + n * static_cast<int64_t>(sizeof(int64_t)));
    value_offsets.push_back(value_offsets.back() + n * row_bytes);
  }
  std::vector<char> own(static_cast<size_t>(count * row_bytes)), all_values(static_cast<size_t>(value_offsets.back()));
  std::vector<int64_t> numbers(static_cast<size_t>(number_offsets.back()) / sizeof(int64_t));
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(own.data() + i * row_bytes, values + touched[static_cast<size_t>(i)] * row_size, static_cast<size_t>(row_bytes));
  all_gather_pieces_now(engine, reinterpret_cast<const char*>(touched.data()), reinterpret_cast<char*>(numbers.data()), number_offsets);
  all_gather_pieces_now(engine, own.data(), all_values.data(), value_offsets);
  std::fill(out, out + rows * row_size, 0.0f);
  // In the order of the ranks, as everything is added up.
  const auto* row = reinterpret_cast<const float*>(all_values.data());
  for (const int64_t number : numbers) {
    float* sum = out + number * row_size;
    for (int64_t i = 0; i < row_size; ++i) sum[i] += row[i];
    row += row_size;
  }
  return count * (row_bytes + static_cast<int64_t>(sizeof(int64_t))) * (ranks - 1);
}

}  // namespace gluino::distributed
