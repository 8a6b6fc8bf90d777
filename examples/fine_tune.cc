// Fine tuning: a network trained on the digits 0 to 4 is exported; a second program loads it, cuts its head off, puts another on
// and learns 5 to 9 from few examples, with what the first one has learnt.
#include <gluino/gluino.h>

#include <iostream>

using namespace gluino;

static data::DatasetPtr digits_between(bool train, int low, int high, int64_t at_most) {
  const auto chosen = data::filter(data::digits(train), [=](const Tensors& s) { return s[1].item() >= low && s[1].item() <= high; });
  return data::take(data::transform(chosen, [=](const Tensors& s) { return Tensors{s[0], s[1] - low}; }), at_most);
}

static double fit(HybridBlock& net, int low, int high, int64_t samples, int64_t epochs) {
  data::DataLoader train(digits_between(true, low, high, samples), 25, {.shuffle = true}),
      test(digits_between(false, low, high, 1000), 1000);
  estimator::Estimator e(net, std::make_shared<loss::SoftmaxCrossEntropyLoss>(), {.optimizer = optimizer::adam({.learning_rate = 0.01})});
  e.fit(train, {.val_data = &test, .epochs = epochs});
  return e.value("val_accuracy");
}

static void make_the_first_model() {
  nn::HybridSequential net;
  net.add(nn::Conv2D(16, 3, {.padding = 1, .activation = "relu"}), nn::MaxPool2D(2), nn::Dense(32, {.activation = "relu"}), nn::Dense(5));
  net.initialize(init::xavier());
  net.hybridize();
  std::cout << "digits 0 to 4, from scratch:            accuracy " << fit(net, 0, 4, 1000, 8) << "\n";
  net.export_model("first");
}

// The loaded features, frozen, and a new head.
struct Tuned : nn::HybridBlock {
  SymbolBlock features;
  nn::Dense head{5};
  Tuned(const Symbol& graph, const NamedTensors& parameters) : features(graph, {"data"}, parameters) {
    GLUINO_CHILDREN(features, head);
    features.collect_params().set_grad_req(GradReq::null);
    head.initialize(init::xavier());
  }
  Tensor forward(const Tensor& x) override { return head(features(x)); }
};

int main() {
  seed(1);
  make_the_first_model();

  const Symbol whole = Symbol::load("first-symbol.json");
  std::string features;  // what the convolution sees serves all digits; the dense layers know 0 to 4 only
  for (const std::string& name : whole.get_internals().list_outputs())
    if (name.find("pool") != std::string::npos) features = name;
  Tuned net(whole.get_internals()[features], load_tensors("first-0000.params"));
  net.hybridize();
  const Tensor frozen = net.features.collect_params().begin()->second->data().copy();
  const double accuracy = fit(net, 5, 9, 100, 20);
  std::cout << "digits 5 to 9, 100 examples, fine tuned: accuracy " << accuracy << "\n";
  const bool untouched = array_equal(net.features.collect_params().begin()->second->data().detach(), frozen);
  std::cout << (untouched ? "the loaded features are as they were\n" : "the loaded features CHANGED\n");
  return accuracy > 0.8 && untouched ? 0 : 1;
}
