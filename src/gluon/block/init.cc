#include "gluino/init.h"

#include <cmath>

#include "base/format.h"
#include "base/name_pattern.h"
#include "gluino/ops.h"
#include "gluino/random.h"
#include "gluon/block/parameter_names.h"
#include "gluon/named.h"

namespace gluino::init {
namespace {

void set(Tensor& value, double number) { value.assign(full(value.shape(), number, {value.dtype(), value.device()})); }
void set_uniform(Tensor& value, double scale) {
  value.assign(random::uniform(-scale, scale, value.shape(), {DType::float32, value.device()}));
}
void set_normal(Tensor& value, double sigma) { value.assign(random::normal(0, sigma, value.shape(), {DType::float32, value.device()})); }

class Function final : public Initializer {
 public:
  explicit Function(std::function<void(const std::string&, Tensor&)> f) : f_(std::move(f)) {}
  void fill(const std::string& name, Tensor& value) const override { f_(name, value); }

 private:
  std::function<void(const std::string&, Tensor&)> f_;
};
InitializerPtr make(std::function<void(const std::string&, Tensor&)> f) { return std::make_shared<Function>(std::move(f)); }

// (fan_in, fan_out): inputs and outputs of one unit, kernel extents included.
std::pair<double, double> fans(const std::string& name, const Shape& s) {
  if (s.ndim() < 2)
    raise<UserError>("initialiser: '{}' of shape {} has fewer than 2 axes, so it has no fan; use another initialiser", name, s);
  const double kernel = static_cast<double>(s.elements(2, s.ndim()));
  return {static_cast<double>(s[1]) * kernel, static_cast<double>(s[0]) * kernel};
}

void fill_scaled(const std::string& name, Tensor& value, Distribution distribution, Factor factor, double magnitude) {
  const auto [in, out] = fans(name, value.shape());
  const double fan = factor == Factor::average ? (in + out) / 2 : factor == Factor::in ? in : out;
  const double scale = std::sqrt(magnitude / fan);
  distribution == Distribution::uniform ? set_uniform(value, scale) : set_normal(value, scale);
}

// Decides by name alone, whatever the suffix.
class Everywhere final : public Initializer {
 public:
  explicit Everywhere(std::function<void(const std::string&, Tensor&)> f) : f_(std::move(f)) {}
  void operator()(const std::string& name, Tensor& value) const override { f_(name, value); }
  void fill(const std::string& name, Tensor& value) const override { f_(name, value); }

 private:
  std::function<void(const std::string&, Tensor&)> f_;
};

}  // namespace

void Initializer::operator()(const std::string& name, Tensor& value) const {
  for (const char* suffix : {"bias", "beta", "running_mean", "moving_mean"})
    if (name.ends_with(suffix)) return set(value, 0);
  for (const char* suffix : {"gamma", "running_var", "moving_var"})
    if (name.ends_with(suffix)) return set(value, 1);
  fill(name, value);
}

InitializerPtr zero() { return constant(0); }
InitializerPtr one() { return constant(1); }
InitializerPtr constant(double number) {
  return std::make_shared<Everywhere>([number](const std::string&, Tensor& value) { set(value, number); });
}
InitializerPtr uniform(double scale) {
  return make([scale](const std::string&, Tensor& value) { set_uniform(value, scale); });
}
InitializerPtr normal(double sigma) {
  return make([sigma](const std::string&, Tensor& value) { set_normal(value, sigma); });
}
InitializerPtr xavier(Distribution distribution, Factor factor, double magnitude) {
  return make([=](const std::string& name, Tensor& value) { fill_scaled(name, value, distribution, factor, magnitude); });
}
InitializerPtr msra_prelu(Factor factor, double slope) { return xavier(Distribution::gaussian, factor, 2 / (1 + slope * slope)); }

InitializerPtr orthogonal(double scale, Distribution distribution) {
  return make([=](const std::string& name, Tensor& value) {
    if (value.ndim() == 0) raise<UserError>("initialiser: '{}' is one number, which has no rows to be orthogonal", name);
    const int64_t rows = value.extent(0), columns = value.size() / std::max<int64_t>(rows, 1);
    const Shape flat = rows <= columns ? Shape{rows, columns} : Shape{columns, rows};
    const Tensor noise = distribution == Distribution::uniform ? random::uniform(-1, 1, flat, {DType::float32, value.device()})
                                                               : random::normal(0, 1, flat, {DType::float32, value.device()});
    Tensor q = linalg_gelqf(noise)[0];  // rows of q are orthonormal
    if (rows > columns) q = q.transpose();
    value.assign((q * scale).reshape(value.shape()));
  });
}

InitializerPtr bilinear() {
  return make([](const std::string& name, Tensor& value) {
    const Shape s = value.shape();
    if (s.ndim() != 4) raise<UserError>("initialiser: bilinear needs 4 axes, '{}' has shape {}", name, s);
    const double f = std::ceil(static_cast<double>(s[3]) / 2), c = (2 * f - 1 - std::fmod(f, 2)) / (2 * f);
    std::vector<float> v(s.elements());
    for (size_t i = 0; i < v.size(); ++i) {
      const auto x = static_cast<double>(static_cast<int64_t>(i) % s[3]), y = static_cast<double>(static_cast<int64_t>(i) / s[3] % s[2]);
      v[i] = static_cast<float>((1 - std::abs(x / f - c)) * (1 - std::abs(y / f - c)));
    }
    value.assign(from_vector(v, s));
  });
}

InitializerPtr lstm_bias(double forget_bias) {
  return std::make_shared<Everywhere>([forget_bias](const std::string&, Tensor& value) {
    set(value, 0);
    const int64_t hidden = value.extent(0) / 4;  // gates i, f, g, o
    value[Slice(hidden, 2 * hidden)] = full({hidden}, forget_bias);
  });
}

InitializerPtr mixed(std::vector<std::pair<std::string, InitializerPtr>> by_pattern) {
  return std::make_shared<Everywhere>([by_pattern](const std::string& name, Tensor& value) {
    for (const auto& [pattern, init] : by_pattern)
      if (NamePattern(pattern).fits_beginning(name)) return (*init)(name, value);
    raise<UserError>("initialiser: no pattern fits '{}'; end the list with \".*\"", name);
  });
}

InitializerPtr load(NamedTensors values, InitializerPtr otherwise) {
  const auto file = std::make_shared<const NamedTensors>(std::move(values));
  return std::make_shared<Everywhere>([file, by_name = TensorsByName(*file), otherwise](const std::string& name, Tensor& value) {
    if (const Tensor* t = by_name.find_spelled(name)) {
      if (!(t->shape() == value.shape()))
        raise<ShapeError>("initialiser: the file's '{}' has shape {}, the parameter {}", name, t->shape(), value.shape());
      return value.assign(*t);
    }
    if (!otherwise) raise<UserError>("initialiser: the file has no '{}'", name);
    (*otherwise)(name, value);
  });
}

namespace {

// Options by Gluon's names.
struct ConstantOptions {
  double value = 0;
};
struct UniformOptions {
  double scale = 0.07;
};
struct NormalOptions {
  double sigma = 0.01;
};
struct XavierOptions {
  Distribution rnd_type = Distribution::uniform;
  Factor factor_type = Factor::average;
  double magnitude = 3;
};
struct MSRAPreluOptions {
  Factor factor_type = Factor::average;
  double slope = 0.25;
};
struct OrthogonalOptions {
  double scale = 1.414;
  Distribution rand_type = Distribution::uniform;
};
struct LSTMBiasOptions {
  double forget_bias = 1;
};

template <class O>
void factor_field(AttrFields<O>& f) {
  f.choice("factor_type", &O::factor_type, {"avg", "in", "out"}, "whose number counts: inputs, outputs, or their mean");
}

const Named<InitializerPtr>& initializers_by_name() {
  static const Named<InitializerPtr> known = [] {
    Named<InitializerPtr> all("initialiser");
    const auto none = [](AttrFields<NoAttrs>&) {};
    all.add<NoAttrs>("zeros", none, [](NoAttrs) { return zero(); });
    all.add<NoAttrs>("ones", none, [](NoAttrs) { return one(); });
    all.add<NoAttrs>("bilinear", none, [](NoAttrs) { return bilinear(); });
    all.add<ConstantOptions>(
        "constant", [](AttrFields<ConstantOptions>& f) { f.required("value", &ConstantOptions::value, "of all elements"); },
        [](ConstantOptions o) { return constant(o.value); });
    all.add<UniformOptions>(
        "uniform", [](AttrFields<UniformOptions>& f) { f.field("scale", &UniformOptions::scale, "the largest absolute value"); },
        [](UniformOptions o) { return uniform(o.scale); });
    all.add<NormalOptions>(
        "normal", [](AttrFields<NormalOptions>& f) { f.field("sigma", &NormalOptions::sigma, "the standard deviation"); },
        [](NormalOptions o) { return normal(o.sigma); });
    all.add<XavierOptions>(
        "xavier",
        [](AttrFields<XavierOptions>& f) {
          f.choice("rnd_type", &XavierOptions::rnd_type, {"uniform", "gaussian"}, "the distribution");
          factor_field(f);
          f.field("magnitude", &XavierOptions::magnitude, "factor of the variance");
        },
        [](XavierOptions o) { return xavier(o.rnd_type, o.factor_type, o.magnitude); });
    all.add<MSRAPreluOptions>(
        "msraprelu",
        [](AttrFields<MSRAPreluOptions>& f) {
          factor_field(f);
          f.field("slope", &MSRAPreluOptions::slope, "of the PReLU that follows");
        },
        [](MSRAPreluOptions o) { return msra_prelu(o.factor_type, o.slope); });
    all.add<OrthogonalOptions>(
        "orthogonal",
        [](AttrFields<OrthogonalOptions>& f) {
          f.field("scale", &OrthogonalOptions::scale, "length of the rows")
              .choice("rand_type", &OrthogonalOptions::rand_type, {"uniform", "normal"}, "the distribution that is made orthogonal");
        },
        [](OrthogonalOptions o) { return orthogonal(o.scale, o.rand_type); });
    all.add<LSTMBiasOptions>(
        "lstmbias", [](AttrFields<LSTMBiasOptions>& f) { f.field("forget_bias", &LSTMBiasOptions::forget_bias, "of the forget gate"); },
        [](LSTMBiasOptions o) { return lstm_bias(o.forget_bias); });
    return all;
  }();
  return known;
}

}  // namespace

InitializerPtr create(const std::string& name, const NamedOptions& options) { return initializers_by_name().create(name, options); }
InitializerPtr by_name(const std::string& name) { return create(name); }
std::vector<std::string> names() { return initializers_by_name().names(); }
std::vector<Option> options_of(const std::string& name) { return initializers_by_name().options_of(name); }

}  // namespace gluino::init
