// Our float32 products against sums in double precision, and against themselves packed, unpacked, row by row.
#include "kernels/gemm/gemm.h"

#include <cmath>
#include <random>
#include <vector>

#include "support/support.h"

namespace gluino::test {
namespace {

using Matrix = std::vector<float>;

Matrix random_matrix(int64_t elements, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Matrix m(static_cast<size_t>(elements));
  for (float& v : m) v = uniform(engine);
  return m;
}

struct Sizes {
  int64_t m, n, k;
};
// Around the edges of tiles (6 x 16), of blocks of rows (144) and of blocks of terms (256).
const Sizes kSizes[] = {{1, 1, 1},     {1, 40, 33},   {1, 5, 300},   {2, 16, 256},   {5, 17, 257}, {6, 16, 16},
                        {7, 31, 512},  {13, 100, 70}, {97, 33, 129}, {200, 48, 600}, {12, 1, 9},   {64, 2, 128},
                        {1, 100, 521}, {2, 70, 300},  {3, 90, 100},  {150, 20, 30},  {31, 1, 300}};

TEST(Gemm, IsTheSumOfProductsForEveryTransposition) {
  for (const Sizes& s : kSizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const float beta : {0.0f, 1.0f}) {
          const Matrix a = random_matrix(s.m * s.k, 1), b = random_matrix(s.k * s.n, 2);
          Matrix c = random_matrix(s.m * s.n, 3);
          const Matrix before = c;
          kernels::gemm<float>({s.m, s.n, s.k}, {a.data(), ta ? s.m : s.k, ta}, {b.data(), tb ? s.k : s.n, tb}, {c.data(), s.n},
                               {.old = beta});
          for (int64_t i = 0; i < s.m; ++i)
            for (int64_t j = 0; j < s.n; ++j) {
              double sum = 0, size = 0;
              for (int64_t p = 0; p < s.k; ++p) {
                const double term =
                    static_cast<double>(a[ta ? p * s.m + i : i * s.k + p]) * static_cast<double>(b[tb ? j * s.k + p : p * s.n + j]);
                sum += term;
                size += std::abs(term);
              }
              const auto at = static_cast<size_t>(i * s.n + j);
              sum += static_cast<double>(beta * before[at]);
              ASSERT_NEAR(static_cast<double>(c[at]), sum, 1e-6 * (1 + size))
                  << s.m << " x " << s.n << " x " << s.k << (ta ? " a transposed" : "") << (tb ? " b transposed" : "") << " at " << i
                  << ", " << j;
            }
        }
}

TEST(Gemm, PackedAndUnpackedHaveTheSameBitsWithBiasAndRelu) {
  for (const Sizes& s : kSizes) {
    const Matrix a = random_matrix(s.m * s.k, 1), b = random_matrix(s.k * s.n, 2), bias = random_matrix(s.n, 3);
    for (const bool trans_b : {false, true}) {
      const int64_t ldb = trans_b ? s.k : s.n;
      Matrix direct(static_cast<size_t>(s.m * s.n)), packed(direct), plain(direct);
      const kernels::PackedFactor factor(trans_b, s.k, s.n, b.data(), ldb);
      kernels::gemm_with_epilogue({s.m, s.n, s.k}, {a.data(), s.k}, {b.data(), ldb, trans_b}, {direct.data(), s.n}, {bias.data(), true});
      kernels::gemm_packed({s.m, s.n, s.k}, {a.data(), s.k}, factor.data(), false, {packed.data(), s.n}, {bias.data(), true});
      EXPECT_EQ(direct, packed);
      kernels::gemm_with_epilogue({s.m, s.n, s.k}, {a.data(), s.k}, {b.data(), ldb, trans_b}, {plain.data(), s.n}, {bias.data(), false});
      for (size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(direct[i], std::max(plain[i], 0.0f));
    }
  }
}

TEST(Gemm, ARowDoesNotDependOnTheOthers) {
  const int64_t m = 150, n = 70, k = 300;
  const Matrix a = random_matrix(m * k, 1), b = random_matrix(k * n, 2);
  Matrix all(static_cast<size_t>(m * n));
  kernels::gemm<float>({m, n, k}, {a.data(), k}, {b.data(), n}, {all.data(), n});
  for (const int64_t rows : {1, 2, 3, 7, 90}) {
    Matrix some(static_cast<size_t>(rows * n));
    kernels::gemm<float>({rows, n, k}, {a.data(), k}, {b.data(), n}, {some.data(), n});
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << rows;
  }
}

}  // namespace
}  // namespace gluino::test
