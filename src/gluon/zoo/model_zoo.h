// What the architectures' sources share.
#pragma once
#include <algorithm>

#include "base/format.h"
#include "gluino/model_zoo.h"

namespace gluino::model_zoo {

// A see-through sequence: what it holds is named as if it stood in the scope around it.
inline std::shared_ptr<nn::HybridSequential> sequence(const std::string& prefix = "") {
  return std::make_shared<nn::HybridSequential>(prefix);
}
inline void append(nn::HybridSequential& to, std::shared_ptr<Block> block) { to.own_child(std::to_string(to.size()), std::move(block)); }

inline nn::ConvOptions bare(nn::Extents strides = 1, nn::Extents padding = 0, int64_t groups = 1) {
  return {.strides = std::move(strides), .padding = std::move(padding), .groups = groups, .use_bias = false};
}
inline void relu(nn::HybridSequential& to) { to.add<nn::Activation>("relu"); }

using Numbers = std::vector<int64_t>;
inline const Numbers& numbers(const Table& table, const std::string& name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.first == name; })->second;
}
// Of a depth; the rows whose names are numbers are the depths.
inline const Numbers& numbers_of_depth(const Table& table, int layers, const char* family) {
  std::vector<std::string> known;
  for (const auto& [name, numbers] : table) {
    if (name == std::to_string(layers)) return numbers;
    if (std::isdigit(static_cast<unsigned char>(name[0]))) known.push_back(name);
  }
  raise<UserError>("model zoo: there is no {} of {} layers, only of {}", family, layers, fmt::join(known, ", "));
}

}  // namespace gluino::model_zoo
