// parallel_for: every item once, errors passed on, calls inside calls, several callers at once.
#include "base/parallel.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/openmp.h"
#include "support/support.h"

namespace gluino::test {
namespace {

class ParallelFor : public ::testing::TestWithParam<int> {
 protected:
  ParallelFor() : previous_(num_threads()) { set_num_threads(GetParam()); }
  ~ParallelFor() override { set_num_threads(previous_); }

 private:
  int previous_;
};

TEST_P(ParallelFor, VisitsEveryItemOnce) {
  for (int64_t n : {0, 1, 2, 7, 64, 1000, 4096, 100003})
    for (int64_t grain : {0, 1, 3, 64, 1000}) {
      std::vector<std::atomic<int>> visits(n);
      parallel_for(n, grain, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++visits[i];
      });
      for (const auto& v : visits) ASSERT_EQ(v.load(), 1) << n << " items, grain " << grain;
    }
}

TEST_P(ParallelFor, NoChunkIsSmallerThanTheGrainExceptTheLast) {
  std::atomic<int> small{0};
  parallel_for(10007, 500, [&](int64_t begin, int64_t end) { small += end - begin < 500; });
  EXPECT_LE(small.load(), 1);
}

TEST_P(ParallelFor, PassesErrorsOn) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(parallel_for(1000, 1,
                              [](int64_t, int64_t end) {
                                if (end > 500) throw std::runtime_error("inside");
                              }),
                 std::runtime_error);
    EXPECT_THROW(parallel_for(1000, 1, [](int64_t, int64_t) { throw std::runtime_error("inside"); }), std::runtime_error);
  }
  std::atomic<int64_t> total{0};  // and works afterwards
  parallel_for(1000, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
  EXPECT_EQ(total.load(), 1000);
}

TEST_P(ParallelFor, InsideItselfRunsInPlace) {
  std::atomic<int64_t> total{0};
  parallel_for(64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto outer = std::this_thread::get_id();
      parallel_for(100, 1, [&](int64_t b, int64_t e) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        total += e - b;
      });
    }
  });
  EXPECT_EQ(total.load(), 6400);
}

TEST_P(ParallelFor, LibrariesInsideStayOnOneThread) {
  const int before = omp_get_max_threads();
  if (GetParam() > 1) parallel_for(64, 1, [&](int64_t, int64_t) { EXPECT_EQ(omp_get_max_threads(), 1); });
  EXPECT_EQ(omp_get_max_threads(), before);
}

TEST_P(ParallelFor, SeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int k = 0; k < 4; ++k)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) parallel_for(100, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(total.load(), 4 * 200 * 100);
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelFor, ::testing::Values(1, 2, 3, 8));

TEST(ParallelForThreads, HelpersTakePart) {
  const int previous = num_threads();
  set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  // Long enough for a helper to start, however busy the machine.
  for (int round = 0; round < 200 && seen.size() < 2; ++round)
    parallel_for(8, 1, [&](int64_t, int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  EXPECT_EQ(seen.size(), 2u);
  set_num_threads(previous);
}

}  // namespace
}  // namespace gluino::test
