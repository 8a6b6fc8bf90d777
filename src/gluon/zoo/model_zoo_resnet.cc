// ResNet v1 and v2 (He et al., 2015 and 2016) and DenseNet (Huang et al., 2017).
#include <span>

#include "gluino/ops.h"
#include "gluon/zoo/model_zoo.h"

namespace gluino::model_zoo {
namespace {

Tensor rectified(const Tensor& x) { return activation(x, {.act_type = "relu"}); }
std::shared_ptr<nn::Conv2D> conv3x3(int64_t channels, int64_t stride) { return std::make_shared<nn::Conv2D>(channels, 3, bare(stride, 1)); }

// Convolutions, then normalisation; the shortcut is added before the last activation.
class ResidualV1 : public HybridBlock {
 public:
  ResidualV1(bool bottleneck, int64_t channels, int64_t stride, bool downsample) : HybridBlock(""), body_(sequence()) {
    if (bottleneck) {
      body_->add(nn::Conv2D(channels / 4, 1, {.strides = stride}), nn::BatchNorm(), nn::Activation("relu"));
      append(*body_, conv3x3(channels / 4, 1));
      body_->add(nn::BatchNorm(), nn::Activation("relu"), nn::Conv2D(channels, 1), nn::BatchNorm());
    } else {
      append(*body_, conv3x3(channels, stride));
      body_->add(nn::BatchNorm(), nn::Activation("relu"));
      append(*body_, conv3x3(channels, 1));
      body_->add(nn::BatchNorm());
    }
    own_child("body", body_);
    if (!downsample) return;
    downsample_ = sequence();
    downsample_->add(nn::Conv2D(channels, 1, bare(stride)), nn::BatchNorm());
    own_child("downsample", downsample_);
  }
  Tensor forward(const Tensor& x) override { return rectified((*body_)(x) + (downsample_ ? (*downsample_)(x) : x)); }

 private:
  std::shared_ptr<nn::HybridSequential> body_, downsample_;
};

// Normalisation first; the shortcut passes through untouched.
class ResidualV2 : public HybridBlock {
 public:
  ResidualV2(bool bottleneck, int64_t channels, int64_t stride, bool downsample) : HybridBlock("") {
    if (bottleneck) {
      add(std::make_shared<nn::Conv2D>(channels / 4, 1, bare()));
      add(conv3x3(channels / 4, stride));
      add(std::make_shared<nn::Conv2D>(channels, 1, bare()));
    } else {
      add(conv3x3(channels, stride));
      add(conv3x3(channels, 1));
    }
    if (!downsample) return;
    downsample_ = std::make_shared<nn::Conv2D>(channels, 1, bare(stride));
    own_child("downsample", downsample_);
  }
  Tensor forward(const Tensor& in) override {
    Tensor x = in, shortcut = in;
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      x = rectified((*norms_[i])(x));
      if (i == 0 && downsample_) shortcut = (*downsample_)(x);
      x = (*convolutions_[i])(x);
    }
    return x + shortcut;
  }

 private:
  void add(std::shared_ptr<nn::Conv2D> convolution) {
    norms_.push_back(std::make_shared<nn::BatchNorm>());
    convolutions_.push_back(std::move(convolution));
    own_child(fmt::format("bn{}", norms_.size()), norms_.back());
    own_child(fmt::format("conv{}", norms_.size()), convolutions_.back());
  }
  std::vector<std::shared_ptr<nn::BatchNorm>> norms_;
  std::vector<std::shared_ptr<nn::Conv2D>> convolutions_;
  std::shared_ptr<nn::Conv2D> downsample_;
};

}  // namespace

ClassifierPtr resnet(int version, int layers, Options o) {
  if (version != 1 && version != 2) raise<UserError>("model zoo: ResNet has the versions 1 and 2, not {}", version);
  const Table& resnets = table("resnet");
  const Numbers& blocks = numbers_of_depth(resnets, layers, "ResNet");
  const bool bottleneck = layers >= numbers(resnets, "bottlenecks from")[0];
  const Numbers& channels = numbers(resnets, bottleneck ? "channels of bottlenecks" : "channels");
  auto net = std::make_unique<Classifier>(fmt::format("resnetv{}", version));
  nn::HybridSequential& f = net->features;
  if (version == 2) f.add(nn::BatchNorm({.center = false, .scale = false}));
  f.add(nn::Conv2D(channels[0], 7, bare(2, 3)), nn::BatchNorm(), nn::Activation("relu"), nn::MaxPool2D(3, {.strides = 2, .padding = 1}));
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int64_t in = channels[stage], out = channels[stage + 1];
    auto part = sequence(fmt::format("stage{}_", stage + 1));
    for (int i = 0; i < blocks[stage]; ++i) {
      const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      if (version == 1)
        part->add<ResidualV1>(bottleneck, out, stride, i == 0 && out != in);
      else
        part->add<ResidualV2>(bottleneck, out, stride, i == 0 && out != in);
    }
    append(f, part);
  }
  if (version == 2) f.add(nn::BatchNorm(), nn::Activation("relu"));
  f.add(nn::GlobalAvgPool2D());
  if (version == 2) f.add(nn::Flatten());
  net->set_output(std::make_shared<nn::Dense>(o.classes, nn::DenseOptions{.in_units = channels.back()}));
  return net;
}

ClassifierPtr densenet(int layers, Options o) {
  const Numbers& own = numbers_of_depth(table("densenet"), layers, "DenseNet");
  const int64_t first = own[0], growth = own[1];
  const std::span blocks(own.begin() + 2, own.end());
  auto net = std::make_unique<Classifier>("densenet");
  nn::HybridSequential& f = net->features;
  f.add(nn::Conv2D(first, 7, bare(2, 3)), nn::BatchNorm(), nn::Activation("relu"), nn::MaxPool2D(3, {.strides = 2, .padding = 1}));
  int64_t channels = first;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    auto dense = sequence(fmt::format("stage{}_", stage + 1));
    for (int i = 0; i < blocks[stage]; ++i) {
      auto fresh = sequence();
      fresh->add(nn::BatchNorm(), nn::Activation("relu"), nn::Conv2D(4 * growth, 1, bare()), nn::BatchNorm(), nn::Activation("relu"),
                 nn::Conv2D(growth, 3, bare(1, 1)));
      auto both = std::make_shared<nn::HybridConcurrent>(1, "");
      append(*both, std::make_shared<nn::Identity>());
      append(*both, fresh);
      append(*dense, both);
    }
    append(f, dense);
    channels += blocks[stage] * growth;
    if (stage + 1 == blocks.size()) break;
    channels /= 2;
    auto transition = sequence();
    transition->add(nn::BatchNorm(), nn::Activation("relu"), nn::Conv2D(channels, 1, bare()), nn::AvgPool2D(2));
    append(f, transition);
  }
  f.add(nn::BatchNorm(), nn::Activation("relu"), nn::AvgPool2D(7), nn::Flatten());
  net->set_output(std::make_shared<nn::Dense>(o.classes));
  return net;
}

}  // namespace gluino::model_zoo
