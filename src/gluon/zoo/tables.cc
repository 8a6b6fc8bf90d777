// The numbers of the zoo's networks, once for every language: layers are made of them in C++ here, in Python in its model_zoo.
#include <map>

#include "gluon/zoo/model_zoo.h"

namespace gluino::model_zoo {
namespace {

// Convolution: channels, kernel, stride, padding. Pooling: window, stride.
const Table kMlp{{"Flatten", {}}, {"Dense", {128}}, {"Dense", {64}}};
const Table kLeNet{{"Conv2D", {6, 5, 1, 2}}, {"MaxPool2D", {2, 2}}, {"Conv2D", {16, 5, 1, 0}}, {"MaxPool2D", {2, 2}}, {"Flatten", {}},
                   {"Dense", {120}},         {"Dense", {84}}};
const Table kAlexNet{{"Conv2D", {64, 11, 4, 2}},
                     {"MaxPool2D", {3, 2}},
                     {"Conv2D", {192, 5, 1, 2}},
                     {"MaxPool2D", {3, 2}},
                     {"Conv2D", {384, 3, 1, 1}},
                     {"Conv2D", {256, 3, 1, 1}},
                     {"Conv2D", {256, 3, 1, 1}},
                     {"MaxPool2D", {3, 2}},
                     {"Flatten", {}},
                     {"Dense", {4096}},
                     {"Dropout", {}},
                     {"Dense", {4096}},
                     {"Dropout", {}}};

// By depth the convolutions of each stage; their channels.
const Table kVgg{{"11", {1, 1, 2, 2, 2}},
                 {"13", {2, 2, 2, 2, 2}},
                 {"16", {2, 2, 3, 3, 3}},
                 {"19", {2, 2, 4, 4, 4}},
                 {"channels", {64, 128, 256, 512, 512}}};

// By depth the blocks of each stage; channels before the stages and behind each, for plain blocks and for bottlenecks, which the depths
// from "bottlenecks from" on have.
const Table kResNet{{"18", {2, 2, 2, 2}},
                    {"34", {3, 4, 6, 3}},
                    {"50", {3, 4, 6, 3}},
                    {"101", {3, 4, 23, 3}},
                    {"152", {3, 8, 36, 3}},
                    {"channels", {64, 64, 128, 256, 512}},
                    {"channels of bottlenecks", {64, 256, 512, 1024, 2048}},
                    {"bottlenecks from", {50}}};

// By depth the channels of the first convolution, those that a layer adds, and the layers of each stage.
const Table kDenseNet{
    {"121", {64, 32, 6, 12, 24, 16}}, {"161", {96, 48, 6, 12, 36, 24}}, {"169", {64, 32, 6, 12, 32, 32}}, {"201", {64, 32, 6, 12, 48, 32}}};

// By version the first convolution (channels, kernel) and the fires before further pooling; what each fire squeezes to.
const Table kSqueezeNet{{"1.0", {96, 7, 3, 7}}, {"1.1", {64, 3, 2, 4}}, {"squeeze", {16, 16, 32, 32, 48, 48, 64, 64}}};

// Channels of the first convolution; then channels behind each pair of convolutions, and its stride.
const Table kMobileNet{{"first", {32}},    {"pair", {64, 1}},  {"pair", {128, 2}},  {"pair", {128, 1}}, {"pair", {256, 2}},
                       {"pair", {256, 1}}, {"pair", {512, 2}}, {"pair", {512, 1}},  {"pair", {512, 1}}, {"pair", {512, 1}},
                       {"pair", {512, 1}}, {"pair", {512, 1}}, {"pair", {1024, 2}}, {"pair", {1024, 1}}};
// Channels of the first and the last convolution; of each stage the channels, how many bottlenecks, the stride of the first, and how much
// they widen their input.
const Table kMobileNetV2{{"first", {32}},          {"last", {1280}},          {"stage", {16, 1, 1, 1}},
                         {"stage", {24, 2, 2, 6}}, {"stage", {32, 3, 2, 6}},  {"stage", {64, 4, 2, 6}},
                         {"stage", {96, 3, 1, 6}}, {"stage", {160, 3, 2, 6}}, {"stage", {320, 1, 1, 6}}};

// ---- Inception v3: convolutions (channels, kernel, stride, padding; the last two for both axes), pooling, and blocks of branches side by
// side, until "end". A branch may begin with pooling; what follows "fork" in it stands side by side.

using Row = Table::value_type;
using Numbers = std::vector<int64_t>;

Row conv(int64_t channels, int64_t kernel, int64_t stride = 1, int64_t padding = 0) {
  return {"convolution", {channels, kernel, kernel, stride, padding, padding}};
}
Row row(int64_t channels, int64_t length = 7) { return {"convolution", {channels, 1, length, 1, 0, length / 2}}; }
Row column(int64_t channels, int64_t length = 7) { return {"convolution", {channels, length, 1, 1, length / 2, 0}}; }
const Row kBranch{"branch", {}}, kAveraged{"branch after average pooling", {}}, kPooled{"branch after max pooling", {}}, kFork{"fork", {}};

void add_block(Table& table, const std::string& prefix, const Table& branches) {
  table.emplace_back("block " + prefix, Numbers());
  table.insert(table.end(), branches.begin(), branches.end());
  table.emplace_back("end", Numbers());
}
Table make_inception() {
  Table t{conv(32, 3, 2), conv(32, 3), conv(64, 3, 1, 1), {"max pooling", {}}, conv(80, 1), conv(192, 3), {"max pooling", {}}};
  int64_t number = 0;
  for (const int64_t pooled : {32, 64, 64})
    add_block(t, fmt::format("A{}_", ++number),
              {kBranch, conv(64, 1), kBranch, conv(48, 1), conv(64, 5, 1, 2), kBranch, conv(64, 1), conv(96, 3, 1, 1), conv(96, 3, 1, 1),
               kAveraged, conv(pooled, 1)});
  add_block(t, "B_", {kBranch, conv(384, 3, 2), kBranch, conv(64, 1), conv(96, 3, 1, 1), conv(96, 3, 2), kPooled});
  number = 0;
  for (const int64_t n : {128, 160, 160, 192})
    add_block(t, fmt::format("C{}_", ++number),
              {kBranch, conv(192, 1), kBranch, conv(n, 1), row(n), column(192), kBranch, conv(n, 1), column(n), row(n), column(n), row(192),
               kAveraged, conv(192, 1)});
  add_block(t, "D_", {kBranch, conv(192, 1), conv(320, 3, 2), kBranch, conv(192, 1), row(192), column(192), conv(192, 3, 2), kPooled});
  for (number = 1; number <= 2; ++number)
    add_block(t, fmt::format("E{}_", number),
              {kBranch, conv(320, 1), kBranch, conv(384, 1), kFork, row(384, 3), column(384, 3), kBranch, conv(448, 1), conv(384, 3, 1, 1),
               kFork, row(384, 3), column(384, 3), kAveraged, conv(192, 1)});
  return t;
}

}  // namespace

const Table& table(const std::string& family) {
  static const std::map<std::string, Table> all{{"mlp", kMlp},
                                                {"lenet", kLeNet},
                                                {"alexnet", kAlexNet},
                                                {"vgg", kVgg},
                                                {"resnet", kResNet},
                                                {"densenet", kDenseNet},
                                                {"squeezenet", kSqueezeNet},
                                                {"mobilenet", kMobileNet},
                                                {"mobilenetv2", kMobileNetV2},
                                                {"inception", make_inception()}};
  const auto found = all.find(family);
  if (found == all.end()) raise<UserError>("model zoo: there is no table of '{}'", family);
  return found->second;
}

}  // namespace gluino::model_zoo
