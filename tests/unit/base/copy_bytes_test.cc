// Copies of every length around the borders, to places just after the source within a page and elsewhere.
#include "base/copy_bytes.h"

#include <vector>

#include "support/support.h"

namespace gluino::test {
namespace {

TEST(CopyBytes, WritesTheBytesAndNoOthers) {
  constexpr int64_t kPage = 4096;
  std::vector<char> from(3 * kPage), all(4 * kPage);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + i / 256);
  const int64_t base = (reinterpret_cast<intptr_t>(from.data()) - reinterpret_cast<intptr_t>(all.data())) % kPage + kPage;
  for (const int64_t bytes : {0, 1, 63, 64, 2047, 2048, 2049, 2112, 4095, 5000})
    for (const int64_t after : {-1, 0, 1, 12, 31, 32, 63, 64, 100}) {
      std::fill(all.begin(), all.end(), 'x');
      char* to = all.data() + base + after;
      copy_bytes(to, from.data(), bytes);
      ASSERT_TRUE(std::equal(from.begin(), from.begin() + bytes, to)) << bytes << " " << after;
      ASSERT_EQ(std::count(all.begin(), all.end(), 'x'),
                static_cast<int64_t>(all.size()) - bytes + std::count(from.begin(), from.begin() + bytes, 'x'));
      ASSERT_EQ(to[-1], 'x');
      ASSERT_EQ(to[bytes], 'x');
    }
}

TEST(CopyBytes, MovesPiecesOfEverySize) {
  for (const int64_t bytes : {0, 1, 2, 3, 4, 8, 12, 32, 100}) {
    constexpr int64_t kPieces = 37;
    std::vector<char> from(static_cast<size_t>(kPieces * bytes)), to(from.size());
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 13);
    const auto turned = [&](int64_t i) { return from.data() + (kPieces - 1 - i) * bytes; };
    copy_pieces(
        bytes, kPieces, [&](int64_t i) { return to.data() + i * bytes; }, turned);
    for (int64_t i = 0; i < kPieces; ++i) ASSERT_TRUE(std::equal(turned(i), turned(i) + bytes, to.data() + i * bytes)) << bytes;
  }
}

}  // namespace
}  // namespace gluino::test
