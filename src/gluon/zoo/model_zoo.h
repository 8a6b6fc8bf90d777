// What the architectures' sources share.
#pragma once
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

template <class Spec>
const Spec& look_up(const std::vector<std::pair<int, Spec>>& specs, int layers, const char* family) {
  std::vector<int> known;
  for (const auto& [n, spec] : specs) {
    if (n == layers) return spec;
    known.push_back(n);
  }
  raise<UserError>("model zoo: there is no {} of {} layers, only of {}", family, layers, fmt::join(known, ", "));
}

}  // namespace gluino::model_zoo
