// Operators without inputs: constants and ranges.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "kernels/elementwise/strided.h"
#include "ops/common.h"

namespace gluino::ops {
namespace {

static constexpr const char* kConstant = "has no inputs";

static void fill(Tensor& out, double value) {
  visit_dtype(out.dtype(), [&]<class T>(T*) {
    using Given = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
    const T one = static_cast<T>(static_cast<Given>(value));
    kernels::fill_elements(sizeof(T), &one, out.mutable_data<T>(), out.size());
  });
}
static Shape checked(const Shape& s) {
  for (int64_t extent : s)
    if (extent < 0) raise<ShapeError>("a tensor cannot have shape {}", s);
  return s;
}

struct ConstantAttrs {
  Shape shape;
  DType dtype = DType::float32;
  std::string ctx;
  static void fields(AttrFields<ConstantAttrs>& f) {
    f.field("shape", &ConstantAttrs::shape, "shape of the result")
        .field("dtype", &ConstantAttrs::dtype, "dtype of the result")
        .field("ctx", &ConstantAttrs::ctx, "device as MXNet's files name it; has no effect");
  }
};
static void define_constant(OpBuilder<ConstantAttrs>& op, double value) {
  op.dtypes(DTypeSet::any)
      .shape([](const ConstantAttrs& a, std::span<const Shape>) { return checked(a.shape); })
      .dtype([](const ConstantAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([value](const ConstantAttrs&, KernelContext& k) { fill(k.out(), value); })
      .not_differentiable(kConstant)
      .sample({}, {.shape = {2, 3}})
      .sample({}, {.shape = {4}, .dtype = DType::int64});
}
GLUINO_OP(_zeros, ConstantAttrs) { define_constant(op.doc("A tensor of zeros.").alias("_npi_zeros", "_zeros_without_dtype"), 0); }
GLUINO_OP(_ones, ConstantAttrs) { define_constant(op.doc("A tensor of ones.").alias("_npi_ones"), 1); }

struct FullAttrs {
  Shape shape;
  DType dtype = DType::float32;
  double value = 0;
  std::string ctx;
  static void fields(AttrFields<FullAttrs>& f) {
    f.field("shape", &FullAttrs::shape, "shape of the result")
        .field("dtype", &FullAttrs::dtype, "dtype of the result")
        .required("value", &FullAttrs::value, "what to fill with")
        .field("ctx", &FullAttrs::ctx, "device as MXNet's files name it; has no effect");
  }
};
GLUINO_OP(_full, FullAttrs) {
  op.doc("A tensor filled with one value.")
      .alias("_npi_full")
      .dtypes(DTypeSet::any)
      .shape([](const FullAttrs& a, std::span<const Shape>) { return checked(a.shape); })
      .dtype([](const FullAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([](const FullAttrs& a, KernelContext& k) { fill(k.out(), a.value); })
      .not_differentiable(kConstant)
      .sample({}, {.shape = {2, 3}, .value = 1.5});
}

struct ArangeAttrs {
  double start = 0;
  std::optional<double> stop;
  double step = 1;
  int repeat = 1;
  bool infer_range = false;
  DType dtype = DType::float32;
  std::string ctx;
  static void fields(AttrFields<ArangeAttrs>& f) {
    f.field("start", &ArangeAttrs::start, "first value; the end when stop is None")
        .field("stop", &ArangeAttrs::stop, "end, not included")
        .field("step", &ArangeAttrs::step, "distance between values")
        .field("repeat", &ArangeAttrs::repeat, "how often each value is repeated")
        .field("infer_range", &ArangeAttrs::infer_range, "let the length follow from the use; not supported")
        .field("dtype", &ArangeAttrs::dtype, "dtype of the result")
        .field("ctx", &ArangeAttrs::ctx, "device as MXNet's files name it; has no effect");
  }
  double first() const { return stop ? start : 0; }
  int64_t count() const {
    if (step == 0) throw AttrError("attribute 'step' is 0");
    const double n = std::ceil(((stop ? *stop : start) - first()) / step);
    if (!(n < 1e15)) throw AttrError("the range is too long");
    return n > 0 ? static_cast<int64_t>(n) : 0;
  }
};
// Whether all of them, and the one behind, are whole numbers of 32 bits.
static bool counts_in_int32(double first, double step, int64_t elements) {
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  const double end = first + static_cast<double>(elements) * step;
  return first == std::trunc(first) && step == std::trunc(step) && std::abs(first) <= kMost && std::abs(end) <= kMost && elements <= kMost;
}
GLUINO_OP(_arange, ArangeAttrs) {
  op.doc("Evenly spaced values in [start, stop).")
      .alias("_npi_arange")
      .dtypes(DTypeSet::any)
      .shape([](const ArangeAttrs& a, std::span<const Shape>) {
        if (a.repeat < 1) raise<AttrError>("attribute 'repeat' is {}, at least 1 is needed", a.repeat);
        return Shape{a.count() * a.repeat};
      })
      .dtype([](const ArangeAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([](const ArangeAttrs& a, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          const double first = a.first(), step = a.step;
          const int64_t elements = k.out().size();
          if (a.repeat == 1 && counts_in_int32(first, step, elements)) {  // the same numbers, in vectors of twice as many
            const auto from = static_cast<int32_t>(first), by = static_cast<int32_t>(step);
            for (int32_t i = 0, n = static_cast<int32_t>(elements); i < n; ++i) out[i] = element<T>(from + i * by);
          } else if (a.repeat == 1)
            for (int64_t i = 0; i < elements; ++i) out[i] = static_cast<T>(first + static_cast<double>(i) * step);
          else
            for (int64_t i = 0; i < elements; ++i) out[i] = static_cast<T>(first + static_cast<double>(i / a.repeat) * step);
        });
      })
      .not_differentiable(kConstant)
      .sample({}, {.start = 5})
      .sample({}, {.start = 1, .stop = 4, .step = 0.5, .repeat = 2});
}

struct LinspaceAttrs {
  double start = 0, stop = 1;
  int64_t num = 50;
  bool endpoint = true;
  DType dtype = DType::float32;
  std::string ctx;
  static void fields(AttrFields<LinspaceAttrs>& f) {
    f.required("start", &LinspaceAttrs::start, "first value")
        .required("stop", &LinspaceAttrs::stop, "last value, or the end when endpoint is False")
        .required("num", &LinspaceAttrs::num, "how many values")
        .field("endpoint", &LinspaceAttrs::endpoint, "whether stop is the last value")
        .field("dtype", &LinspaceAttrs::dtype, "dtype of the result")
        .field("ctx", &LinspaceAttrs::ctx, "device as MXNet's files name it; has no effect");
  }
};
GLUINO_OP(_linspace, LinspaceAttrs) {
  op.doc("num evenly spaced values from start to stop.")
      .alias("_npi_linspace")
      .dtypes(DTypeSet::any)
      .shape([](const LinspaceAttrs& a, std::span<const Shape>) { return checked(Shape{a.num}); })
      .dtype([](const LinspaceAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([](const LinspaceAttrs& a, KernelContext& k) {
        const double parts = static_cast<double>(a.endpoint ? a.num - 1 : a.num);
        const double step = parts > 0 ? (a.stop - a.start) / parts : 0;
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          const auto few = static_cast<int32_t>(std::min<int64_t>(a.num, std::numeric_limits<int32_t>::max()));  // become vectors
          for (int32_t i = 0; i < few; ++i) out[i] = static_cast<T>(a.start + i * step);
          for (int64_t i = few; i < a.num; ++i) out[i] = static_cast<T>(a.start + static_cast<double>(i) * step);
          if (a.endpoint && a.num > 1) out[a.num - 1] = static_cast<T>(a.stop);
        });
      })
      .not_differentiable(kConstant)
      .sample({}, {.start = 0, .stop = 1, .num = 5})
      .sample({}, {.start = 2, .stop = -1, .num = 4, .endpoint = false});
}

struct EyeAttrs {
  int64_t N = 0, M = 0, k = 0;
  DType dtype = DType::float32;
  std::string ctx;
  static void fields(AttrFields<EyeAttrs>& f) {
    f.required("N", &EyeAttrs::N, "rows")
        .field("M", &EyeAttrs::M, "columns; 0 for as many as rows")
        .field("k", &EyeAttrs::k, "which diagonal; positive is above the main one")
        .field("dtype", &EyeAttrs::dtype, "dtype of the result")
        .field("ctx", &EyeAttrs::ctx, "device as MXNet's files name it; has no effect");
  }
};
constexpr int64_t kZerosAtOnce = 16384;
GLUINO_OP(_eye, EyeAttrs) {
  op.doc("Ones on a diagonal, zeros elsewhere.")
      .alias("_npi_eye")
      .dtypes(DTypeSet::any)
      .shape([](const EyeAttrs& a, std::span<const Shape>) {
        return checked(Shape{a.N, a.M ? a.M : a.N});
      })
      .dtype([](const EyeAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([](const EyeAttrs& a, KernelContext& k) {
        const int64_t rows = k.out().extent(0), columns = k.out().extent(1);
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          // A part at a time, while its zeros are in the cache.
          parallel_for(rows, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, columns)), [&](int64_t begin, int64_t end) {
            const int64_t part = std::max<int64_t>(1, kZerosAtOnce / std::max<int64_t>(1, columns));
            for (int64_t first = begin; first < end; first += part) {
              const int64_t last = std::min(end, first + part);
              std::memset(static_cast<void*>(out + first * columns), 0, (last - first) * columns * sizeof(T));
              for (int64_t i = first; i < last; ++i)
                if (i + a.k >= 0 && i + a.k < columns) out[i * columns + i + a.k] = T(1);
            }
          });
        });
      })
      .not_differentiable(kConstant)
      .sample({}, {.N = 3})
      .sample({}, {.N = 2, .M = 4, .k = 1});
}

}  // namespace
}  // namespace gluino::ops
