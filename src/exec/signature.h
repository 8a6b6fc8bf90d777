// What decides which trace may serve a call: modes, structure, dtypes, ranks, device, and which inputs are one tensor.
#pragma once
#include <unordered_map>

#include "autograd/tape.h"
#include "dispatch/mode.h"

namespace gluino {

inline bool on_tape(const Tensor& t) { return t.defined() && autograd::is_on_tape(t); }

struct Signature {
  bool training = false, recording = false;
  std::string structure;
  std::vector<DType> types;
  std::vector<int> ranks;    // -1 for a null tensor
  std::vector<int> same_as;  // per input the first that is the same tensor
  int device = 0;
  bool operator==(const Signature&) const = default;

  static Signature of(const Tensors& inputs, const std::string& structure) {
    Signature s{.training = mode().training, .recording = mode().recording, .structure = structure, .same_as = first_of_same(inputs)};
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = inputs[i];
      s.types.push_back(t.defined() ? impl_of(t).dtype : DType::float32);
      s.ranks.push_back(t.defined() ? impl_of(t).shape.ndim() : -1);
      if (t.defined()) s.device = impl_of(t).device.id();
    }
    return s;
  }
  // The same as of(inputs, structure) == *this, given the shapes too, without making one: it is on the way of every call.
  bool fits(const Tensors& inputs, const std::vector<Shape>& shapes, const std::string& text) const {
    if (training != mode().training || recording != mode().recording || ranks.size() != inputs.size() || structure != text) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) {
        if (ranks[i] >= 0) return false;
        continue;
      }
      const detail::TensorImpl& t = impl_of(inputs[i]);
      if (ranks[i] < 0 || t.dtype != types[i] || !(t.shape == shapes[i]) || t.device.id() != device) return false;
    }
    return has_same_as(inputs);
  }
  static std::vector<Shape> shapes_of(const Tensors& inputs) {
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.defined() ? impl_of(t).shape : Shape{});
    return shapes;
  }

 private:
  static std::vector<int> first_of_same(const Tensors& inputs) {
    std::unordered_map<const detail::TensorImpl*, int> known;
    std::vector<int> first;
    for (size_t i = 0; i < inputs.size(); ++i)
      first.push_back(known.try_emplace(inputs[i].impl().get(), static_cast<int>(i)).first->second);
    return first;
  }
  bool has_same_as(const Tensors& inputs) const {
    constexpr size_t kFew = 16;  // are looked through faster than put into a table
    if (inputs.size() > kFew) return first_of_same(inputs) == same_as;
    for (size_t i = 0; i < inputs.size(); ++i) {
      int k = 0;
      while (!inputs[static_cast<size_t>(k)].is_same(inputs[i])) ++k;
      if (k != same_as[i]) return false;
    }
    return true;
  }
};

}  // namespace gluino
