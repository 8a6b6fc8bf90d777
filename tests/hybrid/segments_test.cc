// Programs that read values: their segments are compiled, and give what eager code gives.
#include <gtest/gtest.h>

#include "gluino/gluino.h"
#include "hybrid/every_mode.h"

namespace gluino {
namespace {

Tensor rows(int n, double start) {
  Tensor x = zeros({n, 6});
  float* at = x.mutable_data<float>();
  for (int i = 0; i < n * 6; ++i) at[i] = static_cast<float>(start + 0.07 * i - 0.9);
  return x;
}

// Calls with values of which some come again, some late: results, gradients and random numbers of both modes.
template <class Make>
void expect_same_calls(Make make, bool is_compiled_while_recording = true) {
  for (bool recorded : {false, true})
    for (bool training : {false, true}) {
      std::vector<Tensors> seen[2];
      for (bool hybridized : {false, true}) {
        seed(11);
        auto [plain, weight] = make();
        auto compiled = hybrid(plain);
        std::vector<double> starts{0.1, 0.2, 0.1, -2.0, 0.1, -2.0, 5.0};
        for (int again = 0; again < 6; ++again) starts.insert(starts.end(), {0.1, 5.0, 0.1, 0.1});
        for (double late : {-2.0, 0.3, -0.8, 9.0}) starts.insert(starts.end(), {late, 0.1, 5.0, late, late, 0.1, 5.0, late});
        for (double start : starts) {
          const Tensor x = rows(4, start);
          const autograd::Scope scope(recorded, training);
          const Tensor y = hybridized ? compiled(x) : plain(x);
          Tensors all{y.detach().copy(), weight.detach().copy()};
          if (recorded) {
            y.backward();
            all.push_back(weight.grad().copy());
          }
          seen[hybridized].push_back(all);
        }
        if (hybridized && (is_compiled_while_recording || !recorded)) {
          EXPECT_NE(compiled.cache().explain().find("(compiled)"), std::string::npos);
        }
      }
      for (size_t i = 0; i < seen[0].size(); ++i)
        for (size_t k = 0; k < seen[0][i].size(); ++k)
          for (size_t e = 0; e < seen[0][i][k].to_vector<double>().size(); ++e) {
            const double eager = seen[0][i][k].to_vector<double>()[e];
            ASSERT_NEAR(seen[1][i][k].to_vector<double>()[e], eager,
                        1e-6 + 1e-5 * std::abs(eager))  // a gradient is summed in another order
                << "call " << i << ", tensor " << k << (recorded ? ", recorded" : "") << (training ? ", training" : "");
          }
    }
}
Tensor weight_of(int n) {
  Tensor w = rows(n, 0.3);
  w.attach_grad();
  return w;
}

TEST(Segments, BranchesAreCompiledAndAddedLater) {
  expect_same_calls([] {
    Tensor w = weight_of(4);
    return std::pair(std::function([w](const Tensor& x) {
                       Tensor h = tanh(x * w + 0.5) * w;
                       Tensor kept = sigmoid(h) * x;
                       const double decides = h.sum().item<double>();
                       if (decides > 3) return softmax(h + kept * 2) * w;
                       h = relu(h - 0.25) * x + kept;
                       if (h.max().item<double>() > 0.5) return h * w - 1;
                       return exp(h * w) + kept;
                     }),
                     w);
  });
}
TEST(Segments, RandomNumbersAreDrawnInTheSameOrder) {
  expect_same_calls([] {
    Tensor w = weight_of(4);
    return std::pair(std::function([w](const Tensor& x) {
                       Tensor h = dropout(x * w, {.p = 0.4}) + random::uniform(0, 1, {4, 6});
                       if (x.sum().item<double>() > 0) return dropout(h * w, {.p = 0.5}) * random::normal(0, 1, {4, 6});
                       h = h * dropout(tanh(h), {.p = 0.2});
                       if (x.sum().item<double>() < -40) return h + random::uniform(0, 1, {4, 6}) * w;
                       return h * w;
                     }),
                     w);
  });
}
TEST(Segments, StatesAreUpdatedOnce) {
  expect_same_calls([] {
    Tensor w = weight_of(4);
    auto norm = std::make_shared<nn::BatchNorm>();
    norm->initialize();
    norm->forward(rows(4, 0));
    Tensor count = zeros({1});
    return std::pair(std::function([w, norm, count](const Tensor& x) mutable {
                       count += 1;
                       Tensor h = (*norm)(x * w) * count;
                       if (x.sum().item<double>() > 0) return (*norm)(h * 2 + w) * w;
                       return (*norm)(tanh(h) * w) + count;
                     }),
                     w);
  });
}
TEST(Segments, StateThatTheEndUpdatesIsSeenAsItWas) {
  expect_same_calls(
      [] {
        Tensor w = weight_of(4), state = rows(4, 0.2);
        return std::pair(std::function([w, state](const Tensor& x) mutable {
                           Tensor h = tanh(x * w) + state * 0.5;
                           const bool is_large = x.sum().item<double>() > 0;
                           {
                             const auto pause = autograd::pause(autograd::is_training());
                             state.assign(state * 0.5 + h * 0.25);
                           }
                           h = is_large ? sin(h) * state : cos(h * w) * x;
                           if (!autograd::is_recording()) return h;
                           const Tensor g = autograd::grad({h}, {w}, {}, {.create_graph = true})[0];
                           return h + g * g;
                         }),
                         w);
      },
      false);
}
TEST(Segments, MasksOfVaryingSize) {
  expect_same_calls([] {
    Tensor w = weight_of(4);
    return std::pair(std::function([w](const Tensor& x) {
                       const Tensor h = x * w + 0.1;
                       const Tensor chosen = h[h > 0.2];
                       if (chosen.size() == 0) return h.sum() * 2;
                       return chosen.sum() * h.mean() + (chosen * chosen).sum();
                     }),
                     w);
  });
}
TEST(Segments, ValuesThatNeverComeAgainAreJustData) {
  auto f = [](const Tensor& x) {
    const Tensor h = tanh(x) * x + 1;
    return h * x.sum().item<double>() + sigmoid(h) * 2;
  };
  auto compiled = hybrid(f);
  for (int i = 0; i < 60; ++i) {
    const Tensor x = rows(3, 0.01 * i);
    EXPECT_EQ(compiled(x).to_vector<double>(), f(x).to_vector<double>()) << i;
  }
  EXPECT_EQ(compiled.cache().explain().find("(compiled)"), std::string::npos);
}

}  // namespace
}  // namespace gluino
