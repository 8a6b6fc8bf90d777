// MobileNet v1 and v2 (Howard et al., 2017; Sandler et al., 2018) and Inception v3 (Szegedy et al., 2015).
#include "gluino/ops.h"
#include "gluon/zoo/model_zoo.h"

namespace gluino::model_zoo {
namespace {

class ReLU6 : public HybridBlock {
 public:
  using Block::forward;
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
  using Block::forward;
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
  add_conv(net->features, scaled(32), Then::relu, 3, 2);
  const int64_t channels[] = {32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024};
  const int64_t strides[] = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
  for (size_t i = 0; i < 13; ++i) {
    add_conv(net->features, scaled(channels[i]), Then::relu, 3, strides[i], scaled(channels[i]));
    add_conv(net->features, scaled(channels[i + 1]), Then::relu);
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
  add_conv(f, scaled(32), Then::relu6, 3, 2);
  struct Stage {
    int64_t channels, repeats, stride;
  };
  int64_t in = scaled(32), expansion = 1;
  for (const Stage& s : {Stage{16, 1, 1}, {24, 2, 2}, {32, 3, 2}, {64, 4, 2}, {96, 3, 1}, {160, 3, 2}, {320, 1, 1}}) {
    for (int64_t i = 0; i < s.repeats; ++i) {
      f.add<LinearBottleneck>(in, scaled(s.channels), expansion, i == 0 ? s.stride : 1);
      in = scaled(s.channels);
      expansion = 6;
    }
  }
  add_conv(f, multiplier > 1 ? scaled(1280) : 1280, Then::relu6);
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

struct Convolution {
  int64_t channels;
  nn::Extents kernel, strides = 1, padding = 0;
};
std::shared_ptr<Block> basic(const Convolution& c) {
  auto out = sequence();
  out->add(nn::Conv2D(c.channels, c.kernel, bare(c.strides, c.padding)), nn::BatchNorm({.epsilon = 0.001}), nn::Activation("relu"));
  return out;
}
enum class Pool { none, average, max };
std::shared_ptr<nn::HybridSequential> branch(const std::vector<Convolution>& convolutions, Pool pool = Pool::none) {
  auto out = sequence();
  if (pool == Pool::average) out->add(nn::AvgPool2D(3, {.strides = 1, .padding = 1}));
  if (pool == Pool::max) out->add(nn::MaxPool2D(3, {.strides = 2}));
  for (const Convolution& c : convolutions) append(*out, basic(c));
  return out;
}
std::shared_ptr<nn::HybridConcurrent> side_by_side(const std::string& prefix,
                                                   const std::vector<std::shared_ptr<nn::HybridSequential>>& branches) {
  auto out = std::make_shared<nn::HybridConcurrent>(1, prefix);
  for (const auto& b : branches) append(*out, b);
  return out;
}

const nn::Extents kRow{1, 7}, kColumn{7, 1}, kAlongRow{0, 3}, kAlongColumn{3, 0};

std::shared_ptr<Block> block_a(const std::string& prefix, int64_t pool_channels) {
  return side_by_side(prefix, {branch({{64, 1}}), branch({{48, 1}, {64, 5, 1, 2}}), branch({{64, 1}, {96, 3, 1, 1}, {96, 3, 1, 1}}),
                               branch({{pool_channels, 1}}, Pool::average)});
}
std::shared_ptr<Block> block_b() {
  return side_by_side("B_", {branch({{384, 3, 2}}), branch({{64, 1}, {96, 3, 1, 1}, {96, 3, 2}}), branch({}, Pool::max)});
}
std::shared_ptr<Block> block_c(const std::string& prefix, int64_t n) {
  return side_by_side(
      prefix,
      {branch({{192, 1}}), branch({{n, 1}, {n, kRow, 1, kAlongRow}, {192, kColumn, 1, kAlongColumn}}),
       branch({{n, 1}, {n, kColumn, 1, kAlongColumn}, {n, kRow, 1, kAlongRow}, {n, kColumn, 1, kAlongColumn}, {192, kRow, 1, kAlongRow}}),
       branch({{192, 1}}, Pool::average)});
}
std::shared_ptr<Block> block_d() {
  return side_by_side(
      "D_", {branch({{192, 1}, {320, 3, 2}}), branch({{192, 1}, {192, kRow, 1, kAlongRow}, {192, kColumn, 1, kAlongColumn}, {192, 3, 2}}),
             branch({}, Pool::max)});
}
// Ends in a row filter and a column filter side by side.
std::shared_ptr<nn::HybridSequential> forked(const std::vector<Convolution>& first) {
  auto out = sequence();
  append(*out, branch(first));
  append(*out, side_by_side("", {branch({{384, {1, 3}, 1, {0, 1}}}), branch({{384, {3, 1}, 1, {1, 0}}})}));
  return out;
}
std::shared_ptr<Block> block_e(const std::string& prefix) {
  return side_by_side(prefix,
                      {branch({{320, 1}}), forked({{384, 1}}), forked({{448, 1}, {384, 3, 1, 1}}), branch({{192, 1}}, Pool::average)});
}

}  // namespace

ClassifierPtr inception_v3(Options o) {
  auto net = std::make_unique<Classifier>("inception3");
  nn::HybridSequential& f = net->features;
  append(f, basic({32, 3, 2}));
  append(f, basic({32, 3}));
  append(f, basic({64, 3, 1, 1}));
  f.add(nn::MaxPool2D(3, {.strides = 2}));
  append(f, basic({80, 1}));
  append(f, basic({192, 3}));
  f.add(nn::MaxPool2D(3, {.strides = 2}));
  append(f, block_a("A1_", 32));
  append(f, block_a("A2_", 64));
  append(f, block_a("A3_", 64));
  append(f, block_b());
  append(f, block_c("C1_", 128));
  append(f, block_c("C2_", 160));
  append(f, block_c("C3_", 160));
  append(f, block_c("C4_", 192));
  append(f, block_d());
  append(f, block_e("E1_"));
  append(f, block_e("E2_"));
  f.add(nn::AvgPool2D(8), nn::Dropout(0.5));
  net->set_output(std::make_shared<nn::Dense>(o.classes));
  return net;
}

}  // namespace gluino::model_zoo
