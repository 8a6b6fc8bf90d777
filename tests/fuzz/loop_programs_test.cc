// Random nests of cond, while_loop and foreach over weights from outside. What was run decides which results are on the tape and which
// weights get a gradient; the others keep the one that they have. The same eagerly, hybridized, run without a plan, and with verify.
#include <cstdlib>
#include <random>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

constexpr double kUntouched = 77;

// Every part of a program has a seed of its own, so that it is the same whichever parts run before it.
class Part {
 public:
  Part(uint64_t seed, const Tensors& weights) : engine_(seed), weights_(weights) {}

  Tensor value(const Tensors& given, int depth) {
    Tensor v = pick(given);
    for (int n = 1 + below(3); n-- > 0;) v = step(v, given, depth);
    return v;
  }

 private:
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  Tensor pick(const Tensors& from) { return from[below(static_cast<int>(from.size()))]; }
  Tensor inner(uint64_t seed, const Tensors& given, int depth) { return Part(seed, weights_).value(given, depth); }

  Tensor step(const Tensor& v, Tensors given, int depth) {
    given.push_back(v);
    const uint64_t first = engine_(), second = engine_();
    switch (below(depth > 0 ? 10 : 5)) {
      case 0: return v * pick(weights_);
      case 1: return v + pick(given) * 0.5;
      case 2: return tanh(v) + pick(weights_);
      case 3: return below(2) ? v : v.detach();
      case 4: return v * 0.5 + ones_like(pick(given));
      case 5:
      case 6: {  // two results, of which a branch may compute neither, or pass something on
        const double limit = below(3) - 1;
        const Tensors out = cond([&](const Tensors& in) { return in[0].sum() > limit; },
                                 [&](const Tensors& in) {
                                   return Tensors{inner(first, in, depth - 1), inner(second, in, depth - 1)};
                                 },
                                 [&](const Tensors& in) {
                                   return Tensors{inner(second + 1, in, depth - 1), inner(first + 1, in, depth - 1)};
                                 },
                                 given);
        return below(3) ? out[0] : out[0] + out[1];
      }
      case 7: {  // as many steps as the values ask for, or none; variables that change places
        const int most = 1 + below(3), way = below(3);
        const Tensors ends = while_loop([&](const Tensors& in) { return (in[0] < most).sum() * (in[1].sum() < 4) > 0; },
                                        [&](const Tensors& in) -> TensorsPair {
                                          const Tensor next = inner(first, {in[1], in[2]}, depth - 1);
                                          return {{}, {in[0] + 1, way == 0 ? in[2] : next, way == 2 ? in[2] : in[1]}};
                                        },
                                        {zeros({1}), v, pick(given)}, 3)
                                 .second;
        return below(2) ? ends[1] : ends[2];
      }
      default: {
        const auto rows = static_cast<size_t>(1 + below(3));
        const Tensor data = stack(below(2) ? Tensors{v, pick(given)} : Tensors(rows, v), {.axis = 0});
        const int way = below(3);
        const auto [made, states] = foreach (
            [&](const Tensors& row, const Tensors& state) -> TensorsPair {
              const Tensor next = inner(first, {row[0], state[0], state[1]}, depth - 1);
              return {{inner(second, {row[0], state[1]}, depth - 1)}, {way == 0 ? state[1] : next, way == 1 ? row[0] * 1 : state[0]}};
            },
            {data}, {pick(given), v * 2});
        const int wanted = below(4);
        return wanted == 0 ? states[0] : wanted == 1 ? states[1] : wanted == 2 ? made[0].sum(0) : states[1] + made[0].sum(0);
      }
    }
  }

  std::mt19937_64 engine_;
  const Tensors& weights_;
};

// Changes each result and back: whoever else is that tensor shows it.
void change_each(const Tensors& results, const Tensors& others, Tensors& values) {
  for (const Tensor& result : results) {
    Tensor t = result.detach();
    t += 1;
    for (const Tensors* list : {&results, &others})
      for (const Tensor& seen : *list) values.push_back(seen.detach().copy());
    t -= 1;
  }
}

// For each call and each of its results: its value, whether anything flows back from it, and to which weights. Every other program gives
// what its branches and loops have passed on as it is.
template <class Wrap>
std::string transcript(uint64_t number, Tensors& values, Wrap wrap) {
  std::mt19937_64 engine(number);
  Tensors weights;
  for (int i = 0; i < 4; ++i) {
    weights.push_back(random_tensor({1}, DType::float64, engine()));
    weights.back().attach_grad();
  }
  const uint64_t first = engine(), second = engine();
  auto f = wrap([&](const Tensors& in) { return Tensors{Part(first, weights).value(in, 2), Part(second, weights).value(in, 2)}; });
  std::string text;
  for (int call = 0; call < 9; ++call) {
    const Shape shape{3 + call * call % 7};  // more of them than get a plan at once
    Tensors in{random_tensor(shape, DType::float64, engine()), random_tensor(shape, DType::float64, engine())};
    for (Tensor& t : in) t = t * static_cast<double>(call % 3);
    if (call % 2) in[0].attach_grad();
    Tensors leaves = weights, results;
    if (call % 2) leaves.push_back(in[0]);
    {
      const auto recording = autograd::record();
      results = f(in);
      if (number % 2)
        for (Tensor& t : results) t = t * 1;
    }
    for (const Tensor& result : results) {
      values.push_back(result.detach().copy());
      for (const Tensor& t : leaves) t.grad().assign(kUntouched);
      try {
        autograd::backward({result}, {}, {.retain_graph = true});
        text += " reaches";
      } catch (const UserError& e) {
        text += std::string(" ") + (std::string(e.what()).find("was not computed inside") != std::string::npos ? "no tape" : e.what());
      }
      for (const Tensor& t : leaves) {
        const bool is_untouched = t.grad().data<double>()[0] == kUntouched;
        text += is_untouched ? "-" : "x";
        values.push_back(t.grad().copy());
      }
    }
    for (const Tensor& t : weights) in.push_back(t);
    change_each(results, in, values);
    text += ";";
  }
  return text;
}

TEST(LoopPrograms, ReachWhatTheyHaveRun) {
  const char* wanted = std::getenv("GLUINO_FUZZ_PROGRAMS");
  const char* first = std::getenv("GLUINO_FUZZ_FIRST");
  const int begin = first ? std::atoi(first) : 0, count = wanted ? std::atoi(wanted) : 300;
  int unreached = 0;
  for (int number = begin; number < begin + count; ++number) {
    SCOPED_TRACE("program " + std::to_string(number));
    Tensors want;
    const std::string eager = transcript(static_cast<uint64_t>(number), want, [](auto f) { return f; });
    unreached += eager.find('-') != std::string::npos;
    for (bool verify : {false, true}) {
      Tensors got;
      const std::string compiled = transcript(static_cast<uint64_t>(number), got, [&](auto f) { return hybrid(f, {.verify = verify}); });
      ASSERT_EQ(compiled, eager) << (verify ? "with verify" : "hybridized");
      for (size_t i = 0; i < want.size(); ++i) ASSERT_TRUE(close(got[i], want[i], 1e-9, 1e-9)) << "value " << i;
    }
  }
  EXPECT_GT(unreached, count / 4) << "most programs should leave a weight out";
}

}  // namespace
}  // namespace gluino::test
