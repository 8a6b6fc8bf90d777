#include "support/support.h"

#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "base/format.h"

namespace gluino::test {

Tolerance tolerance(DType dtype) {
  switch (dtype) {
    case DType::float64: return {1e-10, 1e-12};
    case DType::float32: return {2e-5, 1e-6};
    case DType::float16: return {4e-3, 2e-3};
    case DType::bfloat16: return {3e-2, 2e-2};
    default: return {0, 0};
  }
}

bool accepts(const OpDef& op, DType dtype) {
  if (op.dtypes == DTypeSet::any || is_floating(dtype)) return true;
  return op.dtypes == DTypeSet::numeric && dtype != DType::boolean;
}

Tensor random_tensor(const Shape& shape, DType dtype, uint64_t seed, double low, double high) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(shape.elements());
  for (double& v : values) v = uniform(engine);
  return from_vector(values, shape, {.dtype = dtype});
}

Tensors sample_inputs(const OpDef& op, const Sample& sample, DType dtype, uint64_t seed) {
  Tensors inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& s = sample.inputs[i];
    const InputSpec& spec = op.input_spec(sample.attrs, i);
    Tensor t = random_tensor(s.shape, DType::float64, seed + i * 7919, s.low, s.high);
    if (s.integer) {
      std::vector<double> v = t.to_vector<double>();
      for (double& x : v) x = std::floor(x);
      t = from_vector(v, s.shape);
    }
    const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
    const DType own = spec.wide_dtype && !is_half ? dtype
                      : spec.own_dtype            ? (spec.is_state && is_floating(dtype) ? dtype : DType::float32)
                                                  : dtype;
    inputs.push_back(t.astype(own));
  }
  return inputs;
}

static std::string position_text(const Shape& shape, int64_t flat) {
  Shape position = shape;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    position[i] = flat % shape[i];
    flat /= shape[i];
  }
  return position.str();
}

::testing::AssertionResult close(const Tensor& got, const Tensor& want, double relative, double absolute) {
  if (!(got.shape() == want.shape()))
    return ::testing::AssertionFailure() << "shape " << got.shape().str() << " instead of " << want.shape().str();
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i])))
      return ::testing::AssertionFailure() << "at " << position_text(got.shape(), static_cast<int64_t>(i)) << " of " << got.shape().str()
                                           << ": " << a[i] << " instead of " << b[i];
  }
  return ::testing::AssertionSuccess();
}
::testing::AssertionResult close(const Tensor& got, const Tensor& want) {
  const Tolerance t = tolerance(want.dtype());
  return close(got, want, t.relative, t.absolute);
}
::testing::AssertionResult same_bits(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype())
    return ::testing::AssertionFailure() << dtype_name(got.dtype()) << " instead of " << dtype_name(want.dtype());
  return close(got, want, 0, 0);
}

std::optional<std::string> shared_folder() {
  const char* named = std::getenv("GLUINO_SHARED");
  const std::string path = named ? named : std::string(GLUINO_SOURCE_DIR) + "/../shared";
  struct stat info;
  if (::stat((path + "/golden/ops.json").c_str(), &info) != 0) return std::nullopt;
  return path;
}

}  // namespace gluino::test
