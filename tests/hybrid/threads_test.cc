// One compiled function for many threads: values that decide, numbers that change, wrong input, and a cache that is emptied meanwhile.
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <thread>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

constexpr int kThreads = 8;

template <class F>
void in_threads(int count, F work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&, t] { work(t); });
  for (std::thread& t : threads) t.join();
}

// Another thread may have emptied the cache, which explain() says.
void explain_if_compiled(const auto& net) {
  try {
    net.explain();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("nothing has been compiled yet"), std::string::npos) << e.what();
  }
}

TEST(Threads, BranchesNumbersAndWrongInputSideBySide) {
  for (DType type : {DType::float32, DType::float16, DType::float64}) {
    const Tensor w = (arange(0, 8) / 8).astype(type);
    const auto body = [w](const Tensor& x, double k) {
      const Tensor y = x * w + k;
      if (y.sum().item() > 0) return y * 2;
      return y - 1;
    };
    const auto f = hybrid(body);
    std::atomic<int> wrong = 0;
    in_threads(kThreads, [&](int t) {
      for (int i = 0; i < 60; ++i) {
        const Tensor x = full({8}, (i + t) % 3 - 1.0, type);
        const double k = (i % 5) * 1e-3;
        wrong += !array_equal(f(x, k), body(x, k));
        EXPECT_THROW(f(Tensor(), k), UserError);
        EXPECT_THROW(f(ones({3}, type), k), UserError);
        if (i % 20 == 0) explain_if_compiled(f);
        if (i % 37 == 0) f.cache().clear();
      }
    });
    EXPECT_EQ(wrong, 0) << dtype_name(type);
  }
}

TEST(Threads, SymbolExportExplainHybridizeAndClearWhileEightCall) {
  const std::string folder = std::filesystem::temp_directory_path() / ("gluino_threads_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  nn::HybridSequential net;
  net.add(nn::Dense(16, {.activation = "relu"}), nn::Dense(4));
  net.initialize();
  const Tensor x = random_tensor({2, 6}, DType::float32, 1);
  const Tensor expected = net(x);
  net.hybridize();
  net(x);
  std::atomic<int> running = kThreads, wrong = 0;
  in_threads(kThreads + 1, [&](int t) {
    if (t < kThreads) {
      for (int i = 0; i < 200; ++i) wrong += !all_close(net(x), expected, 1e-5, 1e-6);
      --running;
      return;
    }
    for (int i = 0; running > 0; ++i) {
      if (i % 4 == 0) net.hybridize(true);
      if (i % 4 == 1) net.symbol();
      if (i % 4 == 2) net.export_model(folder + "/net");
      if (i % 4 == 3) net.clear_caches();
      explain_if_compiled(net);
    }
  });
  std::filesystem::remove_all(folder);
  EXPECT_EQ(wrong, 0);
}

// A trace that stands still, because its function waits, holds up nobody who has a program.
TEST(Threads, CachedCallsDoNotWaitForATrace) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_inside = false, may_go = false;
  const auto f = hybrid([&](const Tensor& x, bool waits) {
    if (waits) {
      std::unique_lock lock(mutex);
      is_inside = true;
      changed.notify_all();
      changed.wait(lock, [&] { return may_go; });
    }
    return x + 1;
  });
  const Tensor x = ones({3});
  f(x, false);
  std::thread tracing([&] { f(x, true); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_inside; });
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(f(x, false).to_vector<float>(), (std::vector<float>{2, 2, 2}));
  {
    const std::lock_guard lock(mutex);
    may_go = true;
  }
  changed.notify_all();
  tracing.join();
}

// A trace sees the calls of its own thread alone: such a function runs as it is.
TEST(Threads, InsideAHybridizedFunction) {
  const auto halves = [](const Tensor& x) {
    Tensor parts[2];
    in_threads(2, [&](int t) { parts[t] = x * (t + 2.0); });
    return parts[0] + parts[1];
  };
  const auto last = [](const Tensor& x) {
    Tensor y;
    in_threads(1, [&](int) { y = x + 1; });
    return y;
  };
  auto f = hybrid(halves);
  auto g = hybrid(last);
  for (const int64_t rows : {2, 3, 2}) {
    const Tensor x = random_tensor({rows, 3}, DType::float32, 1);
    EXPECT_TRUE(same_bits(f(x), halves(x)));
    EXPECT_TRUE(same_bits(g(x), last(x)));
  }
  EXPECT_NE(f.cache().explain().find("another thread"), std::string::npos);
}

}  // namespace
}  // namespace gluino::test
