#include "base/name_pattern.h"

#include "support/support.h"

namespace gluino::test {
namespace {

TEST(NamePattern, FitsTheBeginningOfAName) {
  const NamePattern weights("dense[0-9]+_(weight|bias)");
  EXPECT_TRUE(weights.fits_beginning("dense0_weight"));
  EXPECT_TRUE(weights.fits_beginning("dense12_bias_more"));
  EXPECT_FALSE(weights.fits_beginning("net_dense0_weight"));
  EXPECT_FALSE(weights.fits_beginning("dense_weight"));
}

TEST(NamePattern, AWrongOneIsTheCallersMistake) { GLUINO_EXPECT_ERROR(UserError, "'dense(' is not a pattern", NamePattern("dense(")); }

}  // namespace
}  // namespace gluino::test
