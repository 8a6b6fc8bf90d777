// Softmax and its relatives, with gradients that can be differentiated again.
#include "kernels/rows/softmax.h"

#include <limits>

#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/primitives.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

using kernels::RowFunction;
using kernels::SoftmaxLayout;

static SoftmaxLayout layout_of(const Shape& s, int64_t axis) {
  const AxisSplit split(s, normalize_axis(axis, s));
  return {split.outer, split.extent, split.inner};
}

struct SoftmaxAttrs {
  int64_t axis = -1;
  std::optional<double> temperature;
  std::optional<DType> dtype;
  bool use_length = false;
  static void fields(AttrFields<SoftmaxAttrs>& f) {
    f.field("axis", &SoftmaxAttrs::axis, "the axis that sums to 1")
        .field("temperature", &SoftmaxAttrs::temperature, "the data is divided by it first; 1 when None")
        .field("dtype", &SoftmaxAttrs::dtype, "dtype of the result; that of the data when None")
        .field("use_length", &SoftmaxAttrs::use_length, "whether the input length says how many elements of each row count");
  }
  double scale() const { return 1 / temperature.value_or(1.0); }
};

// As a function of single rows of the last axis.
static std::optional<RowCall> softmax_of_rows(const SoftmaxAttrs& a, const Shape& data, RowFunction function, double sign) {
  if (a.use_length || normalize_axis(a.axis, data) != data.ndim() - 1) return std::nullopt;
  return RowCall{function, sign * a.scale()};
}

// How many elements of every row count: `length` has the shape of data without the axis.
static std::vector<int64_t> row_lengths(const Tensor& length) { return length.to_vector<int64_t>(); }

// Softmax of sign * data / temperature.
static void run_softmax(const SoftmaxAttrs& a, KernelContext& k, double sign, bool logarithm) {
  const Tensor& data = k.in(0);
  const std::vector<int64_t> lengths = a.use_length ? row_lengths(k.in(1)) : std::vector<int64_t>();
  Tensor result = k.out().dtype() == data.dtype() ? k.out() : make_tensor(data.shape(), data.dtype(), data.device());
  visit_real(data.dtype(), [&]<class T>(T*) {
    kernels::softmax<T>(layout_of(data.shape(), a.axis), data.data<T>(), result.mutable_data<T>(), static_cast<T>(sign * a.scale()),
                        logarithm, a.use_length ? lengths.data() : nullptr);
  });
  if (!result.is_same(k.out())) kernels::convert(bytes_of(result), result.dtype(), bytes_of(k.out()), k.out().dtype(), result.size());
}

static Shape softmax_shape(const SoftmaxAttrs& a, std::span<const Shape> in) {
  const int axis = normalize_axis(a.axis, in[0]);
  if (a.use_length) {
    Shape rows = in[0];
    rows.erase(axis);
    if (!(in[1] == rows)) raise<ShapeError>("length has shape {}, but {} is needed: that of data without axis {}", in[1], rows, a.axis);
  }
  return in[0];
}

// An input `length` beside the data, and an output of the asked dtype.
static OpBuilder<SoftmaxAttrs>& with_length(OpBuilder<SoftmaxAttrs>& op) {
  return op.input("data")
      .input("length")
      .own_dtype()
      .present_if([](const SoftmaxAttrs& a) { return a.use_length; })
      .shape(softmax_shape)
      .kernel_dtypes(real_dtypes())
      .inplace(0)
      .dtype([](const SoftmaxAttrs& a, std::span<const DType>, DType promoted) { return a.dtype.value_or(promoted); });
}
static Tensors softmax_gradient(const SoftmaxAttrs& a, const Gradient& g, std::string_view name, double sign) {
  Tensors out(g.num_inputs());
  const SoftmaxAttrs attrs{.axis = a.axis, .temperature = sign * a.temperature.value_or(1.0)};
  out[0] = call_with(name, {g.head(), g.out(0)}, attrs);
  return out;
}

GLUINO_OP(softmax, SoftmaxAttrs) {
  with_length(op.doc("exp(data) divided by its sum along an axis."))
      .kernel([](const SoftmaxAttrs& a, KernelContext& k) { run_softmax(a, k, 1, false); })
      .gradient({{}, {0}}, [](const SoftmaxAttrs& a, const Gradient& g) { return softmax_gradient(a, g, "_softmax_grad", 1); })
      .sample({{3, 4}})
      .sample({{2, 3, 4}}, {.axis = 1, .temperature = 2})
      .sample({{2, 4}, index_sample({2}, 5)}, {.use_length = true});
  for_compiler(op).row_call(
      [](const SoftmaxAttrs& a, std::span<const Shape> in) { return softmax_of_rows(a, in[0], RowFunction::softmax, 1); });
}
GLUINO_OP(softmin, SoftmaxAttrs) {
  with_length(op.doc("Softmax of the negated data."))
      .kernel([](const SoftmaxAttrs& a, KernelContext& k) { run_softmax(a, k, -1, false); })
      .gradient({{}, {0}}, [](const SoftmaxAttrs& a, const Gradient& g) { return softmax_gradient(a, g, "_softmax_grad", -1); })
      .sample({{3, 4}})
      .sample({{2, 3, 4}}, {.axis = 0});
  for_compiler(op).row_call(
      [](const SoftmaxAttrs& a, std::span<const Shape> in) { return softmax_of_rows(a, in[0], RowFunction::softmax, -1); });
}
GLUINO_OP(log_softmax, SoftmaxAttrs) {
  with_length(op.doc("The logarithm of softmax."))
      .kernel([](const SoftmaxAttrs& a, KernelContext& k) { run_softmax(a, k, 1, true); })
      .gradient({{}, {0}},
                [](const SoftmaxAttrs& a, const Gradient& g) {
                  if (a.use_length) raise<UserError>("the gradient with use_length is not implemented; use the logarithm of softmax");
                  return softmax_gradient(a, g, "_log_softmax_grad", 1);
                })
      .sample({{3, 4}})
      .sample({{2, 3, 4}}, {.axis = 1, .temperature = 2});
  for_compiler(op).row_call(
      [](const SoftmaxAttrs& a, std::span<const Shape> in) { return softmax_of_rows(a, in[0], RowFunction::log_softmax, 1); });
}

static Tensor sum_of_rows(const SoftmaxAttrs& a, const Tensor& x) { return x.sum(Shape{a.axis}, true); }

// What the two gradients share: all but their own.
template <RowFunction function>
static OpBuilder<SoftmaxAttrs>& gradient_from_outputs(OpBuilder<SoftmaxAttrs>& op, const char* doc) {
  for_compiler(op).row_call([](const SoftmaxAttrs& a, std::span<const Shape> in) { return softmax_of_rows(a, in[0], function, 1); });
  return op.doc(doc)
      .input("head")
      .input("values")
      .shape([](const SoftmaxAttrs& a, std::span<const Shape> in) {
        check_same_shape("values", in[1], in[0]);
        return normalize_axis(a.axis, in[0]), in[0];
      })
      .inplace(0)
      .inplace(1)
      .kernel([](const SoftmaxAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const auto run = function == RowFunction::log_softmax_grad ? kernels::log_softmax_grad<T> : kernels::softmax_grad<T>;
          run(layout_of(k.out().shape(), a.axis), k.data<T>(0), k.data<T>(1), k.out_data<T>(), static_cast<T>(a.scale()));
        });
      })
      .kernel_dtypes(real_dtypes())
      .sample({{3, 4}, {3, 4}})
      .sample({{2, 3, 2}, {2, 3, 2}}, {.axis = 1, .temperature = 2});
}
GLUINO_OP(_softmax_grad, SoftmaxAttrs) {
  gradient_from_outputs<RowFunction::softmax_grad>(op, "The gradient of softmax, from the head and softmax's output.")
      .gradient({{0, 1}, {}}, [](const SoftmaxAttrs& a, const Gradient& g) -> Tensors {
        const Tensor &h = g.in(0), &y = g.in(1), &up = g.head();
        return {call_with("_softmax_grad", {up, y}, a), a.scale() * (up * h - up * sum_of_rows(a, h * y) - h * sum_of_rows(a, up * y))};
      });
}
GLUINO_OP(_log_softmax_grad, SoftmaxAttrs) {
  gradient_from_outputs<RowFunction::log_softmax_grad>(op, "The gradient of log_softmax, from the head and log_softmax's output.")
      .gradient({{0, 1}, {}}, [](const SoftmaxAttrs& a, const Gradient& g) -> Tensors {
        const Tensor p = call("exp", {g.in(1)});
        return {a.scale() * (g.head() - sum_of_rows(a, g.head() * p)), -a.scale() * (g.head() * p * sum_of_rows(a, g.in(0)))};
      });
}

struct SoftmaxActivationAttrs {
  enum class Mode : uint8_t { instance, channel } mode = Mode::instance;
  static void fields(AttrFields<SoftmaxActivationAttrs>& f) {
    f.choice("mode", &SoftmaxActivationAttrs::mode, {"instance", "channel"}, "over everything but the batch axis, or over axis 1");
  }
};
static SoftmaxLayout layout_of(const SoftmaxActivationAttrs& a, const Shape& s) {
  if (s.ndim() < 2) raise<ShapeError>("data has shape {}, but at least 2 axes are needed", s);
  if (a.mode == SoftmaxActivationAttrs::Mode::channel) return layout_of(s, 1);
  return {s[0], s.elements(1, s.ndim()), 1};
}
GLUINO_OP(SoftmaxActivation, SoftmaxActivationAttrs) {
  op.doc("Softmax over each instance, or over the channels at each position.")
      .input("data")
      .same_shape()
      .shape([](const SoftmaxActivationAttrs& a, std::span<const Shape> in) { return layout_of(a, in[0]), in[0]; })
      .inplace(0)
      .kernel([](const SoftmaxActivationAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::softmax<T>(layout_of(a, k.out().shape()), k.data<T>(0), k.out_data<T>(), 1, false, nullptr);
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient(
          {{}, {0}},
          [](const SoftmaxActivationAttrs& a, const Gradient& g) -> Tensors {
            if (a.mode == SoftmaxActivationAttrs::Mode::channel)
              return {call_with("_softmax_grad", {g.head(), g.out(0)}, SoftmaxAttrs{.axis = 1})};
            const Tensor flat = call_with("_softmax_grad", {call("Flatten", {g.head()}), call("Flatten", {g.out(0)})}, SoftmaxAttrs{});
            return {call("reshape_like", {flat, g.like(0)})};
          })
      .sample({{2, 3, 2}})
      .sample({{2, 3, 2}}, {.mode = SoftmaxActivationAttrs::Mode::channel});
}

// ---- with a mask
struct MaskedSoftmaxAttrs {
  int64_t axis = -1;
  std::optional<double> temperature;
  static void fields(AttrFields<MaskedSoftmaxAttrs>& f) {
    f.field("axis", &MaskedSoftmaxAttrs::axis, "the axis that sums to 1")
        .field("temperature", &MaskedSoftmaxAttrs::temperature, "the data is divided by it first; 1 when None");
  }
};
// out = mask ? x : fill, where the mask broadcasts; out may be x.
static void apply_mask(const Tensor& x, const Tensor& mask, double fill, Tensor& out) {
  Program program(kernels::compute_type(out.dtype()));
  select(Expr::input(program, 1) != 0, Expr::input(program, 0), fill);
  const kernels::Operand operands[] = {{bytes_of(x), x.dtype(), &x.shape()}, {bytes_of(mask), mask.dtype(), &mask.shape()}};
  kernels::run_elementwise(program, operands, bytes_of(out), out.dtype(), out.shape());
}
static void run_masked(const MaskedSoftmaxAttrs& a, KernelContext& k, bool logarithm) {
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  apply_mask(k.in(0), k.in(1), nothing, k.out());
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    T* out = k.out_data<T>();
    kernels::softmax<T>(layout_of(k.out().shape(), a.axis), out, out, static_cast<T>(1 / a.temperature.value_or(1)), logarithm, nullptr);
  });
  apply_mask(k.out(), k.in(1), logarithm ? nothing : 0, k.out());
}
static OpBuilder<MaskedSoftmaxAttrs>& with_mask(OpBuilder<MaskedSoftmaxAttrs>& op) {
  return op.input("data")
      .input("mask")
      .own_dtype()
      .ignores({"normalize", "dtype"})
      .kernel_dtypes(real_dtypes())
      .inplace(0)
      .shape([](const MaskedSoftmaxAttrs& a, std::span<const Shape> in) {
        normalize_axis(a.axis, in[0]);
        if (!(broadcast_shapes(in) == in[0])) raise<ShapeError>("mask of shape {} does not broadcast to data of shape {}", in[1], in[0]);
        return in[0];
      });
}
GLUINO_OP(masked_softmax, MaskedSoftmaxAttrs) {
  with_mask(op.doc("Softmax of the elements whose mask is not 0; the others become 0."))
      .kernel([](const MaskedSoftmaxAttrs& a, KernelContext& k) { run_masked(a, k, false); })
      .gradient(
          {{}, {0}},
          [](const MaskedSoftmaxAttrs& a, const Gradient& g) -> Tensors {
            return {call_with("_softmax_grad", {g.head(), g.out(0)}, SoftmaxAttrs{.axis = a.axis, .temperature = a.temperature}), Tensor()};
          })
      .sample({{3, 4}, index_sample({3, 4}, 2)});
}
GLUINO_OP(masked_log_softmax, MaskedSoftmaxAttrs) {
  with_mask(op.doc("Logarithm of the softmax of the elements whose mask is not 0; the others become -inf."))
      .kernel([](const MaskedSoftmaxAttrs& a, KernelContext& k) { run_masked(a, k, true); })
      .gradient(
          {{1}, {0}},
          [](const MaskedSoftmaxAttrs& a, const Gradient& g) -> Tensors {
            const Tensor on = indicator(g.in(1), "!=", 0);
            const Tensor head = call("where", {call("broadcast_like", {on, g.like(0)}), g.head(), call("zeros_like", {g.like(0)})});
            return {call_with("_log_softmax_grad", {head, g.out(0)}, SoftmaxAttrs{.axis = a.axis, .temperature = a.temperature}), Tensor()};
          })
      .sample_without_gradient({{3, 4}, index_sample({3, 4}, 2)});
}

// ---- cross entropy with labels
static int64_t label_at(const std::vector<int64_t>& labels, int64_t row, int64_t classes) {
  const int64_t label = labels[row];
  if (label < 0 || label >= classes) raise<IndexError>("label {} of row {} is out of range for {} classes", label, row, classes);
  return label;
}
static void check_labels(std::span<const Shape> in) {
  if (in[0].ndim() != 2 || !(in[1] == Shape{in[0][0]}))
    raise<ShapeError>("data of shape (rows, classes) and labels of shape (rows,) are needed, but they are {} and {}", in[0], in[1]);
}
GLUINO_OP(softmax_cross_entropy, NoAttrs) {
  op.doc("Sum over the rows of -log(softmax(data)[label]).")
      .input("data")
      .input("label")
      .own_dtype()
      .shape([](const NoAttrs&, std::span<const Shape> in) { return check_labels(in), Shape{1}; })
      .complete([](const NoAttrs&, OptionalShapes& in, const OptionalShapes&) {
        if (in[0] && in[0]->ndim() == 2 && is_open(in[1])) in[1] = Shape{(*in[0])[0]};
      })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const std::vector<int64_t> labels = k.in(1).to_vector<int64_t>();
        const int64_t classes = k.in(0).extent(1);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          std::vector<T> logs(k.in(0).size());
          kernels::softmax<T>({k.in(0).extent(0), classes, 1}, k.data<T>(0), logs.data(), 1, true, nullptr);
          double total = 0;
          for (int64_t r = 0; r < k.in(0).extent(0); ++r) total -= logs[r * classes + label_at(labels, r, classes)];
          *k.out_data<T>() = static_cast<T>(total);
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{0, 1}, {}},
                [](const Gradient& g) -> Tensors {
                  return {g.head() * call("_softmax_minus_one_hot", {g.in(0), g.in(1)}), Tensor()};
                })
      .sample({{3, 4}, index_sample({3}, 4)});
}
GLUINO_OP(_softmax_minus_one_hot, NoAttrs) {
  op.doc("softmax(data) - one_hot(label): the gradient of softmax_cross_entropy.")
      .input("data")
      .input("label")
      .own_dtype()
      .shape([](const NoAttrs&, std::span<const Shape> in) { return check_labels(in), in[0]; })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const std::vector<int64_t> labels = k.in(1).to_vector<int64_t>();
        const int64_t classes = k.in(0).extent(1);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::softmax<T>({k.in(0).extent(0), classes, 1}, k.data<T>(0), k.out_data<T>(), 1, false, nullptr);
          for (int64_t r = 0; r < k.in(0).extent(0); ++r) k.out_data<T>()[r * classes + label_at(labels, r, classes)] -= 1;
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{0}, {}},
                [](const Gradient& g) -> Tensors {
                  return {call_with("_softmax_grad", {g.head(), call("softmax", {g.in(0)})}, SoftmaxAttrs{}), Tensor()};
                })
      .sample({{3, 4}, index_sample({3}, 4)});
}

}  // namespace
}  // namespace gluino::ops
