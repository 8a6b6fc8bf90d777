// A child made by fork computes, whatever the other threads of its parent were doing.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

constexpr unsigned kPatience = 20;  // seconds, after which a child that hangs is ended

// Ends with 0 if `work` returns, with a signal if it hangs.
template <class F>
int status_of_child(F&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kPatience);
    work();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

// While it lives, threads call `work` over and over.
class Busy {
 public:
  template <class F>
  Busy(int threads, F work) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this, work] {
        while (!stop_) work();
      });
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& t : threads_) t.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

void expect_children_compute(const std::function<void()>& work, int children = 60) {
  work();
  const Busy busy(3, work);
  for (int i = 0; i < children; ++i) ASSERT_EQ(status_of_child(work), 0) << "child " << i;
}

TEST(Fork, Memory) {
  expect_children_compute([] {
    for (int i = 0; i < 50; ++i) empty({3000 + 500 * i});
  });
}
TEST(Fork, SharedLoops) {
  const Tensor x = random_tensor({300000}, DType::float32, 1);
  expect_children_compute([x] { (x * 2 + 1).sum().item<float>(); });
}
TEST(Fork, RandomNumbers) {
  expect_children_compute([] {
    for (int i = 0; i < 100; ++i) random::uniform(0, 1, {2});
  });
}
TEST(Fork, Products) {
  const Tensor a = random_tensor({150, 150}, DType::float32, 1), d = a.astype(DType::float64);
  expect_children_compute([a, d] {
    dot(a, a);
    call("_linalg_gemm2", {d, d});
  });
}
TEST(Fork, Convolutions) {
  const Tensor x = random_tensor({2, 8, 20, 20}, DType::float32, 1), w = random_tensor({8, 8, 3, 3}, DType::float32, 2);
  expect_children_compute([x, w] {
    for (int64_t dilate : {1, 2})
      call("Convolution", {x, w},
           {{"kernel", Shape{3, 3}}, {"num_filter", int64_t{8}}, {"no_bias", true}, {"dilate", Shape{dilate, dilate}}});
  });
}
TEST(Fork, NetworksOfTheirOwn) {
  const Tensor x = random_tensor({4, 6}, DType::float32, 1);
  expect_children_compute(
      [x] {
        nn::HybridSequential net;
        net.add(nn::Dense(16, {.activation = "relu"}), nn::Dense(3));
        net.initialize();
        net.hybridize();
        for (int i = 0; i < 5; ++i) net(x);
      },
      30);
}

TEST(Fork, Factorisations) {
  const Tensor a = random_tensor({30, 30}, DType::float32, 1);
  expect_children_compute([a] {
    call("_linalg_gelqf", {a});
    call("_linalg_trsm", {call("_linalg_potrf", {dot(a, a.transpose()) + 40 * eye(30)}), a});
  });
}
TEST(Fork, OneNetworkForAll) {
  const Tensor x = random_tensor({4, 6}, DType::float32, 1);
  nn::HybridSequential net;
  net.add(nn::Dense(16, {.activation = "relu"}), nn::Dense(3));
  net.initialize();
  net.hybridize();
  expect_children_compute([&] {
    for (int i = 0; i < 20; ++i) net(x);
  });
}
// New shapes, settings and values all the time: some thread is always tracing, planning, or computing a derived value.
TEST(Fork, OneFunctionThatIsTracedAllTheTime) {
  const Setting<double> factor(1.0);
  std::atomic<int> calls = 0;
  const auto f = hybrid([&](const Tensor& x, int n) {
    Tensor y = x * factor + n;
    return y.sum().item() > n ? y : -y;
  });
  expect_children_compute([&] {
    for (int i = 0; i < 5; ++i) {
      const int n = ++calls;
      f(ones({n % 7 + 1, 3}), n % 50);
    }
  });
}

}  // namespace
}  // namespace gluino::test
