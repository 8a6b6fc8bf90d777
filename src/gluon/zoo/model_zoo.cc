// The list of models, and those that are plain chains: MLP, LeNet, AlexNet, VGG, SqueezeNet.
#include "gluon/zoo/model_zoo.h"

namespace gluino::model_zoo {

Classifier::Classifier(std::string hint) : features(""), hint_(std::move(hint)) { add_child("features", features); }
void Classifier::set_output(std::shared_ptr<HybridBlock> head) {
  for (const Child& c : children())
    if (c.name == "output") return replace_child("output", std::move(head));
  own_child("output", std::move(head));
}

// Layers one after the other, convolutions and dense ones with relu.
static ClassifierPtr chain(const std::string& family, Options o) {
  auto net = std::make_unique<Classifier>(family);
  for (const auto& [kind, n] : table(family)) {
    if (kind == "Conv2D")
      net->features.add<nn::Conv2D>(n[0], n[1], nn::ConvOptions{.strides = n[2], .padding = n[3], .activation = "relu"});
    if (kind == "MaxPool2D") net->features.add<nn::MaxPool2D>(n[0], nn::PoolOptions{.strides = n[1]});
    if (kind == "Flatten") net->features.add(nn::Flatten());
    if (kind == "Dense") net->features.add<nn::Dense>(n[0], nn::DenseOptions{.activation = "relu"});
    if (kind == "Dropout") net->features.add(nn::Dropout(0.5));
  }
  net->set_output(std::make_shared<nn::Dense>(o.classes));
  return net;
}
ClassifierPtr mlp(Options o) { return chain("mlp", o); }
// For images of 28 x 28 (LeCun et al., 1998), with today's activations.
ClassifierPtr lenet(Options o) { return chain("lenet", o); }
ClassifierPtr alexnet(Options o) { return chain("alexnet", o); }

ClassifierPtr vgg(int layers, bool batch_norm, Options o) {
  const Table& vggs = table("vgg");
  const Numbers &convolutions = numbers_of_depth(vggs, layers, "VGG"), &channels = numbers(vggs, "channels");
  auto net = std::make_unique<Classifier>("vgg");
  for (size_t stage = 0; stage < convolutions.size(); ++stage) {
    for (int i = 0; i < convolutions[stage]; ++i) {
      net->features.add(nn::Conv2D(channels[stage], 3,
                                   {.padding = 1, .weight_initializer = init::xavier(init::Distribution::gaussian, init::Factor::out, 2)}));
      if (batch_norm) net->features.add(nn::BatchNorm());
      relu(net->features);
    }
    net->features.add(nn::MaxPool2D(2));
  }
  for (int i = 0; i < 2; ++i)
    net->features.add(nn::Dense(4096, {.activation = "relu", .weight_initializer = init::normal()}), nn::Dropout(0.5));
  net->set_output(std::make_shared<nn::Dense>(o.classes, nn::DenseOptions{.weight_initializer = init::normal()}));
  return net;
}

// Squeezes to few channels, then expands with 1 x 1 and 3 x 3 filters side by side.
static std::shared_ptr<Block> fire(int64_t squeeze, int64_t expand) {
  auto convolution = [](int64_t channels, int64_t kernel, int64_t padding) {
    auto part = sequence();
    part->add(nn::Conv2D(channels, kernel, {.padding = padding}), nn::Activation("relu"));
    return part;
  };
  auto paths = std::make_shared<nn::HybridConcurrent>(1, "");
  append(*paths, convolution(expand, 1, 0));
  append(*paths, convolution(expand, 3, 1));
  auto out = sequence();
  append(*out, convolution(squeeze, 1, 0));
  append(*out, paths);
  return out;
}

ClassifierPtr squeezenet(const std::string& version, Options o) {
  if (version != "1.0" && version != "1.1") raise<UserError>("model zoo: SqueezeNet has the versions 1.0 and 1.1, not '{}'", version);
  const Table& squeezenets = table("squeezenet");
  const Numbers& own = numbers(squeezenets, version);
  auto net = std::make_unique<Classifier>("squeezenet");
  net->features.add(nn::Conv2D(own[0], own[1], {.strides = 2}), nn::Activation("relu"));
  const auto pool = [&] { net->features.add(nn::MaxPool2D(3, {.strides = 2, .ceil_mode = true})); };
  pool();
  int64_t fires = 0;
  for (const int64_t squeeze : numbers(squeezenets, "squeeze")) {
    append(net->features, fire(squeeze, 4 * squeeze));
    if (++fires == own[2] || fires == own[3]) pool();
  }
  net->features.add(nn::Dropout(0.5));
  auto head = sequence();
  head->add(nn::Conv2D(o.classes, 1), nn::Activation("relu"), nn::AvgPool2D(13), nn::Flatten());
  net->set_output(head);
  return net;
}

// ---- by name

// The rows whose names are numbers.
static std::vector<int> depths(const std::string& family) {
  std::vector<int> found;
  for (const auto& [name, numbers] : table(family))
    if (std::isdigit(static_cast<unsigned char>(name[0]))) found.push_back(std::stoi(name));
  return found;
}
using Maker = std::function<ClassifierPtr(Options)>;
static const std::vector<std::pair<std::string, Maker>>& all_models() {
  static const auto models = [] {
    std::vector<std::pair<std::string, Maker>> m{{"mlp", mlp}, {"lenet", lenet}, {"alexnet", alexnet}, {"inceptionv3", inception_v3}};
    for (const int n : depths("vgg"))
      for (const bool bn : {false, true})
        m.emplace_back(fmt::format("vgg{}{}", n, bn ? "_bn" : ""), [=](Options o) { return vgg(n, bn, o); });
    for (const int version : {1, 2})
      for (const int n : depths("resnet"))
        m.emplace_back(fmt::format("resnet{}_v{}", n, version), [=](Options o) { return resnet(version, n, o); });
    for (const int n : depths("densenet")) m.emplace_back(fmt::format("densenet{}", n), [=](Options o) { return densenet(n, o); });
    for (const std::string version : {"1.0", "1.1"})
      m.emplace_back("squeezenet" + version, [=](Options o) { return squeezenet(version, o); });
    for (const auto& [text, width] :
         std::vector<std::pair<std::string, double>>{{"1.0", 1}, {"0.75", 0.75}, {"0.5", 0.5}, {"0.25", 0.25}}) {
      m.emplace_back("mobilenet" + text, [w = width](Options o) { return mobilenet(w, o); });
      m.emplace_back("mobilenetv2_" + text, [w = width](Options o) { return mobilenet_v2(w, o); });
    }
    return m;
  }();
  return models;
}
std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, make] : all_models()) out.push_back(name);
  return out;
}
ClassifierPtr get_model(const std::string& name, std::optional<Options> options) {
  const bool is_small = name == "mlp" || name == "lenet";
  for (const auto& [known, make] : all_models())
    if (known == name) return make(options.value_or(Options{.classes = is_small ? 10 : 1000}));
  raise<UserError>("model zoo: there is no '{}'{}", name, did_you_mean(name, names()));
}

}  // namespace gluino::model_zoo
