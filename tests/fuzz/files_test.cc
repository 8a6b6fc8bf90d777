// Damaged files: cut at every length, every bit turned over, absurd numbers at every place. Each must load or raise a
// gluino::Error, and allocate little.
#include <cstring>

#include "fuzz/targets.h"
#include "gluino/error.h"
#include "support/params_bytes.h"
#include "support/support.h"

namespace gluino::fuzz {
namespace {

class DamagedFile : public ::testing::TestWithParam<const Target*> {
 protected:
  // Every seed; all positions of a short one, about `budget` positions of a long one.
  template <class F>
  void for_positions(size_t budget, F&& f) {
    for (const std::string& seed : GetParam()->seeds()) {
      const size_t stride = std::max<size_t>(1, seed.size() / budget);
      for (size_t at = 0; at < seed.size(); at += stride) f(seed, at);
    }
  }
  void check(const std::string& bytes, const std::string& what, size_t at) {
    const std::string problem = run(*GetParam(), bytes);
    ASSERT_EQ(problem, "") << GetParam()->name << ", " << what << " at byte " << at;
  }
};

TEST_P(DamagedFile, SeedsAreWhole) {
  for (const std::string& seed : GetParam()->seeds()) EXPECT_NO_THROW(GetParam()->read(seed));
}

TEST_P(DamagedFile, CutAtEveryLength) {
  for_positions(4000, [&](const std::string& seed, size_t at) { check(seed.substr(0, at), "cut", at); });
}

TEST_P(DamagedFile, CutFilesOfNumbersNeverLoad) {
  if (GetParam() == &kSymbolJson || GetParam() == &kGraphText) GTEST_SKIP() << "text may be cut after its last bracket";
  if (GetParam() == &kRecords) GTEST_SKIP() << "records may be cut between two of them";
  for_positions(4000, [&](const std::string& seed, size_t at) { EXPECT_THROW(GetParam()->read(seed.substr(0, at)), Error) << at; });
}

TEST_P(DamagedFile, EveryBitTurnedOver) {
  for_positions(1500, [&](const std::string& seed, size_t at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = seed;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      check(bytes, "bit turned over", at);
    }
  });
}

TEST_P(DamagedFile, AbsurdNumbersEverywhere) {
  const uint64_t absurd[] = {0,           1, 0x7fffffff, 0x80000000, 0xffffffff, uint64_t{1} << 40, 0x7fffffffffffffff, 0x8000000000000000,
                             ~uint64_t{0}};
  for_positions(1500, [&](const std::string& seed, size_t at) {
    for (uint64_t number : absurd)
      for (size_t width : {size_t{1}, size_t{4}, size_t{8}}) {
        std::string bytes = seed;
        std::memcpy(bytes.data() + at, &number, std::min(width, bytes.size() - at));
        check(bytes, "number " + std::to_string(number), at);
      }
  });
}

// Decimal numbers of text formats replaced by extreme ones.
TEST_P(DamagedFile, AbsurdDecimalNumbers) {
  for (const std::string& seed : GetParam()->seeds())
    for (size_t at = 0; at < seed.size(); ++at) {
      if (!std::isdigit(static_cast<unsigned char>(seed[at])) || (at > 0 && std::isdigit(static_cast<unsigned char>(seed[at - 1]))))
        continue;
      size_t end = at;
      while (end < seed.size() && std::isdigit(static_cast<unsigned char>(seed[end]))) ++end;
      for (const char* number : {"0", "-1", "2147483647", "2147483648", "-2147483648", "4294967296", "9223372036854775807",
                                 "-9223372036854775808", "1e308", "nan", ""})
        check(seed.substr(0, at) + number + seed.substr(end), std::string("decimal ") + number, at);
    }
}

INSTANTIATE_TEST_SUITE_P(Readers, DamagedFile,
                         ::testing::Values(&kParams, &kNpy, &kNpz, &kSafetensors, &kSymbolJson, &kGraphText, &kStates, &kRecords, &kModel,
                                           &kCache),
                         [](const auto& info) { return std::string(info.param->name); });

// Sparse arrays whose indices promise more than the file holds.
TEST(HostileParams, RepeatedCsrRowsAreRefused) {
  test::Bytes b;
  constexpr int64_t kRows = 2000, kValues = 2000;
  b.u64(0x112).u64(0).u64(1).u32(0xF993fac9).i32(2).u32(1).i64(kValues).u32(2).i64(kRows).i64(4).i32(1).i32(0).i32(0);
  b.i32(6).u32(1).i64(kRows + 1).i32(6).u32(1).i64(kValues);
  for (int64_t i = 0; i < kValues; ++i) b.f32(1);
  for (int64_t i = 0; i <= kRows; ++i) b.i64(i % 2 ? kValues : 0);  // every second row reads everything again
  for (int64_t i = 0; i < kValues; ++i) b.i64(0);
  b.u64(0);
  EXPECT_EQ(run(kParams, b.str()), "");
  GLUINO_EXPECT_ERROR(SystemError, "csr indptr goes down", kParams.read(b.str()));
}

TEST(HostileParams, SparseShapesFarBeyondTheFileAreRefused) {
  test::Bytes b;
  b.u64(0x112).u64(0).u64(1).u32(0xF993fac9).i32(1).u32(2).i64(0).i64(1 << 20).u32(2).i64(1 << 20).i64(1 << 20).i32(1).i32(0).i32(0);
  b.i32(6).u32(1).i64(0).u64(0);
  GLUINO_EXPECT_ERROR(SystemError, "would take", kParams.read(b.str()));
}

TEST(HostileText, DeepNestingIsRefused) {
  for (const char* open : {"[", "{\"nodes\":[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 200000; ++i) deep += open;
    EXPECT_EQ(run(kSymbolJson, deep), "");
  }
  std::string sub = R"({"nodes": [{"op": "null", "name": "x"}], "heads": [[0, 0]]})";
  for (int i = 0; i < 5000; ++i) sub = R"({"heads":[[0,0]],"nodes":[{"op":"null","name":"x","subgraphs":[)" + sub + "]}]}";
  EXPECT_EQ(run(kSymbolJson, sub), "");
  EXPECT_EQ(run(kGraphText, "graph(" + std::string(200000, '(')), "");
}

}  // namespace
}  // namespace gluino::fuzz
