// The workloads of the comparison in Gluino, modes "eager" and "hybrid". Usage: workloads THREADS; see runner.h.
// peers/torch_peer.py builds the same networks with the same weights.
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>

#include "gluino/gluino.h"
#include "gluino/model_zoo.h"
#include "runner.h"

using namespace gluino;

namespace {

using BlockPtr = std::shared_ptr<HybridBlock>;

BlockPtr mlp() {
  auto net = std::make_shared<nn::HybridSequential>();
  net->add(nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}), nn::Dense(2));
  return net;
}

BlockPtr lenet() {
  auto net = std::make_shared<nn::HybridSequential>();
  net->add(nn::Conv2D(6, 5, {.activation = "relu"}), nn::MaxPool2D(2), nn::Conv2D(16, 5, {.activation = "relu"}), nn::MaxPool2D(2),
           nn::Dense(120, {.activation = "relu"}), nn::Dense(84, {.activation = "relu"}), nn::Dense(10));
  return net;
}

struct Chain : HybridBlock {
  using Block::forward;
  Tensor forward(const Tensor& a, const Tensor& b) override {
    const Tensor d = a * b + 1;
    return exp(relu(tanh(d) * sigmoid(d) - a) * 0.5 + b);
  }
};

BlockPtr encoder() {
  auto net = std::make_shared<nn::HybridSequential>();
  for (int i = 0; i < 4; ++i) net->add<nn::TransformerEncoderLayer>(256, 1024, 4);
  return net;
}

struct Workload {
  std::function<BlockPtr()> make;
  std::vector<Shape> inputs;
  int64_t classes = 0;  // of a training step; 0: only the forward pass
};
const std::map<std::string, Workload>& workloads() {
  static const std::map<std::string, Workload> all{
      {"mlp_b1", {mlp, {Shape{1, 512}}}},
      {"mlp_b64", {mlp, {Shape{64, 512}}}},
      {"lenet", {lenet, {Shape{16, 1, 28, 28}}}},
      {"chain", {[] { return std::make_shared<Chain>(); }, {Shape{1000000}, Shape{1000000}}}},
      {"lstm", {[] { return std::make_shared<nn::LSTM>(256, nn::RecurrentOptions{.num_layers = 2}); }, {Shape{32, 8, 128}}}},
      {"encoder", {encoder, {Shape{1, 128, 256}}}},
      {"resnet18", {[] { return model_zoo::resnet(1, 18); }, {Shape{1, 3, 224, 224}}}},
      {"resnet50", {[] { return model_zoo::resnet(1, 50); }, {Shape{1, 3, 224, 224}}}},
      {"mobilenet_v2", {[] { return model_zoo::mobilenet_v2(); }, {Shape{1, 3, 224, 224}}}},
      {"train_lenet", {lenet, {Shape{64, 1, 28, 28}}, 10}},
      {"train_resnet18", {[] { return model_zoo::resnet(1, 18); }, {Shape{8, 3, 64, 64}}, 1000}},
  };
  return all;
}

// Weights: noise with He's bound; biases: a tenth of noise; normalisation stays at 1 and 0. Returns the number of parameters.
int64_t fill(HybridBlock& net) {
  int64_t count = 0;
  uint32_t stream = 0;
  for (const auto& [name, p] : net.collect_structural_params()) {
    if (p->is_state()) continue;
    const int64_t n = p->shape().elements();
    count += n;
    if (p->suffix().ends_with("gamma") || p->suffix().ends_with("beta")) continue;
    const double scale = p->shape().ndim() > 1 ? std::sqrt(6.0 * static_cast<double>(p->shape()[0]) / static_cast<double>(n)) : 0.1;
    p->set_data(from_vector(bench::noise_vector(stream++, n, scale), p->shape()));
  }
  return count;
}

struct Net {
  BlockPtr net;
  Tensors inputs;
  int64_t parameters = 0;
  explicit Net(const Workload& w) : net(w.make()) {
    net->initialize();
    net->build(w.inputs);
    parameters = fill(*net);
    for (size_t i = 0; i < w.inputs.size(); ++i)
      inputs.push_back(from_vector(bench::noise_vector(static_cast<uint32_t>(100 + i), w.inputs[i].elements()), w.inputs[i]));
  }
  bench::Facts facts(const Tensor& y) const {
    bench::Facts f{.parameters = parameters, .shape = {y.shape().begin(), y.shape().end()}};
    f.set_output(y.data<float>(), y.size());
    return f;
  }
};

bench::Program inference(const Workload& w, bool hybrid) {
  auto n = std::make_shared<Net>(w);
  auto call = [n] { (*n->net)(n->inputs); };
  auto start = [n, call, hybrid] {
    if (hybrid) n->net->hybridize();
    call();
  };
  return {start, call, [n] { return n->facts((*n->net)(n->inputs).at(0)); }};
}

// One step: forward, backward, SGD. The fact compared is the loss of the third step, which two updates have shaped.
bench::Program training(const Workload& w, bool hybrid) {
  struct Training : Net {
    explicit Training(const Workload& w) : Net(w), trainer(net->collect_params(), optimizer::sgd({.learning_rate = 1e-4})) {
      std::vector<float> classes(w.inputs[0][0]);
      for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<float>(i % static_cast<size_t>(w.classes));
      labels = from_vector(classes);
    }
    Tensor step() {
      Tensor losses;
      {
        const auto record = autograd::record();
        losses = loss((*net)(inputs[0]), labels);
      }
      losses.backward();
      trainer.step(static_cast<double>(labels.size()));
      return losses;
    }
    loss::SoftmaxCELoss loss;
    Trainer trainer;
    Tensor labels;
  };
  auto t = std::make_shared<Training>(w);
  auto start = [t, hybrid] {
    if (hybrid) {
      t->net->hybridize();
      t->loss.hybridize();
    }
    t->step();
  };
  auto facts = [t] {
    t->step();
    return t->facts(t->step());
  };
  return {start, [t] { t->step(); }, facts};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: workloads THREADS < requests (workload mode seconds)\n";
    return 2;
  }
  set_num_threads(std::stoi(argv[1]));
  return bench::serve([](const std::string& name, const std::string& mode) {
    const auto found = workloads().find(name);
    if (found == workloads().end()) throw std::runtime_error("there is no workload " + name);
    if (mode != "eager" && mode != "hybrid") throw std::runtime_error("there is no mode " + mode);
    return found->second.classes ? training(found->second, mode == "hybrid") : inference(found->second, mode == "hybrid");
  });
}
