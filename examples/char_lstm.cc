// A language model of characters: an LSTM learns which character comes next, then writes.
//   char_lstm [TEXT FILE] [EPOCHS]
#include <gluino/gluino.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

using namespace gluino;

struct CharNet : nn::HybridBlock {
  nn::Embedding embedding;
  nn::LSTM lstm{64, {.layout = "NTC"}};
  nn::Dense output;
  explicit CharNet(int64_t characters) : embedding(characters, 24), output(characters, {.flatten = false}) {
    GLUINO_CHILDREN(embedding, lstm, output);
  }
  // {characters (batch, time)[, states]} -> {scores (batch, time, characters)[, states]}
  Tensors forward(const Tensors& in) override {
    Tensors arguments = in;
    arguments[0] = embedding(in[0]);
    Tensors out = lstm(arguments);
    out[0] = output(out[0]);
    return out;
  }
};

int main(int argc, char** argv) {
  const bool quick = std::getenv("GLUINO_EXAMPLE_QUICK") != nullptr;
  std::ifstream file(argc > 1 ? argv[1] : GLUINO_DATA_DIR "/../README.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::string alphabet = text;
  std::sort(alphabet.begin(), alphabet.end());
  alphabet.erase(std::unique(alphabet.begin(), alphabet.end()), alphabet.end());

  // Samples: 32 characters and the 32 that come one place later.
  constexpr int64_t kTime = 32;
  std::vector<float> codes;
  for (const char c : text) codes.push_back(static_cast<float>(alphabet.find(c)));
  const int64_t samples = (static_cast<int64_t>(codes.size()) - 1) / kTime;
  const Tensor all = from_vector(codes);
  const Tensor x = all[Slice(0, samples * kTime)].reshape({samples, kTime}),
               y = all[Slice(1, samples * kTime + 1)].reshape({samples, kTime});
  data::DataLoader loader(data::array_dataset({x, y}), 16, {.shuffle = true, .last_batch = "discard"});

  seed(1);
  CharNet net(static_cast<int64_t>(alphabet.size()));
  net.initialize(init::xavier());
  net.hybridize();
  loss::SoftmaxCrossEntropyLoss loss_of;
  Trainer trainer(net.collect_params(), optimizer::adam({.learning_rate = 0.01}));
  double first = 0, last = 0;
  const int epochs = argc > 2 ? std::atoi(argv[2]) : quick ? 3 : 40;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    metric::Loss mean;
    for (const Tensors& batch : loader) {
      Tensor loss;
      {
        const auto record = autograd::record();
        loss = loss_of(net(batch[0]), batch[1]);
      }
      loss.backward();
      Tensors gradients;
      for (const auto& [name, p] : net.collect_params()) gradients.push_back(p->grad());
      clip_global_norm(gradients, 16 * 5);
      trainer.step(16);
      mean.update({}, loss);
    }
    last = mean.value();
    if (epoch == 0) first = last;
    std::cout << "epoch " << epoch + 1 << "  loss per character " << last << "\n";
  }

  // Writes: draws the next character from what the network expects, and feeds it back with the states.
  std::string written = "T";
  Tensors in{full({1, 1}, static_cast<double>(std::max<size_t>(0, alphabet.find('T'))))};
  for (const Tensor& s : net.lstm.begin_state(zeros({1, 1, 24}))) in.push_back(s);
  for (int i = 0; i < 120; ++i) {
    Tensors out = net(in);
    const Tensor next = random::multinomial(softmax(out[0].reshape({1, -1}) / 0.7));
    written += alphabet[next.item<int64_t>()];
    out[0] = next.reshape({1, 1}).astype(DType::float32);
    in = out;
  }
  std::cout << "\n" << written << "\n";
  return last < first ? 0 : 1;
}
