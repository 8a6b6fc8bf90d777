// Loops and branches, of which not every output depends on every input: what eager code, which runs their bodies, has on the tape.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "gluino/op.h"

namespace gluino {

// Which inputs each of some outputs depends on.
class Dependence {
 public:
  Dependence(size_t outputs, size_t inputs) : outputs_(outputs), inputs_(inputs), words_((inputs + 63) / 64), bits_(outputs * words_) {}

  size_t num_outputs() const { return outputs_; }
  size_t num_inputs() const { return inputs_; }
  bool depends(size_t output, size_t input) const { return (bits_[output * words_ + input / 64] >> (input % 64) & 1) != 0; }
  void add(size_t output, size_t input) { bits_[output * words_ + input / 64] |= uint64_t{1} << (input % 64); }
  // What output `from` of another one depends on, of as many inputs.
  void add(size_t output, const Dependence& other, size_t from) {
    for (size_t w = 0; w < words_; ++w) bits_[output * words_ + w] |= other.bits_[from * words_ + w];
  }
  // Of outputs of outputs: what each depends on by way of `given`, whose outputs are the inputs of this one.
  Dependence through(const Dependence& given) const {
    Dependence result(outputs_, given.inputs_);
    for (size_t o = 0; o < outputs_; ++o)
      for (size_t i = 0; i < inputs_; ++i)
        if (depends(o, i)) result.add(o, given, i);
    return result;
  }
  bool depends_on_any(size_t output, const std::vector<bool>& inputs) const {
    for (size_t i = 0; i < inputs_; ++i)
      if (inputs[i] && depends(output, i)) return true;
    return false;
  }
  std::span<uint64_t> words() { return bits_; }  // as a hidden output keeps them
  bool operator==(const Dependence&) const = default;

 private:
  size_t outputs_, inputs_, words_;
  std::vector<uint64_t> bits_;
};

// Of the outputs that are not hidden. `hidden`: the last output of the call, which knows what has been run; null: of any call.
using DependenceRule = std::function<Dependence(const void* attrs, std::span<const Shape> in, const Tensor& hidden)>;

// Where the hidden output, int64, has the number of steps; of a branch it is 1 when the first one ran.
inline constexpr int64_t kPlaceOfSteps = 1;
int64_t steps_made(const Tensor& hidden);

// Said where such an operator is defined.
void says_dependent_outputs(const std::string& op, DependenceRule rule);
// Null for operators whose outputs all depend on all inputs.
const DependenceRule* dependence_rule_of(const OpDef& op);

}  // namespace gluino
