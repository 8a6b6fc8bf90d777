// Recurrent layers for prediction against those that keep a reserve: the same bits.
#include "kernels/recurrent/rnn.h"

#include <bit>
#include <cmath>
#include <deque>

#include "support/support.h"

namespace gluino::test {
namespace {

using kernels::RnnGeometry;
using kernels::RnnMode;

std::vector<float> noise(int64_t n, uint64_t seed) { return random_tensor({n}, DType::float32, seed).to_vector<float>(); }

using Floats = std::vector<float>;

struct Start {
  Floats data, parameters, hidden, cell;
};
Floats zeros(int64_t n) { return Floats(static_cast<size_t>(n)); }
int64_t states_of(const RnnGeometry& g) { return g.layers * g.directions * g.batch * g.state; }
Start random_start(const RnnGeometry& g) {
  return {noise(g.time * g.batch * g.input, 1), noise(g.parameter_size(), 2), noise(states_of(g), 3), noise(states_of(g), 4)};
}

// Bits, so that NaN is itself and -0 is not 0.
std::vector<uint32_t> bits(const Floats& v) {
  std::vector<uint32_t> all;
  for (float x : v) all.push_back(std::bit_cast<uint32_t>(x));
  return all;
}

void expect_the_same_prediction(const RnnGeometry& g, const Start& from) {
  const bool lstm = g.mode == RnnMode::lstm;
  const int64_t states = states_of(g), outputs = g.time * g.batch * g.directions * g.state;
  Floats out = zeros(outputs), hidden_end = zeros(states), cell_end = zeros(states), reserve = zeros(g.reserve_size());
  kernels::rnn_forward<float>(g, from.data.data(), from.parameters.data(), {from.hidden.data(), lstm ? from.cell.data() : nullptr},
                              out.data(), {hidden_end.data(), lstm ? cell_end.data() : nullptr}, reserve.data());

  std::deque<std::vector<char>> blocks;
  const auto scratch = [&](int64_t bytes) { return static_cast<void*>(blocks.emplace_back(static_cast<size_t>(bytes)).data()); };
  Floats packed = zeros(kernels::packed_rnn_elements(g)), out2 = zeros(outputs), hidden_end2 = zeros(states), cell_end2 = zeros(states);
  kernels::pack_rnn_parameters(g, from.parameters.data(), packed.data());
  kernels::rnn_predict(g, from.data.data(), packed.data(), {from.hidden.data(), lstm ? from.cell.data() : nullptr}, out2.data(),
                       {hidden_end2.data(), lstm ? cell_end2.data() : nullptr}, scratch);
  EXPECT_EQ(bits(out), bits(out2));
  EXPECT_EQ(bits(hidden_end), bits(hidden_end2));
  EXPECT_EQ(bits(cell_end), bits(cell_end2));
}

constexpr RnnMode kModes[] = {RnnMode::relu, RnnMode::tanh, RnnMode::lstm, RnnMode::gru};

TEST(Rnn, PredictionGivesTheBitsOfTheForwardPass) {
  const int before = num_threads();
  for (const RnnMode mode : kModes)
    for (const int64_t directions : {1, 2})
      for (const int64_t batch : {1, 3, 9, 80})
        for (const int threads : {1, 2, 3}) {  // which take sequences of their own, or share every step
          set_num_threads(threads);
          const RnnGeometry g{.mode = mode, .time = 70, .batch = batch, .input = 5, .state = 7, .layers = 3, .directions = directions};
          SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << ", directions " << directions << ", batch " << batch
                                          << ", threads " << threads);
          expect_the_same_prediction(g, random_start(g));
        }
  set_num_threads(before);
}

// A state of zeros is not multiplied, unless that would show: where a weight is infinite or NaN, and in the sign of zeros.
TEST(Rnn, ZerosAtTheStartChangeNoBit) {
  for (const RnnMode mode : kModes)
    for (const int64_t directions : {1, 2}) {
      const RnnGeometry g{.mode = mode, .time = 3, .batch = 4, .input = 5, .state = 7, .layers = 2, .directions = directions};
      SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << ", directions " << directions);
      Start from = random_start(g);
      from.hidden = from.cell = zeros(states_of(g));
      expect_the_same_prediction(g, from);
      const auto state_weight = static_cast<size_t>(g.gates() * g.state * g.input);  // of the first layer
      for (const float special : {INFINITY, NAN}) {
        Start with = from;
        with.parameters[state_weight + 3] = special;
        expect_the_same_prediction(g, with);
      }
      from.data = Floats(from.data.size(), -0.0f);  // sums of the input are -0, or +0
      for (size_t i = 0; i < from.parameters.size(); ++i) from.parameters[i] = i < state_weight ? std::abs(from.parameters[i]) : -0.0f;
      expect_the_same_prediction(g, from);
      for (int64_t row = 0; row < g.gates() * g.state; ++row) from.parameters[state_weight + static_cast<size_t>(row * g.state)] = 1;
      expect_the_same_prediction(g, from);
      std::fill(from.hidden.begin(), from.hidden.end(), -0.0f);
      expect_the_same_prediction(g, from);
    }
}

}  // namespace
}  // namespace gluino::test
