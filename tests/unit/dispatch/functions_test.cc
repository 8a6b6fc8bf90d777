// The generated functions compile and call their operators.
#include "gluino/ops.h"
#include "support/support.h"

namespace gluino::test {
namespace {

TEST(GeneratedFunctions, CallTheirOperators) {
  const Tensor x = tensor({{-1, 2}, {3, -4}});
  EXPECT_TRUE(same_bits(relu(x), tensor({{0, 2}, {3, 0}})));
  EXPECT_TRUE(same_bits(clip(x, {.a_min = -2, .a_max = 1}), tensor({{-1, 1}, {1, -2}})));
  EXPECT_TRUE(close(fully_connected(x, ones({3, 2}), zeros({3}), {.num_hidden = 3}), tensor({{1, 1, 1}, {-1, -1, -1}})));
}

}  // namespace
}  // namespace gluino::test
