// Recurrent layers for prediction against those that keep a reserve: the same bits.
#include "kernels/rnn.h"

#include <deque>

#include "support/support.h"

namespace gluino::test {
namespace {

using kernels::RnnGeometry;
using kernels::RnnMode;

std::vector<float> noise(int64_t n, uint64_t seed) { return random_tensor({n}, DType::float32, seed).to_vector<float>(); }

TEST(Rnn, PredictionGivesTheBitsOfTheForwardPass) {
  for (const RnnMode mode : {RnnMode::relu, RnnMode::tanh, RnnMode::lstm, RnnMode::gru})
    for (const int64_t directions : {1, 2})
      for (const int64_t batch : {1, 3, 80}) {
        const RnnGeometry g{.mode = mode, .time = 70, .batch = batch, .input = 5, .state = 7, .layers = 2, .directions = directions};
        SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << ", directions " << directions << ", batch " << batch);
        const int64_t states = g.layers * g.directions * g.batch * g.state, outputs = g.time * g.batch * g.directions * g.state;
        const bool lstm = mode == RnnMode::lstm;
        const std::vector<float> data = noise(g.time * g.batch * g.input, 1), parameters = noise(g.parameter_size(), 2);
        const std::vector<float> hidden = noise(states, 3), cell = noise(states, 4);
        const auto zeros = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n)); };

        std::vector<float> out = zeros(outputs), hidden_end = zeros(states), cell_end = zeros(states), reserve = zeros(g.reserve_size());
        kernels::rnn_forward<float>(g, data.data(), parameters.data(), {hidden.data(), lstm ? cell.data() : nullptr}, out.data(),
                                    {hidden_end.data(), lstm ? cell_end.data() : nullptr}, reserve.data());

        std::deque<std::vector<char>> blocks;
        const auto scratch = [&](int64_t bytes) { return static_cast<void*>(blocks.emplace_back(static_cast<size_t>(bytes)).data()); };
        std::vector<float> packed = zeros(kernels::packed_rnn_elements(g)), out2 = zeros(outputs), hidden_end2 = zeros(states),
                           cell_end2 = zeros(states);
        kernels::pack_rnn_parameters(g, parameters.data(), packed.data());
        kernels::rnn_predict(g, data.data(), packed.data(), {hidden.data(), lstm ? cell.data() : nullptr}, out2.data(),
                             {hidden_end2.data(), lstm ? cell_end2.data() : nullptr}, scratch);
        EXPECT_EQ(out, out2);
        EXPECT_EQ(hidden_end, hidden_end2);
        EXPECT_EQ(cell_end, cell_end2);
      }
}

}  // namespace
}  // namespace gluino::test
