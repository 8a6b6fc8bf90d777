// MobileNet v1 and v2 (Howard et al., 2017; Sandler et al., 2018) and Inception v3 (Szegedy et al., 2015).
#include "gluino/ops.h"
#include "gluon/zoo/model_zoo.h"

namespace gluino::model_zoo {
namespace {

class ReLU6 : public HybridBlock {
 public:
  Tensor forward(const Tensor& x) override { return clip(x, {.a_min = 0, .a_max = 6}); }
};

enum class Then { relu, relu6, nothing };
void add_conv(nn::HybridSequential& to, int64_t channels, Then then, int64_t kernel = 1, int64_t stride = 1, int64_t groups = 1) {
  to.add(nn::Conv2D(channels, kernel, bare(stride, kernel / 2, groups)), nn::BatchNorm());
  if (then == Then::relu) relu(to);
  if (then == Then::relu6) to.add(ReLU6());
}

// Expands, filters each channel, projects back; no activation at the end.
class LinearBottleneck : public HybridBlock {
 public:
  LinearBottleneck(int64_t in, int64_t channels, int64_t expansion, int64_t stride)
      : has_shortcut_(stride == 1 && in == channels), out_(sequence()) {
    add_conv(*out_, in * expansion, Then::relu6);
    add_conv(*out_, in * expansion, Then::relu6, 3, stride, in * expansion);
    add_conv(*out_, channels, Then::nothing);
    own_child("out", out_);
  }
  Tensor forward(const Tensor& x) override { return has_shortcut_ ? (*out_)(x) + x : (*out_)(x); }

 private:
  bool has_shortcut_;
  std::shared_ptr<nn::HybridSequential> out_;
};

void check_multiplier(double multiplier) {
  if (!(multiplier > 0 && multiplier <= 4))
    raise<UserError>("model zoo: MobileNet's multiplier is {}; it must be above 0 and at most 4", multiplier);
}

}  // namespace

ClassifierPtr mobilenet(double multiplier, Options o) {
  check_multiplier(multiplier);
  auto scaled = [&](int64_t channels) { return static_cast<int64_t>(static_cast<double>(channels) * multiplier); };
  auto net = std::make_unique<Classifier>("mobilenet");
  const Table& own = table("mobilenet");
  int64_t in = scaled(numbers(own, "first")[0]);
  add_conv(net->features, in, Then::relu, 3, 2);
  for (const auto& [name, pair] : own) {
    if (name != "pair") continue;
    add_conv(net->features, in, Then::relu, 3, pair[1], in);
    in = scaled(pair[0]);
    add_conv(net->features, in, Then::relu);
  }
  net->features.add(nn::GlobalAvgPool2D(), nn::Flatten());
  net->set_output(std::make_shared<nn::Dense>(o.classes));
  return net;
}

ClassifierPtr mobilenet_v2(double multiplier, Options o) {
  check_multiplier(multiplier);
  auto scaled = [&](int64_t channels) { return static_cast<int64_t>(static_cast<double>(channels) * multiplier); };
  auto net = std::make_unique<Classifier>("mobilenetv2");
  nn::HybridSequential& f = net->features;
  f.set_prefix("features_");
  const Table& own = table("mobilenetv2");
  int64_t in = scaled(numbers(own, "first")[0]);
  add_conv(f, in, Then::relu6, 3, 2);
  for (const auto& [name, stage] : own) {
    if (name != "stage") continue;
    const int64_t channels = scaled(stage[0]), repeats = stage[1], stride = stage[2], expansion = stage[3];
    for (int64_t i = 0; i < repeats; ++i) {
      f.add<LinearBottleneck>(in, channels, expansion, i == 0 ? stride : 1);
      in = channels;
    }
  }
  const int64_t last = numbers(own, "last")[0];
  add_conv(f, multiplier > 1 ? scaled(last) : last, Then::relu6);
  f.add(nn::GlobalAvgPool2D());
  auto head = sequence("output_");
  auto prediction = std::make_shared<nn::Conv2D>(o.classes, 1, bare());
  prediction->set_prefix("pred_");
  append(*head, prediction);
  head->add(nn::Flatten());
  net->set_output(head);
  return net;
}

// ---- Inception

namespace {

std::shared_ptr<Block> basic(const Numbers& n) {
  auto out = sequence();
  out->add(nn::Conv2D(n[0], {n[1], n[2]}, bare(n[3], {n[4], n[5]})), nn::BatchNorm({.epsilon = 0.001}), nn::Activation("relu"));
  return out;
}

// Reads rows of the table from the front.
class InceptionParts {
 public:
  explicit InceptionParts(const Table& table) : row_(table.begin()), end_(table.end()) {}
  void add_all(nn::HybridSequential& to) {
    while (row_ != end_) {
      const auto& [what, numbers] = *row_++;
      if (what == "convolution") append(to, basic(numbers));
      if (what == "max pooling") to.add(nn::MaxPool2D(3, {.strides = 2}));
      if (what.starts_with("block ")) append(to, block(what.substr(6)));
    }
  }

 private:
  std::shared_ptr<Block> block(const std::string& prefix) {
    auto out = std::make_shared<nn::HybridConcurrent>(1, prefix);
    while (row_->first != "end") append(*out, branch((row_++)->first));
    ++row_;
    return out;
  }
  std::shared_ptr<Block> branch(const std::string& what) {
    auto out = sequence();
    if (what == "branch after average pooling") out->add(nn::AvgPool2D(3, {.strides = 1, .padding = 1}));
    if (what == "branch after max pooling") out->add(nn::MaxPool2D(3, {.strides = 2}));
    while (row_->first == "convolution") append(*out, basic((row_++)->second));
    if (row_->first != "fork") return out;
    ++row_;
    auto ends = std::make_shared<nn::HybridConcurrent>(1, "");
    while (row_->first == "convolution") {
      auto end = sequence();
      append(*end, basic((row_++)->second));
      append(*ends, end);
    }
    auto forked = sequence();
    append(*forked, out);
    append(*forked, ends);
    return forked;
  }
  Table::const_iterator row_;
  const Table::const_iterator end_;
};

}  // namespace

ClassifierPtr inception_v3(Options o) {
  auto net = std::make_unique<Classifier>("inception3");
  InceptionParts(table("inception")).add_all(net->features);
  net->features.add(nn::AvgPool2D(8), nn::Dropout(0.5));
  net->set_output(std::make_shared<nn::Dense>(o.classes));
  return net;
}

}  // namespace gluino::model_zoo
