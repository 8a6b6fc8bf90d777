// Programs that are a hundred thousand calls long: nothing that goes through them, or takes them apart, may need a stack that grows with
// them.
#include <pthread.h>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

constexpr int kLong = 100'000;

// On a thread with a stack of ten bytes per call.
void on_small_stack(std::function<void()> f) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{10} * kLong), 0);
  pthread_t thread;
  const auto run = [](void* function) -> void* {
    (*static_cast<std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &f), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Depth, ALongTapeNeedsNoStack) {
  on_small_stack([] {
    Tensor x = ones({2});
    x.attach_grad();
    Tensor y = x;
    {
      const auto recording = autograd::record();
      for (int i = 0; i < kLong; ++i) y = -y;
    }
    y.backward({}, true);
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>({1, 1}));
  });
}

TEST(Depth, ALongTapeOfViewsNeedsNoStack) {
  on_small_stack([] {
    Tensor x = ones({2});
    x.attach_grad();
    Tensor y = x;
    {
      const auto recording = autograd::record();
      for (int i = 0; i < kLong / 10; ++i) y = y.reshape(i % 2 ? Shape{2} : Shape{1, 2});  // each looks at all before it
    }
    y.backward();
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>({1, 1}));
  });
}

TEST(Depth, ALongSymbolNeedsNoStack) {
  on_small_stack([] {
    Symbol s = sym::var("data");
    for (int i = 0; i < kLong; ++i) s = sym::apply("negative", {s});
    EXPECT_EQ(s.list_inputs(), std::vector<std::string>({"data"}));
    EXPECT_EQ(*s.infer_shape({{"data", {2}}}).outputs[0], Shape({2}));
    s = Symbol::from_json(s.to_json(), "test");
    s = s.compose({{"data", sym::var("x")}});
    EXPECT_EQ(s.get_internals().num_outputs(), kLong + 1);
    auto executor = s.bind({{"x", ones({2})}}, {{"x", zeros({2})}}, {{"x", GradReq::write}}, {});
    executor.forward(true);
    executor.backward({ones({2})});
    EXPECT_EQ(executor.outputs()[0].to_vector<float>(), std::vector<float>({1, 1}));
  });
}

TEST(Depth, ALongProgramNeedsNoStack) {
  on_small_stack([] {
    const auto f = hybrid([](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < kLong; ++i) y = -y;
      return y;
    });
    Tensor x = ones({2});
    x.attach_grad();
    EXPECT_EQ(f(x).to_vector<float>(), std::vector<float>({1, 1}));
    Tensor y;
    {
      const auto recording = autograd::record();
      y = f(x);
    }
    y.backward();
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>({1, 1}));
  });
}

}  // namespace
}  // namespace gluino::test
