// What decides which trace may serve a call: modes, structure, dtypes, ranks, device, and which inputs are one tensor.
#pragma once
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
    Signature s{.training = mode().training, .recording = mode().recording, .structure = structure};
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = inputs[i];
      s.types.push_back(t.defined() ? impl_of(t).dtype : DType::float32);
      s.ranks.push_back(t.defined() ? impl_of(t).shape.ndim() : -1);
      s.same_as.push_back(first_same(inputs, i));
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
      if (first_same(inputs, i) != same_as[i]) return false;
    }
    return true;
  }
  static std::vector<Shape> shapes_of(const Tensors& inputs) {
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.defined() ? impl_of(t).shape : Shape{});
    return shapes;
  }

 private:
  static int first_same(const Tensors& inputs, size_t i) {
    size_t k = 0;
    while (!inputs[k].is_same(inputs[i])) ++k;
    return static_cast<int>(k);
  }
};

}  // namespace gluino
