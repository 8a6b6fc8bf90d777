// Fourier transforms of the last axis, and the sketch of counts that uses them (Pham and Pagh, 2013).
#include <cmath>
#include <complex>
#include <numbers>

#include "base/parallel.h"
#include "ops/nets.h"
#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

using Complex = std::complex<double>;

// out[k] = sum over j of in[j * stride] * roots[j k mod n]: by the smallest factor of n, where it has one.
void transform(const Complex* in, int64_t stride, Complex* out, int64_t n, const std::vector<Complex>& roots,
               std::vector<Complex>& scratch) {
  const auto total = static_cast<int64_t>(roots.size()), step = total / n;
  int64_t factor = 2;
  while (factor * factor <= n && n % factor) ++factor;
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  if (n % factor) factor = n;
  const int64_t part = n / factor;
  for (int64_t f = 0; f < factor; ++f) transform(in + f * stride, stride * factor, out + f * part, part, roots, scratch);
  std::copy_n(out, n, scratch.data());
  for (int64_t k = 0; k < n; ++k) {
    Complex sum = 0;
    for (int64_t f = 0; f < factor; ++f) sum += scratch[f * part + k % part] * roots[f * k % n * step];
    out[k] = sum;
  }
}

struct FourierAttrs {
  int64_t compute_size = 128;
  static void fields(AttrFields<FourierAttrs>& f) {
    f.field("compute_size", &FourierAttrs::compute_size, "how many rows were computed at once; has no effect");
  }
};
// Rows of `length` complex numbers; sign -1 forward, 1 back. read(row, j) and write(row, k, number).
template <class Read, class Write>
void transform_rows(int64_t rows, int64_t length, double sign, Read&& read, Write&& write) {
  std::vector<Complex> roots(length);
  for (int64_t k = 0; k < length; ++k)
    roots[k] = std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length));
  parallel_for(rows, kParallelGrain / (length * 16) + 1, [&](int64_t begin, int64_t end) {
    std::vector<Complex> in(length), out(length), scratch(length);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t j = 0; j < length; ++j) in[j] = read(row, j);
      transform(in.data(), 1, out.data(), length, roots, scratch);
      for (int64_t k = 0; k < length; ++k) write(row, k, out[k]);
    }
  });
}
template <class F>
void define_fourier(OpBuilder<FourierAttrs>& op, const char* back, F length_of, SampleInput sample) {
  op.input("data")
      .kernel_dtypes(real_dtypes())
      .shape([length_of](const FourierAttrs&, std::span<const Shape> in) {
        if (in[0].empty() || in[0].back() < 1) raise<ShapeError>("data has shape {}, but a last axis with elements is needed", in[0]);
        Shape out = in[0];
        out[out.ndim() - 1] = length_of(out.back());
        return out;
      })
      // Each is the other's transpose.
      .gradient({}, [back](const Gradient& g) -> Tensors { return {call(back, {g.head()})}; })
      .sample({sample});
}
GLUINO_OP(_contrib_fft, FourierAttrs) {
  define_fourier(op.doc("The Fourier transform of real rows: real and imaginary parts in turns."), "_contrib_ifft",
                 [](int64_t n) { return 2 * n; }, {2, 6});
  op.kernel([](const FourierAttrs&, KernelContext& k) {
    const int64_t n = k.in(0).shape().back();
    visit_real(k.out().dtype(), [&]<class T>(T*) {
      transform_rows(
          k.in(0).size() / n, n, -1, [&](int64_t row, int64_t j) { return Complex(k.data<T>(0)[row * n + j]); },
          [&](int64_t row, int64_t i, Complex v) {
            k.out_data<T>()[2 * (row * n + i)] = static_cast<T>(v.real());
            k.out_data<T>()[2 * (row * n + i) + 1] = static_cast<T>(v.imag());
          });
    });
  });
}
GLUINO_OP(_contrib_ifft, FourierAttrs) {
  define_fourier(
      op.doc("The real part of the inverse Fourier transform of rows of real and imaginary parts in turns, not divided by their number."),
      "_contrib_fft",
      [](int64_t n) {
        if (n % 2) raise<ShapeError>("rows have {} numbers, but pairs of real and imaginary parts are needed", n);
        return n / 2;
      },
      {2, 10});
  op.kernel([](const FourierAttrs&, KernelContext& k) {
    const int64_t n = k.out().shape().back();
    visit_real(k.out().dtype(), [&]<class T>(T*) {
      const T* in = k.data<T>(0);
      transform_rows(
          k.out().size() / n, n, 1, [&](int64_t row, int64_t j) { return Complex(in[2 * (row * n + j)], in[2 * (row * n + j) + 1]); },
          [&](int64_t row, int64_t i, Complex v) { k.out_data<T>()[row * n + i] = static_cast<T>(v.real()); });
    });
  });
}

struct SketchAttrs {
  int64_t out_dim = 0, processing_batch_size = 32;
  static void fields(AttrFields<SketchAttrs>& f) {
    f.required("out_dim", &SketchAttrs::out_dim, "number of sums")
        .field("processing_batch_size", &SketchAttrs::processing_batch_size, "how many rows were computed at once; has no effect");
  }
};
GLUINO_OP(_contrib_count_sketch, SketchAttrs) {
  composed(op.doc("Sums of elements with signs: element i of a row is added, times s[i], to sum number h[i].")
               .input("data")
               .input("h")
               .own_dtype()
               .input("s"),
           [](const SketchAttrs& a, std::span<const Tensor> in) {
             const int64_t columns = in[0].ndim() == 2 ? in[0].extent(1) : -1;
             if (in[0].ndim() != 2) raise<ShapeError>("data has shape {}, but (rows, elements) is needed", in[0].shape());
             for (int i : {1, 2})
               if (in[i].size() != columns)
                 raise<ShapeError>("h and s have one number for each of the {} elements, but one has shape {}", columns, in[i].shape());
             const Tensor places = call("one_hot", {reshaped(in[1], {-1})}, {{"depth", a.out_dim}, {"dtype", in[0].dtype()}});
             const Tensor signed_data = call("broadcast_mul", {in[0], reshaped(in[2], {1, -1})});
             return call("dot", {as_dtype(signed_data, in[0].dtype()), places});
           })
      .sample({{2, 5}, index_sample({1, 5}, 3), {1, 5}}, {.out_dim = 3});
}

}  // namespace
}  // namespace gluino::ops
