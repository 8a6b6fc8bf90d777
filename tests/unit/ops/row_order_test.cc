// Rows of every dtype, length and count in order, beside a stable sort that compares elements as the documents say: NaN is the largest,
// equal elements stay in order.
#include "ops/index/row_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "gluino/dtype.h"

namespace gluino::ops {
namespace {

template <class T>
bool is_before(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    using Real = std::conditional_t<sizeof(T) == sizeof(double), double, float>;
    const Real x = static_cast<Real>(a), y = static_cast<Real>(b);
    return std::isnan(y) ? !std::isnan(x) : x < y;
  }
}

// Numbers of all sizes, with repetitions and what is no number.
template <class T>
std::vector<T> random_row(std::mt19937_64& random, int64_t n) {
  const int kind = static_cast<int>(random() % 4);
  auto row = std::vector<T>();
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T>) {
      row.push_back(static_cast<T>(kind == 0 ? random() : random() % 5));
    } else {
      constexpr float kSpecial[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 1e-42f, -1e-42f, 1, -1};
      const auto drawn = static_cast<float>(static_cast<double>(random() % 2000000) / 1e6 - 1);
      row.push_back(static_cast<T>(kind == 0   ? kSpecial[random() % std::size(kSpecial)]
                                   : kind == 1 ? std::round(drawn * 3)
                                               : drawn * std::pow(10.0f, static_cast<float>(random() % 20) - 10)));
    }
  }
  return row;
}

template <class T>
void expect_orders(uint64_t seed) {
  std::mt19937_64 random(seed);
  RowOrder<T> order;
  for (int64_t n : {0, 1, 2, 7, 127, 128, 129, 300, 1000, 5000})
    for (int64_t count : {int64_t{0}, int64_t{1}, n / 20, n / 9, n / 2, n})
      for (bool ascending : {true, false}) {
        if (count > n) continue;
        const std::vector<T> row = random_row<T>(random, n);
        const auto plain = std::make_unique<T[]>(row.size());
        std::copy(row.begin(), row.end(), plain.get());
        std::vector<int64_t> want(row.size());
        std::iota(want.begin(), want.end(), int64_t{0});
        std::stable_sort(want.begin(), want.end(),
                         [&](int64_t a, int64_t b) { return ascending ? is_before<T>(row[a], row[b]) : is_before<T>(row[b], row[a]); });
        const auto got = order.sort(plain.get(), n, count, ascending);
        ASSERT_EQ(static_cast<int64_t>(got.size()), count);
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(place_of(got[i]), want[i]) << "element " << i << " of " << count << " among " << n << (ascending ? ", up" : ", down");
      }
}

TEST(RowOrder, IsThatOfAStableSort) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    expect_orders<float>(seed);
    expect_orders<double>(seed);
    expect_orders<float16>(seed);
    expect_orders<bfloat16>(seed);
    expect_orders<int8_t>(seed);
    expect_orders<uint8_t>(seed);
    expect_orders<int32_t>(seed);
    expect_orders<int64_t>(seed);
    expect_orders<uint64_t>(seed);
    expect_orders<bool>(seed);
  }
}

}  // namespace
}  // namespace gluino::ops
