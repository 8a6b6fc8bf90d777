// Architectures with random weights. Parameters have MXNet's names, so that load_parameters() takes MXNet's own files.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "gluino/nn.h"

namespace gluino::model_zoo {

// A network in two parts: net.features gives what net.output classifies.
class Classifier : public HybridBlock {
 public:
  explicit Classifier(std::string hint);
  Tensor forward(const Tensor& x) override { return output()(features(x)); }
  std::string hint() const override { return hint_; }
  nn::HybridSequential features;
  Block& output() const { return child("output"); }
  // Another head, for other classes; initialize() it before use.
  void set_output(std::shared_ptr<HybridBlock> head);

 private:
  std::string hint_;
};
using ClassifierPtr = std::unique_ptr<Classifier>;

struct Options {
  int64_t classes = 1000;
};
ClassifierPtr mlp(Options options = {.classes = 10});
ClassifierPtr lenet(Options options = {.classes = 10});
ClassifierPtr alexnet(Options options = {});
ClassifierPtr vgg(int layers, bool batch_norm = false, Options options = {});  // 11, 13, 16, 19
ClassifierPtr resnet(int version, int layers, Options options = {});           // 1 or 2; 18, 34, 50, 101, 152
ClassifierPtr densenet(int layers, Options options = {});                      // 121, 161, 169, 201
ClassifierPtr squeezenet(const std::string& version, Options options = {});    // "1.0", "1.1"
ClassifierPtr inception_v3(Options options = {});
ClassifierPtr mobilenet(double multiplier = 1, Options options = {});
ClassifierPtr mobilenet_v2(double multiplier = 1, Options options = {});

// By MXNet's names: get_model("resnet50_v1"), get_model("mobilenetv2_0.75", {.classes = 10}).
ClassifierPtr get_model(const std::string& name, std::optional<Options> options = {});
std::vector<std::string> names();

// The numbers that a family of networks is made of, in rows with names, for front ends that make layers of their own of them: alexnet,
// densenet, inception, lenet, mlp, mobilenet, mobilenetv2, resnet, squeezenet, vgg. tables.cc says what they mean.
using Table = std::vector<std::pair<std::string, std::vector<int64_t>>>;
const Table& table(const std::string& family);

}  // namespace gluino::model_zoo
