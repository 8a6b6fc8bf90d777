// A wrong option is an error of the constructor, not of the first call: every text and every bounded number of every layer and loss.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

struct TextOption {
  std::string name;                                   // as the headers have it: struct or class, and member or argument
  std::function<void(const std::string& text)> make;  // the layer with this text
  std::string good;                                   // one that is taken
};

const std::vector<TextOption>& text_options() {
  using nn::CellOptions, nn::RecurrentOptions;
  static const std::vector<TextOption> all{
      {"HybridLambda.op", [](const std::string& s) { nn::HybridLambda{s}; }, "sin"},
      {"DenseOptions.activation", [](const std::string& s) { nn::Dense(2, {.activation = s}); }, "tanh"},
      {"Activation.function", [](const std::string& s) { nn::Activation{s}; }, "softsign"},
      {"ConvOptions.activation", [](const std::string& s) { nn::Conv2D(2, 3, {.activation = s}); }, "relu"},
      {"ConvTransposeOptions.activation", [](const std::string& s) { nn::Conv1DTranspose(2, 3, {.activation = s}); }, "relu"},
      {"Pool.kind", [](const std::string& s) { nn::Pool(2, s, 2, {}); }, "lp"},
      {"TransformerOptions.activation", [](const std::string& s) { nn::TransformerEncoderLayer(4, 8, 2, {.activation = s}); }, "tanh"},
      {"RecurrentOptions.layout", [](const std::string& s) { nn::GRU(2, {.layout = s}); }, "NTC"},
      {"RecurrentLayer.mode", [](const std::string& s) { nn::RecurrentLayer(s, 1, 2, {}); }, "rnn_tanh"},
      {"RNN.activation", [](const std::string& s) { nn::RNN(2, RecurrentOptions{}, s); }, "tanh"},
      {"RNNCell.activation", [](const std::string& s) { nn::RNNCell(2, CellOptions{}, s); }, "sigmoid"},
      {"LogisticOptions.label_format", [](const std::string& s) { loss::LogisticLoss({.label_format = s}); }, "binary"},
      {"CTCOptions.layout", [](const std::string& s) { loss::CTCLoss({.layout = s}); }, "TNC"},
      {"CTCOptions.label_layout", [](const std::string& s) { loss::CTCLoss({.label_layout = s}); }, "TN"},
  };
  return all;
}

TEST(Options, TextsAreCheckedByConstructors) {
  for (const TextOption& option : text_options()) {
    SCOPED_TRACE(option.name);
    EXPECT_NO_THROW(option.make(option.good));
    std::vector<std::string> wrong{"nonsense", option.good + " ", "0", std::string("x\0y", 3), "ÄÖ"};
    for (size_t i = 0; i < option.good.size(); ++i) {  // a letter too few, a letter too many
      wrong.push_back(std::string(option.good).erase(i, 1));
      wrong.push_back(std::string(option.good).insert(i, 1, 'q'));
    }
    for (const std::string& text : wrong) {
      if (text.empty() || (text == "tan" && option.name == "HybridLambda.op")) continue;
      try {
        option.make(text);
        ADD_FAILURE() << "'" << text << "' was taken";
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find(text.c_str()), std::string::npos) << e.what();
      }
    }
  }
}

// All texts that the headers have are above. Names of blocks may be any text, and unroll() is a call.
TEST(Options, NoTextIsMissingAbove) {
  const std::filesystem::path headers = std::string(GLUINO_SOURCE_DIR) + "/include/gluino";
  const std::set<std::string> free{"Chain.prefix", "HybridConcurrent.prefix", "UnrollOptions.layout"};
  const std::regex word(R"((?:^|\n)(?:struct|class) (\w+)[^;]*?\{|std::string&? (\w+)(?= ?[;,=)])|, (\w+) = ")");
  std::set<std::string> found, known = free;
  for (const TextOption& option : text_options()) known.insert(option.name);
  for (const char* header : {"nn.h", "rnn.h", "loss.h"}) {
    std::stringstream text;
    text << std::ifstream(headers / header).rdbuf();
    const std::string content = text.str();
    std::string owner;
    for (std::sregex_iterator it(content.begin(), content.end(), word), end; it != end; ++it) {
      const std::string name = (*it)[2].matched ? (*it)[2] : (*it)[3];
      if ((*it)[1].matched)
        owner = (*it)[1];
      else if (!name.ends_with("_") && name != "name")  // of create(name)
        found.insert(owner + "." + name);
    }
  }
  EXPECT_GE(found.size(), 14u);
  for (const std::string& name : found) EXPECT_TRUE(known.contains(name)) << name << " has no wrong texts above";
}

TEST(Options, NumbersAreCheckedByConstructors) {
  using nn::ConvOptions, nn::ConvTransposeOptions, nn::PoolOptions;
  const nn::Extents three{1, 1, 1};
  GLUINO_EXPECT_ERROR(UserError, "Conv2D: strides is (1, 1, 1), but one number or 2", nn::Conv2D(2, 3, {.strides = three}));
  GLUINO_EXPECT_ERROR(UserError, "Conv1D: strides is 0, but at least 1", nn::Conv1D(2, 3, {.strides = 0}));
  GLUINO_EXPECT_ERROR(UserError, "Conv3D: padding is -1, but at least 0", nn::Conv3D(2, 3, {.padding = -1}));
  GLUINO_EXPECT_ERROR(UserError, "dilation is 0", nn::Conv2D(2, 3, {.dilation = 0}));
  GLUINO_EXPECT_ERROR(UserError, "kernel_size is 0", nn::Conv2D(2, 0));
  GLUINO_EXPECT_ERROR(UserError, "Conv2DTranspose: output_padding is (1, 1, 1)", nn::Conv2DTranspose(2, 3, {.output_padding = three}));
  GLUINO_EXPECT_ERROR(UserError, "MaxPool2D: pool_size is 0", nn::MaxPool2D(0));
  GLUINO_EXPECT_ERROR(UserError, "AvgPool1D: strides is (1, 1, 1)", nn::AvgPool1D(2, {.strides = three}));
  GLUINO_EXPECT_ERROR(UserError, "padding is -2", nn::MaxPool3D(2, {.padding = -2}));
  GLUINO_EXPECT_ERROR(UserError, "PixelShuffle2D: factor is 0", nn::PixelShuffle2D(0));
  GLUINO_EXPECT_ERROR(UserError, "ReflectionPad2D: padding is (1, 1, 1)", nn::ReflectionPad2D{three});
  for (const double rate : {-0.1, 1.5, std::nan("")}) {
    GLUINO_EXPECT_ERROR(UserError, "Dropout: rate is", nn::Dropout{rate});
    GLUINO_EXPECT_ERROR(UserError, "Dropout: rate is", nn::DropoutCell{rate});
    GLUINO_EXPECT_ERROR(UserError, "dropout is", nn::LSTM(2, {.dropout = rate}));
    GLUINO_EXPECT_ERROR(UserError, "Dropout: rate is", nn::MultiHeadAttention(4, 2, {.dropout = rate}));
    GLUINO_EXPECT_ERROR(UserError, "zoneout_states is", nn::ZoneoutCell(std::make_shared<nn::GRUCell>(2), 0, rate));
    GLUINO_EXPECT_ERROR(UserError, "BatchNorm: momentum is", nn::BatchNorm({.momentum = rate}));
  }
  GLUINO_EXPECT_ERROR(UserError, "LayerNorm: epsilon is -1, but it must not be negative", nn::LayerNorm({.epsilon = -1}));
  GLUINO_EXPECT_ERROR(UserError, "num_groups is 0", nn::GroupNorm({.num_groups = 0}));
}

}  // namespace
}  // namespace gluino::test
