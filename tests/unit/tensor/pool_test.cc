// The memory pool: statistics per device, alignment, reuse.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <thread>

#include "support/support.h"

namespace gluino::test {
namespace {

// Device ids that no other test allocates on.
const Device kDevice = cpu(5), kOther = cpu(6);

TEST(Pool, CountsWhatIsLive) {
  const int64_t before = memory_stats(kDevice).live, other = memory_stats(kOther).live;
  {
    const Tensor x = zeros({1000}, {DType::float32, kDevice});
    EXPECT_EQ(memory_stats(kDevice).live, before + 4000);
    const Tensor view = x.reshape({10, 100});
    EXPECT_EQ(memory_stats(kDevice).live, before + 4000);
    EXPECT_EQ(memory_stats(kOther).live, other);
  }
  EXPECT_EQ(memory_stats(kDevice).live, before);
}

TEST(Pool, PeakIsTheMostSinceTheLastReset) {
  reset_peak(kDevice);
  const int64_t base = memory_stats(kDevice).live;
  EXPECT_EQ(memory_stats(kDevice).peak, base);
  { const Tensor a = empty({1 << 16}, {DType::uint8, kDevice}), b = empty({1 << 16}, {DType::uint8, kDevice}); }
  { const Tensor c = empty({1 << 16}, {DType::uint8, kDevice}); }
  EXPECT_EQ(memory_stats(kDevice).peak, base + 2 * (1 << 16));
  reset_peak(kDevice);
  EXPECT_EQ(memory_stats(kDevice).peak, base);
}

TEST(Pool, BlocksAreAligned) {
  Tensors all;
  for (int64_t n : {0, 1, 3, 15, 16, 17, 63, 64, 65, 100, 1000, 4097, 100000, 1 << 20})
    for (Device device : {cpu(0), kDevice}) {
      all.push_back(empty({n}, {DType::uint8, device}));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back().data<uint8_t>()) % 64, 0u) << n;
    }
}

// Every byte of a block may be written: size classes must not be smaller than what was asked for.
TEST(Pool, BlocksAreAsLargeAsAsked) {
  for (int64_t n = 1; n < 3000; n += 7) {
    Tensor t = empty({n}, {DType::uint8, kDevice});
    for (int64_t i = 0; i < n; ++i) t.mutable_data<uint8_t>()[i] = 1;
    EXPECT_EQ(t.sum().item<int64_t>() % 256, n % 256);
  }
}

// A program that asks for ever other sizes does not keep a block of each.
TEST(Pool, KeepsAboutAsMuchAsWasLiveAtOnce) {
  const int64_t megabyte = 1 << 20;
  const auto use = [&](int64_t megabytes) { const Tensor t = empty({megabytes * megabyte}, {DType::uint8, kDevice}); };
  for (int64_t size = 8; size <= 128; ++size) use(size);
  EXPECT_LE(memory_stats(kDevice).cached, 2 * 128 * megabyte + megabyte) << "18 classes would be 1000 MB";
  const void* last = empty({128 * megabyte}, {DType::uint8, kDevice}).data<uint8_t>();
  EXPECT_EQ(empty({128 * megabyte}, {DType::uint8, kDevice}).data<uint8_t>(), last) << "what was used last stays";
  // Long after the large ones they are gone.
  for (int i = 0; i < 10000; ++i) use(2);
  use(3);
  EXPECT_LE(memory_stats(kDevice).cached, 64 * megabyte);
}

TEST(Pool, ReusesFreedBlocks) {
  const void* first = empty({5000}, {DType::float32, kOther}).data<float>();
  const MemoryStats before = memory_stats(kOther);
  EXPECT_GE(before.cached, 20000);
  const Tensor again = empty({5000}, {DType::float32, kOther});
  EXPECT_EQ(again.data<float>(), first);
  EXPECT_LT(memory_stats(kOther).cached, before.cached);
  EXPECT_EQ(memory_stats(kOther).allocations, before.allocations + 1);
}

TEST(Pool, CachedMemoryCanBeReleased) {
  { const Tensor x = empty({5000}, {DType::float32, kOther}); }
  EXPECT_GT(memory_stats(kOther).cached, 0);
  release_cached_memory(kOther);
  EXPECT_EQ(memory_stats(kOther).cached, 0);
  { const Tensor small = empty({4}); }
  release_cached_memory(cpu(0));
  EXPECT_EQ(memory_stats(cpu(0)).cached, 0);
}

// Between blocks that stay, too: among malloc's these would leave holes.
TEST(Pool, ReleasedLargeBlocksAreTheSystemsAgain) {
  const auto resident = [] {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  constexpr int64_t kBytes = 4 << 20;
  Tensors stay, go;
  for (int i = 0; i < 16; ++i) (i % 2 ? stay : go).push_back(ones({kBytes}, {DType::uint8, kDevice}));
  const int64_t before = resident();
  go.clear();
  release_cached_memory(kDevice);
  EXPECT_LE(resident(), before - 7 * kBytes);
}

// Large pages are asked for only where all of one will be used: behind what is written there is nothing.
TEST(Pool, LargeBlocksTakeNoMoreThanIsWritten) {
  constexpr int64_t kBlock = 6 << 20, kBytes = (5 << 20) + 4096;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  release_cached_memory(kDevice);
  Tensors all;
  for (int i = 0; i < 16; ++i) {
    all.push_back(empty({kBytes}, {DType::uint8, kDevice}));
    uint8_t* const data = all.back().mutable_data<uint8_t>();
    std::memset(data, 1, kBytes);
    const uintptr_t end = reinterpret_cast<uintptr_t>(data) + kBytes, first = (end + page - 1) / page * page;
    std::vector<unsigned char> is_resident((kBlock - kBytes) / page - 2, 0);
    ASSERT_EQ(mincore(reinterpret_cast<void*>(first), is_resident.size() * page, is_resident.data()), 0);
    EXPECT_EQ(std::ranges::count_if(is_resident, [](unsigned char p) { return (p & 1) != 0; }), 0) << "block " << i;
  }
}

TEST(Pool, ThreadsShareItAndLeaveNothingBehind) {
  release_cached_memory(cpu(0));
  const int64_t live = memory_stats().live;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 500; ++k) {
        const Tensor x = ones({k % 50 + 1}) + 1.0;
        ASSERT_EQ(x.to_vector<float>().back(), 2.0f);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(memory_stats().live, live);
  release_cached_memory(cpu(0));
  EXPECT_EQ(memory_stats().cached, 0);
}

TEST(Pool, AbsurdSizesAreErrors) {
  GLUINO_EXPECT_ERROR(SystemError, "out of memory: 281474976710656 bytes were asked for", empty({int64_t{1} << 46}));
  GLUINO_EXPECT_ERROR(SystemError, "out of memory: 8796093022208 bytes were asked for", empty({int64_t{1} << 41}));
  GLUINO_EXPECT_ERROR(ShapeError, "extents are 0 to", empty({int64_t{1} << 61, 2}, {DType::float64}));
  GLUINO_EXPECT_ERROR(ShapeError, "extents are 0 to", empty({int64_t{1} << 61, 0}));
  GLUINO_EXPECT_ERROR(ShapeError, "63 bits", empty({int64_t{1} << 40, int64_t{1} << 40}));
}

}  // namespace
}  // namespace gluino::test
