// Fourier transforms against their definition, their inverses, NumPy's rules for halves; hybridized, and gradients against differences.
#include <cmath>
#include <numbers>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Numbers = std::vector<double>;

// The sum of the definition, for rows of the last axis.
Complex defined(const Tensor& real, const Tensor& imag) {
  const int64_t n = real.extent(-1), rows = real.size() / n;
  const Numbers a = real.to_vector<double>(), b = imag.to_vector<double>();
  Numbers x(a.size()), y(a.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) {
        const double angle = -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        const auto from = static_cast<size_t>(row * n + j), to = static_cast<size_t>(row * n + k);
        x[to] += a[from] * std::cos(angle) - b[from] * std::sin(angle);
        y[to] += a[from] * std::sin(angle) + b[from] * std::cos(angle);
      }
  return {from_vector(x, real.shape()), from_vector(y, real.shape())};
}
void expect_close(const Complex& a, const Complex& b) {
  EXPECT_TRUE(all_close(a.real, b.real, 1e-10, 1e-10));
  EXPECT_TRUE(all_close(a.imag, b.imag, 1e-10, 1e-10));
}

TEST(Fourier, FollowsTheDefinition) {
  for (const int64_t n : {1, 2, 3, 5, 8, 12, 17, 30}) {
    SCOPED_TRACE(n);
    const Tensor a = random_tensor({2, 3, n}, DType::float64, 1), b = random_tensor({2, 3, n}, DType::float64, 2);
    expect_close(fft(a), defined(a, zeros_like(a)));
    expect_close(fft(Complex{a, b}), defined(a, b));
    expect_close(ifft(fft(Complex{a, b})), {a, b});
    const Complex half = rfft(a), all = fft(a);
    const Slice first(0, n / 2 + 1);
    expect_close(half, {all.real[{kEllipsis, first}], all.imag[{kEllipsis, first}]});
    EXPECT_TRUE(all_close(irfft(half, -1, n), a, 1e-10, 1e-10));
  }
}

TEST(Fourier, AnyAxisAndTwoAxes) {
  const Tensor a = random_tensor({4, 3, 6}, DType::float64, 1), b = random_tensor({4, 3, 6}, DType::float64, 2);
  const auto first_last = [](const Tensor& t) { return t.transpose({1, 2, 0}); };
  const Complex along_first = fft(Complex{a, b}, 0), wanted = fft(Complex{first_last(a), first_last(b)});
  expect_close({first_last(along_first.real), first_last(along_first.imag)}, wanted);
  expect_close(fft(Complex{a, b}, -3), along_first);
  EXPECT_TRUE(all_close(irfft(rfft(a, 1), 1, 3), a, 1e-10, 1e-10));
  expect_close(fft2(a), fft(fft(a), 1));
  expect_close(ifft2(fft2(Complex{a, b})), {a, b});
}

TEST(Fourier, WholeNumbersAndMistakes) {
  const Complex f = fft(tensor({1, 2, 3, 4}, DType::int32));
  EXPECT_EQ(f.real.dtype(), DType::float32);
  EXPECT_TRUE(all_close(f.real, tensor({10, -2, -2, -2}), 1e-6, 1e-6));
  EXPECT_TRUE(all_close(f.imag, tensor({0, 2, 0, -2}), 1e-6, 1e-6));
  GLUINO_EXPECT_ERROR(IndexError, "fft: there is no axis 2", fft(ones({2, 3}), 2));
  GLUINO_EXPECT_ERROR(IndexError, "there is no axis -1", fft(full({}, 1)));
  GLUINO_EXPECT_ERROR(ShapeError, "the imaginary part (3,)", ifft({ones({2}), ones({3})}));
  GLUINO_EXPECT_ERROR(UserError, "null tensor", ifft({ones({2}), Tensor()}));
  GLUINO_EXPECT_ERROR(ShapeError, "they stand for 6 or 7", irfft({ones({4}), ones({4})}, -1, 9));
}

TEST(Fourier, HybridizedWithGradients) {
  const auto program = [](const Tensor& a, const Tensor& b) {
    const Complex f = fft(Complex{a, b}, 0), g = ifft({f.real * f.real, f.imag * 2});
    return (g.real * a).sum() + (g.imag * b).sum() + (irfft(rfft(a)) * b).sum();
  };
  const Tensor a = random_tensor({3, 4}, DType::float64, 1), b = random_tensor({3, 4}, DType::float64, 2);
  const auto compiled = hybrid(program);
  Tensors results[2];
  for (int mode = 0; mode < 2; ++mode) {
    Tensor x = a.copy(), y = b.copy();
    x.attach_grad();
    y.attach_grad();
    Tensor out;
    {
      const auto record = autograd::record();
      out = mode ? compiled(x, y) : program(x, y);
    }
    out.backward();
    results[mode] = {out.detach(), x.grad(), y.grad()};
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(all_close(results[0][i], results[1][i], 1e-10, 1e-12)) << i;
  const double step = 1e-6;
  for (int which = 0; which < 2; ++which)
    for (int64_t i = 0; i < a.size(); ++i) {
      const auto at = [&](double shift) {
        Numbers moved = (which ? b : a).to_vector<double>();
        moved[static_cast<size_t>(i)] += shift;
        const Tensor other = from_vector(moved, a.shape());
        return (which ? program(a, other) : program(other, b)).item<double>();
      };
      const double slope = results[0][static_cast<size_t>(which) + 1].to_vector<double>()[static_cast<size_t>(i)];
      EXPECT_NEAR((at(step) - at(-step)) / (2 * step), slope, 1e-6 * (1 + std::abs(slope)));
    }
}

}  // namespace
}  // namespace gluino::test
