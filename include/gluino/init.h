// Initialisers: how a parameter gets its first value.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gluino/io.h"
#include "gluino/named_options.h"
#include "gluino/tensor.h"

namespace gluino::init {

class Initializer {
 public:
  virtual ~Initializer() = default;
  // Fills `value`. By name first, as Gluon does: biases, betas and means are zero, gammas and variances one;
  // everything else goes to fill().
  virtual void operator()(const std::string& name, Tensor& value) const;
  virtual void fill(const std::string& name, Tensor& value) const = 0;
};
using InitializerPtr = std::shared_ptr<const Initializer>;

InitializerPtr zero();
InitializerPtr one();
InitializerPtr constant(double value);
InitializerPtr uniform(double scale = 0.07);
InitializerPtr normal(double sigma = 0.01);
enum class Distribution { uniform, gaussian };
enum class Factor { average, in, out };
InitializerPtr xavier(Distribution distribution = Distribution::uniform, Factor factor = Factor::average, double magnitude = 3);
InitializerPtr msra_prelu(Factor factor = Factor::average, double slope = 0.25);
InitializerPtr orthogonal(double scale = 1.414, Distribution distribution = Distribution::uniform);
InitializerPtr bilinear();
InitializerPtr lstm_bias(double forget_bias = 1);
// The first pattern (a regular expression) that the name begins with decides.
InitializerPtr mixed(std::vector<std::pair<std::string, InitializerPtr>> by_pattern);
// Values from a file's tensors by name, with or without arg:/aux:; the others by `otherwise`, or an error without it.
InitializerPtr load(NamedTensors values, InitializerPtr otherwise = nullptr);
// By Gluon's names: "zeros", "ones", "constant", "uniform", "normal", "xavier", "orthogonal", "bilinear", "lstmbias", "msraprelu"; options
// by Gluon's names too: create("xavier", {{"rnd_type", "gaussian"}, {"magnitude", 2.0}}).
InitializerPtr create(const std::string& name, const NamedOptions& options = {});
InitializerPtr by_name(const std::string& name);
std::vector<std::string> names();
std::vector<Option> options_of(const std::string& name);

}  // namespace gluino::init
