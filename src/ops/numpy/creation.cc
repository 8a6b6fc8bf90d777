// Names of mx.np that make tensors: windows, index grids, logarithmic sequences, fills.
#include <cmath>
#include <numbers>

#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

constexpr const char* kNoInputs = "it has no inputs";

struct WindowAttrs {
  int64_t M = 0;
  std::string ctx;
  DType dtype = DType::float32;
  static void fields(AttrFields<WindowAttrs>& f) {
    f.field("M", &WindowAttrs::M, "how many numbers; none where it is negative")
        .field("ctx", &WindowAttrs::ctx, "device as MXNet's files name it; has no effect")
        .field("dtype", &WindowAttrs::dtype, "dtype of the result");
  }
};
// Sums of cosines: parts[0] + parts[1] cos(2 pi i / (M - 1)) + parts[2] cos(4 pi i / (M - 1)).
void define_window(OpBuilder<WindowAttrs>& op, std::array<double, 3> parts) {
  op.dtypes(DTypeSet::any)
      .shape([](const WindowAttrs& a, std::span<const Shape>) { return Shape{std::max<int64_t>(a.M, 0)}; })
      .dtype([](const WindowAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([parts](const WindowAttrs& a, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t i = 0; i < a.M; ++i) {
            const double angle = a.M > 1 ? 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(a.M - 1) : 0;
            k.out_data<T>()[i] = element<T>(a.M == 1 ? 1 : parts[0] + parts[1] * std::cos(angle) + parts[2] * std::cos(2 * angle));
          }
        });
      })
      .not_differentiable(kNoInputs)
      .sample({}, {.M = 7})
      .sample({}, {.M = 1});
}
GLUINO_OP(_npi_blackman, WindowAttrs) { define_window(op.doc("The Blackman window."), {0.42, -0.5, 0.08}); }
GLUINO_OP(_npi_hamming, WindowAttrs) { define_window(op.doc("The Hamming window."), {0.54, -0.46, 0}); }
GLUINO_OP(_npi_hanning, WindowAttrs) { define_window(op.doc("The Hann window."), {0.5, -0.5, 0}); }

struct IdentityAttrs {
  Shape shape;
  std::string ctx;
  DType dtype = DType::float32;
  static void fields(AttrFields<IdentityAttrs>& f) {
    f.field("shape", &IdentityAttrs::shape, "rows and columns, the same number")
        .field("ctx", &IdentityAttrs::ctx, "device as MXNet's files name it; has no effect")
        .field("dtype", &IdentityAttrs::dtype, "dtype of the result");
  }
};
GLUINO_OP(_npi_identity, IdentityAttrs) {
  composed(op.doc("The identity matrix.").dtypes(DTypeSet::any).dtype([](const IdentityAttrs& a, std::span<const DType>, DType) {
    return a.dtype;
  }),
           [](const IdentityAttrs& a, std::span<const Tensor>) {
             if (a.shape.ndim() != 2 || a.shape[0] != a.shape[1]) raise<AttrError>("shape {} is not that of a square matrix", a.shape);
             return call("_eye", {}, {{"N", a.shape[0]}, {"dtype", a.dtype}});
           })
      .not_differentiable(kNoInputs)
      .sample({}, {.shape = {3, 3}});
}

struct IndicesAttrs {
  Shape dimensions;
  DType dtype = DType::int32;
  std::string ctx;
  static void fields(AttrFields<IndicesAttrs>& f) {
    f.required("dimensions", &IndicesAttrs::dimensions, "shape of the grid")
        .field("dtype", &IndicesAttrs::dtype, "dtype of the result")
        .field("ctx", &IndicesAttrs::ctx, "device as MXNet's files name it; has no effect");
  }
};
GLUINO_OP(_npi_indices, IndicesAttrs) {
  op.doc("For every axis of a grid the index along it.")
      .dtypes(DTypeSet::any)
      .shape([](const IndicesAttrs& a, std::span<const Shape>) {
        Shape out = a.dimensions;
        out.insert(0, a.dimensions.ndim());
        return out;
      })
      .dtype([](const IndicesAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([](const IndicesAttrs& a, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          for (int axis = 0; axis < a.dimensions.ndim(); ++axis) {
            const AxisSplit split(a.dimensions, axis);
            for (int64_t i = 0; i < a.dimensions.elements(); ++i) *out++ = element<T>(static_cast<double>(i / split.inner % split.extent));
          }
        });
      })
      .not_differentiable(kNoInputs)
      .sample({}, {.dimensions = {2, 3}});
}

struct LogspaceAttrs {
  double start = 0, stop = 0, base = 10;
  int64_t num = 50;
  bool endpoint = true;
  std::string ctx;
  DType dtype = DType::float32;
  static void fields(AttrFields<LogspaceAttrs>& f) {
    f.required("start", &LogspaceAttrs::start, "exponent of the first value")
        .required("stop", &LogspaceAttrs::stop, "exponent of the last value, or the end when endpoint is False")
        .field("num", &LogspaceAttrs::num, "how many values")
        .field("endpoint", &LogspaceAttrs::endpoint, "whether stop is the last exponent")
        .field("base", &LogspaceAttrs::base, "what is raised to the exponents")
        .field("ctx", &LogspaceAttrs::ctx, "device as MXNet's files name it; has no effect")
        .field("dtype", &LogspaceAttrs::dtype, "dtype of the result");
  }
};
GLUINO_OP(_npi_logspace, LogspaceAttrs) {
  composed(op.doc("Values whose logarithms are evenly spaced.")
               .dtypes(DTypeSet::any)
               .dtype([](const LogspaceAttrs& a, std::span<const DType>, DType) { return a.dtype; }),
           [](const LogspaceAttrs& a, std::span<const Tensor>) {
             const Tensor exponents =
                 call("_linspace", {},
                      {{"start", a.start}, {"stop", a.stop}, {"num", a.num}, {"endpoint", a.endpoint}, {"dtype", DType::float64}});
             return as_dtype(call("_rpower_scalar", {exponents}, {{"scalar", a.base}}), a.dtype);
           })
      .not_differentiable(kNoInputs)
      .sample({}, {.start = 0, .stop = 2, .num = 5})
      .sample({}, {.start = 0, .stop = 2, .base = 2, .num = 4, .endpoint = false});
}

struct FullLikeAttrs {
  double fill_value = 0;
  std::string ctx;
  std::optional<DType> dtype;
  static void fields(AttrFields<FullLikeAttrs>& f) {
    f.required("fill_value", &FullLikeAttrs::fill_value, "what to fill with")
        .field("ctx", &FullLikeAttrs::ctx, "device as MXNet's files name it; has no effect")
        .field("dtype", &FullLikeAttrs::dtype, "dtype of the result; None for that of data");
  }
};
GLUINO_OP(_npi_full_like, FullLikeAttrs) {
  op.doc("A tensor of the shape of data, filled with a number.")
      .input("a")
      .dtypes(DTypeSet::any)
      .same_shape()
      .dtype([](const FullLikeAttrs& a, std::span<const DType>, DType promoted) { return a.dtype.value_or(promoted); })
      .kernel([](const FullLikeAttrs& a, KernelContext& k) { k.out().assign(a.fill_value); })
      .not_differentiable("it depends on a shape only")
      .sample({{2, 3}}, {.fill_value = 4});
}

}  // namespace
}  // namespace gluino::ops
