// Which parameter of a block a tensor is, and which tensor of a file a parameter.
#pragma once
#include <string>
#include <unordered_map>

#include "gluino/block.h"
#include "gluino/io.h"

namespace gluino {

// The full name of the parameter in this block or below whose value is `t`; empty: none.
std::string name_of_parameter(const Block& block, const Tensor& t);

// Tensors by name, the first of each; the list must outlive it.
class TensorsByName {
 public:
  explicit TensorsByName(const NamedTensors& tensors) {
    for (const auto& [name, t] : tensors) places_.try_emplace(name, &t);
  }
  const Tensor* find(std::string_view name) const {  // null: there is none
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : found->second;
  }
  // As it is, or as exported files spell it.
  const Tensor* find_spelled(const std::string& name) const {
    for (const std::string& spelling : {name, "arg:" + name, "aux:" + name})
      if (const Tensor* t = find(spelling)) return t;
    return nullptr;
  }

 private:
  std::unordered_map<std::string_view, const Tensor*> places_;
};

}  // namespace gluino
