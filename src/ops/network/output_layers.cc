// Output layers of old symbols: forward is a prediction, and the gradient is that of a loss, whatever flows in.
#include <cmath>
#include <cstring>

#include "dispatch/own_gradient.h"
#include "kernels/rows/softmax.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

constexpr const char* kConvention = "it is itself a gradient by convention";
enum class Normalization : uint8_t { null, batch, valid };

struct SoftmaxOutputAttrs {
  double grad_scale = 1, ignore_label = -1, smooth_alpha = 0;
  bool multi_output = false, use_ignore = false, preserve_shape = false, out_grad = false;
  Normalization normalization = Normalization::null;
  static void fields(AttrFields<SoftmaxOutputAttrs>& f) {
    f.field("grad_scale", &SoftmaxOutputAttrs::grad_scale, "factor of the gradient")
        .field("ignore_label", &SoftmaxOutputAttrs::ignore_label, "the label that use_ignore leaves out")
        .field("multi_output", &SoftmaxOutputAttrs::multi_output, "softmax over axis 1 at every position")
        .field("use_ignore", &SoftmaxOutputAttrs::use_ignore, "whether rows with ignore_label have no gradient")
        .field("preserve_shape", &SoftmaxOutputAttrs::preserve_shape, "softmax over the last axis only")
        .choice("normalization", &SoftmaxOutputAttrs::normalization, {"null", "batch", "valid"}, "what the gradient is divided by")
        .field("out_grad", &SoftmaxOutputAttrs::out_grad, "multiply the gradient with what flows in")
        .field("smooth_alpha", &SoftmaxOutputAttrs::smooth_alpha, "how much of a label's weight goes to the other classes");
  }
};

static kernels::SoftmaxLayout layout_of(const SoftmaxOutputAttrs& a, const Shape& s) {
  if (s.ndim() < 2 && !(a.preserve_shape && !a.multi_output && s.ndim() == 1))
    raise<ShapeError>("data has shape {}, but at least 2 axes are needed", s);
  if (a.multi_output) return {s[0], s[1], s.elements(2, s.ndim())};
  if (a.preserve_shape) return {s.elements(0, s.ndim() - 1), s.back(), 1};
  return {s[0], s.elements(1, s.ndim()), 1};
}

static Shape softmax_output_shape(const SoftmaxOutputAttrs& a, std::span<const Shape> in) {
  const int64_t rows = layout_of(a, in[0]).rows();
  if (in[1].elements() != rows && !(in[1] == in[0]))
    raise<ShapeError>("label has shape {}, but data of shape {} needs {} labels, or a probability per element", in[1], in[0], rows);
  return in[0];
}

// The shape of labels when nothing else is known; MXNet's rule, also where softmax is over several axes and fewer labels are needed.
static Shape default_label(const SoftmaxOutputAttrs& a, const Shape& data) {
  Shape label = data;
  if (a.multi_output) return data.ndim() == 2 ? Shape{data[0]} : Shape{data[0], data.elements(2, data.ndim())};
  label.erase(label.ndim() - 1);
  return label;
}

// Predicting does not read the labels: those of the shape that MXNet gives them are as good.
static Shape predicted_shape(const SoftmaxOutputAttrs& a, std::span<const Shape> in) {
  return in[0].ndim() > 1 && in[1] == default_label(a, in[0]) ? in[0] : softmax_output_shape(a, in);
}

// How many rows the gradient is divided by.
static double divisor_of(const SoftmaxOutputAttrs& a, const kernels::SoftmaxLayout& l, const std::vector<double>& labels, int64_t batch) {
  const double positions =
      a.multi_output && a.normalization != Normalization::valid ? static_cast<double>(std::max<int64_t>(l.inner, 1)) : 1;
  if (a.normalization == Normalization::batch) return positions * static_cast<double>(std::max<int64_t>(batch, 1));
  if (a.normalization == Normalization::null) return positions;
  const auto ignored = std::count(labels.begin(), labels.end(), a.ignore_label);
  return static_cast<double>(std::max<int64_t>(static_cast<int64_t>(labels.size()) - ignored, 1));
}

template <class T>
static void softmax_output_grad(const SoftmaxOutputAttrs& a, const kernels::SoftmaxLayout& l, const T* y, const std::vector<double>& labels,
                                T scale, T* out) {
  const T others = l.extent > 1 ? static_cast<T>(a.smooth_alpha / static_cast<double>(l.extent - 1)) : T(0);
  for (int64_t r = 0; r < l.rows(); ++r) {
    const int64_t base = l.base(r);
    const double label = labels[r];
    if (a.use_ignore && label == a.ignore_label) {
      for (int64_t i = 0; i < l.extent; ++i) out[base + i * l.inner] = 0;
      continue;
    }
    const auto hot = static_cast<int64_t>(label);
    for (int64_t i = 0; i < l.extent; ++i)
      out[base + i * l.inner] = scale * (y[base + i * l.inner] - (i == hot ? static_cast<T>(1 - a.smooth_alpha) : others));
  }
}

GLUINO_OP(SoftmaxOutput, SoftmaxOutputAttrs) {
  op.doc("Softmax whose gradient is that of the cross entropy with label.")
      .alias("Softmax")
      .input("data")
      .input("label")
      .own_dtype()
      .shape(predicted_shape)
      .complete([](const SoftmaxOutputAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        if (in[0] && in[0]->is_known() && in[0]->ndim() > 1 && is_open(in[1])) in[1] = default_label(a, *in[0]);
      })
      .kernel([](const SoftmaxOutputAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::softmax<T>(layout_of(a, k.out().shape()), k.data<T>(0), k.out_data<T>(), 1, false, nullptr);
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{1}, {0}},
                [](const SoftmaxOutputAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor d = call_with("_softmax_output_grad", {g.out(0), g.in(1)}, a);
                  return {a.out_grad ? d * g.head() : d, Tensor()};
                })
      .sample_without_gradient({{3, 4}, index_sample({3}, 4)})
      .sample_without_gradient({{2, 4, 3}, index_sample({2, 3}, 4)}, {.multi_output = true, .normalization = Normalization::valid});
}
GLUINO_OP(_softmax_output_grad, SoftmaxOutputAttrs) {
  op.doc("The gradient that SoftmaxOutput gives, from its output and the label.")
      .input("values")
      .input("label")
      .own_dtype()
      .shape(softmax_output_shape)
      .kernel([](const SoftmaxOutputAttrs& a, KernelContext& k) {
        const kernels::SoftmaxLayout l = layout_of(a, k.out().shape());
        const std::vector<double> labels = k.in(1).to_vector<double>();
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          if (k.in(1).shape() == k.out().shape() && k.in(1).size() != l.rows()) {
            for (size_t i = 0; i < labels.size(); ++i)
              out[i] = static_cast<T>(a.grad_scale) * (k.data<T>(0)[i] - static_cast<T>(labels[i]));
            return;
          }
          softmax_output_grad<T>(a, l, k.data<T>(0), labels, static_cast<T>(a.grad_scale / divisor_of(a, l, labels, k.out().extent(0))),
                                 out);
        });
      })
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kConvention)
      .sample({uniform_sample({3, 4}, 0, 1), index_sample({3}, 4)}, {.smooth_alpha = 0.1});
}

// ---- regression
struct RegressionAttrs {
  double grad_scale = 1;
  static void fields(AttrFields<RegressionAttrs>& f) { f.field("grad_scale", &RegressionAttrs::grad_scale, "factor of the gradient"); }
};
struct RegressionGradAttrs {
  double grad_scale = 1;
  bool sign = false;
  static void fields(AttrFields<RegressionGradAttrs>& f) {
    f.field("grad_scale", &RegressionGradAttrs::grad_scale, "factor of the gradient")
        .field("sign", &RegressionGradAttrs::sign, "only the sign of the difference");
  }
};
static Shape regression_shape(std::span<const Shape> in) {
  if (in[0].elements() != in[1].elements())
    raise<ShapeError>("label has shape {}, but as many elements as data of shape {} are needed", in[1], in[0]);
  return in[0];
}
GLUINO_OP(_regression_output_grad, RegressionGradAttrs) {
  op.doc("values - label, or its sign, divided by the outputs per row.")
      .input("values")
      .input("label")
      .own_dtype()
      .shape([](const RegressionGradAttrs&, std::span<const Shape> in) { return regression_shape(in); })
      .kernel([](const RegressionGradAttrs& a, KernelContext& k) {
        const std::vector<double> labels = k.in(1).to_vector<double>();
        const int64_t rows = k.out().ndim() ? std::max<int64_t>(k.out().extent(0), 1) : 1;
        const double scale = a.grad_scale / std::max(static_cast<double>(k.out().size() / rows), 1.0);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for (size_t i = 0; i < labels.size(); ++i) {
            const T d = k.data<T>(0)[i] - static_cast<T>(labels[i]);
            k.out_data<T>()[i] = static_cast<T>(scale) * (a.sign ? static_cast<T>((d > 0) - (d < 0)) : d);
          }
        });
      })
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kConvention)
      .sample({{3, 2}, {3, 2}}, {.grad_scale = 2})
      .sample({{3, 1}, {3}}, {.sign = true});
}

static void define_regression(OpBuilder<RegressionAttrs>& op, bool sign) {
  op.input("data")
      .input("label")
      .own_dtype()
      .shape([](const RegressionAttrs&, std::span<const Shape> in) { return regression_shape(in); })
      .complete([](const RegressionAttrs&, OptionalShapes& in, const OptionalShapes&) {
        if (in[0] && is_open(in[1])) in[1] = in[0]->ndim() == 2 && (*in[0])[1] == 1 ? Shape{(*in[0])[0]} : *in[0];
      })
      .gradient({{1}, {0}},
                [sign](const RegressionAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_regression_output_grad", {g.out(0), g.in(1)},
                                    RegressionGradAttrs{.grad_scale = a.grad_scale, .sign = sign}),
                          Tensor()};
                })
      .kernel_dtypes(real_dtypes())
      .sample_without_gradient({{3, 2}, {3, 2}})
      .sample_without_gradient({{3, 1}, {3}}, {.grad_scale = 2});
}
static void copy_first(KernelContext& k) { std::memcpy(bytes_of(k.out()), bytes_of(k.in(0)), k.out().nbytes()); }
static void identity_kernel(const RegressionAttrs&, KernelContext& k) { copy_first(k); }

GLUINO_OP(LinearRegressionOutput, RegressionAttrs) {
  define_regression(op.doc("The data itself, with the gradient of the squared difference to label.").kernel(identity_kernel), false);
}
GLUINO_OP(MAERegressionOutput, RegressionAttrs) {
  define_regression(op.doc("The data itself, with the gradient of the absolute difference to label.").kernel(identity_kernel), true);
}
GLUINO_OP(LogisticRegressionOutput, RegressionAttrs) {
  define_regression(op.doc("The sigmoid of data, with the gradient of the cross entropy with label.")
                        .kernel([](const RegressionAttrs&, KernelContext& k) {
                          visit_real(k.out().dtype(), [&]<class T>(T*) {
                            const T* from = k.data<T>(0);
                            T* to = k.out_data<T>();
                            for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) to[i] = 1 / (1 + std::exp(-from[i]));
                          });
                        }),
                    false);
}

// ---- support vector machine
struct SVMOutputAttrs {
  double margin = 1, regularization_coefficient = 1;
  bool use_linear = false;
  static void fields(AttrFields<SVMOutputAttrs>& f) {
    f.field("margin", &SVMOutputAttrs::margin, "distance that costs nothing")
        .field("regularization_coefficient", &SVMOutputAttrs::regularization_coefficient, "factor of the gradient")
        .field("use_linear", &SVMOutputAttrs::use_linear, "hinge loss instead of its square");
  }
};
static Shape svm_shape(const SVMOutputAttrs&, std::span<const Shape> in) {
  if (in[0].ndim() < 2 || in[1].elements() != in[0][0])
    raise<ShapeError>("data of shape (rows, classes) and one label per row are needed, but they are {} and {}", in[0], in[1]);
  return in[0];
}
GLUINO_OP(SVMOutput, SVMOutputAttrs) {
  op.doc("The data itself, with the gradient of the (squared) hinge loss of label against the rest.")
      .input("data")
      .input("label")
      .own_dtype()
      .shape(svm_shape)
      .complete([](const SVMOutputAttrs&, OptionalShapes& in, const OptionalShapes&) {
        if (in[0] && in[0]->ndim() > 1 && is_open(in[1])) in[1] = Shape{(*in[0])[0]};
      })
      .kernel([](const SVMOutputAttrs&, KernelContext& k) { copy_first(k); })
      .kernel_dtypes(real_dtypes())
      .gradient({{1}, {0}},
                [](const SVMOutputAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_svm_output_grad", {g.out(0), g.in(1)}, a), Tensor()};
                })
      .sample_without_gradient({{3, 4}, index_sample({3}, 4)});
}
GLUINO_OP(_svm_output_grad, SVMOutputAttrs) {
  op.doc("The gradient that SVMOutput gives.")
      .input("values")
      .input("label")
      .own_dtype()
      .shape(svm_shape)
      .kernel([](const SVMOutputAttrs& a, KernelContext& k) {
        const std::vector<int64_t> labels = k.in(1).to_vector<int64_t>();
        const int64_t rows = k.out().extent(0), classes = k.out().size() / std::max<int64_t>(rows, 1);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) {
            // The label wants values above the margin, the others below minus the margin.
            const T side = i % classes == labels[i / classes] ? T(1) : T(-1);
            const T lack = static_cast<T>(a.margin) - side * k.data<T>(0)[i];
            k.out_data<T>()[i] = lack > 0 ? -side * static_cast<T>(a.regularization_coefficient) * (a.use_linear ? T(1) : 2 * lack) : T(0);
          }
        });
      })
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kConvention)
      .sample({{3, 4}, index_sample({3}, 4)})
      .sample({{3, 4}, index_sample({3}, 4)}, {.use_linear = true});
}

// ---- MakeLoss
struct MakeLossAttrs {
  double grad_scale = 1, valid_thresh = 0;
  Normalization normalization = Normalization::null;
  static void fields(AttrFields<MakeLossAttrs>& f) {
    f.field("grad_scale", &MakeLossAttrs::grad_scale, "the gradient of every element")
        .field("valid_thresh", &MakeLossAttrs::valid_thresh, "elements above it count for normalization = valid")
        .choice("normalization", &MakeLossAttrs::normalization, {"null", "batch", "valid"}, "what the gradient is divided by");
  }
};
GLUINO_OP(MakeLoss, MakeLossAttrs) {
  op.doc("The data itself, marked as a loss: its gradient is grad_scale whatever flows in.")
      .input("data")
      .same_shape()
      .inplace(0)
      .kernel([](const MakeLossAttrs&, KernelContext& k) { copy_first(k); })
      .gradient({{0}, {}},
                [](const MakeLossAttrs& a, const Gradient& g) -> Tensors { return {call_with("_make_loss_grad", {g.in(0)}, a)}; })
      .sample_without_gradient({{3, 4}});
}
GLUINO_OP(_make_loss_grad, MakeLossAttrs) {
  op.doc("The gradient that MakeLoss gives.")
      .input("data")
      .same_shape()
      .kernel([](const MakeLossAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          int64_t count = 1;
          if (a.normalization == Normalization::batch && k.out().ndim() > 0) count = k.out().extent(0);
          if (a.normalization == Normalization::valid)
            count = std::count_if(k.data<T>(0), k.data<T>(0) + k.out().size(), [&](T x) { return x > static_cast<T>(a.valid_thresh); });
          std::fill_n(k.out_data<T>(), k.out().size(), static_cast<T>(a.grad_scale / static_cast<double>(std::max<int64_t>(count, 1))));
        });
      })
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kConvention)
      .sample({{3, 4}}, {.grad_scale = 3, .normalization = Normalization::valid});
}

// ---- sparsity
struct KLSparseAttrs {
  double sparseness_target = 0.1, penalty = 0.001, momentum = 0.9;
  static void fields(AttrFields<KLSparseAttrs>& f) {
    f.field("sparseness_target", &KLSparseAttrs::sparseness_target, "wanted mean activation")
        .field("penalty", &KLSparseAttrs::penalty, "weight of the penalty")
        .field("momentum", &KLSparseAttrs::momentum, "how much of the moving average is kept in a training step");
  }
};
GLUINO_OP(IdentityAttachKLSparseReg, KLSparseAttrs) {
  op.doc("The data itself; the gradient gets the slope of a Kullback-Leibler penalty on the mean activation.")
      .input("data")
      .state("moving_avg")
      .outputs({"output", "average"})
      .hidden_outputs(1)
      .mode_dependent()
      .shape([](const KLSparseAttrs&, std::span<const Shape> in) {
        if (in[0].ndim() != 2 || !(in[1] == Shape{in[0][1]}))
          raise<ShapeError>("data with 2 axes and a moving_avg of its second extent are needed, but they are {} and {}", in[0], in[1]);
        return std::vector<Shape>{in[0], in[1]};
      })
      .complete([](const KLSparseAttrs&, OptionalShapes& in, const OptionalShapes&) {
        if (in[0] && in[0]->ndim() == 2 && is_open(in[1])) in[1] = Shape{(*in[0])[1]};
      })
      .kernel([](const KLSparseAttrs& a, KernelContext& k) {
        copy_first(k);
        Tensor state = k.state(1);
        const int64_t rows = k.out().extent(0), columns = k.out().extent(1);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          T* moving = k.training() ? state.mutable_data<T>() : nullptr;
          for (int64_t c = 0; c < columns && moving && rows > 0; ++c) {
            T sum = 0;
            for (int64_t r = 0; r < rows; ++r) sum += k.data<T>(0)[r * columns + c];
            moving[c] = static_cast<T>(a.momentum) * moving[c] + static_cast<T>(1 - a.momentum) * sum / static_cast<T>(rows);
          }
          std::copy_n(state.data<T>(), columns, k.out_data<T>(1));
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{}, {1}},
                [](const KLSparseAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor& average = g.out(1);
                  return {g.head() + a.penalty * ((1 - a.sparseness_target) / (1 - average) - a.sparseness_target / average), Tensor()};
                })
      .sample_without_gradient({uniform_sample({3, 4}, 0.1, 0.9), uniform_sample({4}, 0.1, 0.9)});
}

// Behind an operator without a gradient these still learn.
[[maybe_unused]] const bool kOwnGradientsAreSaid = [] {
  for (const char* name : {"SoftmaxOutput", "LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput", "SVMOutput",
                           "MakeLoss", "make_loss", "IdentityAttachKLSparseReg"})
    gives_own_gradient(name);
  return true;
}();

}  // namespace
}  // namespace gluino::ops
