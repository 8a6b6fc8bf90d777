// Fine tuning an ONNX model: a network that knows the digits 0 to 4 is an .onnx file; it is imported, learns all ten, and leaves as
// an .onnx file again.
#include <gluino/gluino.h>

#include <iostream>

using namespace gluino;

static data::DatasetPtr digits_below(bool train, int end) {
  return data::filter(data::digits(train), [=](const Tensors& s) { return s[1].item() < end; });
}

static double fit(HybridBlock& net, int end, int64_t epochs) {
  data::DataLoader train(digits_below(true, end), 50, {.shuffle = true}), test(digits_below(false, end), 100);
  estimator::Estimator e(net, std::make_shared<loss::SoftmaxCrossEntropyLoss>(), {.optimizer = optimizer::adam({.learning_rate = 0.005})});
  e.fit(train, {.val_data = &test, .epochs = epochs});
  return e.value("val_accuracy");
}

int main() {
  seed(1);
  {  // Somebody's model: any framework could have written it.
    nn::HybridSequential net;
    net.add(nn::Conv2D(16, 3, {.padding = 1, .activation = "relu"}), nn::MaxPool2D(2), nn::Dense(32, {.activation = "relu"}),
            nn::Dense(10));
    net.initialize(init::xavier());
    net.hybridize();
    std::cout << "digits 0 to 4, from scratch: accuracy " << fit(net, 5, 5) << "\n";
    onnx::export_model(net, "first.onnx", {{"data", {-1, 1, 8, 8}}});
  }
  const auto net = onnx::import_model("first.onnx");
  net->hybridize();
  const double accuracy = fit(*net, 10, 10);
  std::cout << "all digits, fine tuned:      accuracy " << accuracy << "\n";
  onnx::export_model(*net, "tuned.onnx", {{"data", {-1, 1, 8, 8}}});
  const auto again = onnx::import_model("tuned.onnx");
  const Tensor x = random::normal(0, 1, {3, 1, 8, 8});
  const bool same = all_close((*net)(x), (*again)(x), 1e-4, 1e-5);
  std::cout << (same ? "the exported file gives the same answers\n" : "the exported file DIFFERS\n");
  return accuracy > 0.9 && same ? 0 : 1;
}
