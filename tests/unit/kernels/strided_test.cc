// A row that is repeated: shorter and longer than the blocks that are copied together, of every width.
#include "kernels/elementwise/strided.h"

#include <vector>

#include "support/support.h"

namespace gluino::test {
namespace {

TEST(CopyStrided, RepeatsRows) {
  for (const int bytes : {1, 2, 4, 8})
    for (const int64_t n : {1, 3, 17, 64, 513, 2048, 5000})
      for (const int64_t rows : {1, 2, 63, 65, 1000}) {
        std::vector<char> row(static_cast<size_t>(n * bytes)), out(static_cast<size_t>((rows * n + 1) * bytes), 'x');
        for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<char>(i * 31 + i / 100);
        kernels::copy_strided(bytes, Shape{rows, n}, row.data(), Shape{0, 1}, out.data(), Shape{n, 1});
        for (int64_t r = 0; r < rows; ++r)
          ASSERT_TRUE(std::equal(row.begin(), row.end(), out.begin() + r * n * bytes)) << bytes << " " << n;
        ASSERT_EQ(out[static_cast<size_t>(rows * n * bytes)], 'x');
      }
}

}  // namespace
}  // namespace gluino::test
