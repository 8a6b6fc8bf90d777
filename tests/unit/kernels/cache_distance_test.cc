#include "kernels/gemm/cache_distance.h"

#include <gtest/gtest.h>

#include <vector>

namespace gluino::kernels {
namespace {

TEST(CacheDistance, WhatWasReadLatelyIsNearUntilMuchElseIsRead) {
  int64_t much = 1;
  while (!outgrows_cache(much)) much *= 2;
  const std::vector<char> a(64), b(128);
  const auto *first = a.data(), *second = b.data() + 64;
  comes_from_afar(second, much);
  EXPECT_TRUE(comes_from_afar(first, 100)) << "not read lately";
  EXPECT_FALSE(comes_from_afar(first, 100));
  comes_from_afar(second, 100);
  EXPECT_FALSE(comes_from_afar(first, 100));
  comes_from_afar(second, much);
  EXPECT_TRUE(comes_from_afar(first, 100));
  EXPECT_FALSE(comes_from_afar(first, 100));
}

TEST(CacheDistance, WhatIsLargerThanTheCachePushesItselfOut) {
  int64_t much = 1;
  while (!outgrows_cache(much)) much *= 2;
  const std::vector<char> data(64);
  comes_from_afar(data.data(), much);
  EXPECT_TRUE(comes_from_afar(data.data(), much));
}

}  // namespace
}  // namespace gluino::kernels
