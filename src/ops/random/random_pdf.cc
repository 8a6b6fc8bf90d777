// Probability densities of samples under given parameters, and their logarithms. Gradients reach samples and parameters.
#include <cmath>

#include "ops/linear/matrices.h"
#include "ops/random/distributions.h"

namespace gluino::ops {
namespace {

struct PdfAttrs {
  bool is_log = false;
  static void fields(AttrFields<PdfAttrs>& f) { f.field("is_log", &PdfAttrs::is_log, "return the logarithm of the density"); }
};

// The shape of a parameter is the first part of the sample's: each parameter serves all samples after it.
static Shape pdf_shape(std::span<const Shape> in) {
  for (size_t i = 1; i < in.size(); ++i) {
    bool fits = in[i].ndim() <= in[0].ndim() && in[i] == in[1];
    for (int j = 0; fits && j < in[i].ndim(); ++j) fits = in[i][j] == in[0][j];
    if (!fits) raise<ShapeError>("a parameter has shape {}, which is not the first part of the sample's shape {}", in[i], in[0]);
  }
  return in[0];
}
// A parameter with trailing axes of extent 1, so that it broadcasts against the sample.
static Tensor aligned(Tensor parameter, int ndim) {
  for (int i = parameter.ndim(); i < ndim; ++i) parameter = call("expand_dims", {parameter}, {{"axis", int64_t{-1}}});
  return parameter;
}
static Tensor f(std::string_view name, const Tensor& x) { return call(name, {x}); }

// log_pdf(sample, parameter[, parameter]) for one element; slopes gives its derivatives by each input.
template <class P, class S>
static void define_pdf(OpBuilder<PdfAttrs>& op, std::vector<std::string> parameters, P log_pdf, S slopes) {
  op.input("sample");
  for (const std::string& p : parameters) op.input(p);
  op.kernel_dtypes(float_dtypes())
      .shape([](const PdfAttrs&, std::span<const Shape> in) { return pdf_shape(in); })
      .kernel([log_pdf](const PdfAttrs& a, KernelContext& k) {
        const int64_t each = k.in(0).shape().elements(k.in(1).ndim(), k.in(0).ndim());
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          const T *x = k.data<T>(0), *p = k.data<T>(1), *q = k.data<T>(k.num_inputs() - 1);
          for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) {
            const double v = log_pdf(static_cast<double>(x[i]), static_cast<double>(p[i / each]), static_cast<double>(q[i / each]));
            k.out_data<T>()[i] = static_cast<T>(a.is_log ? v : std::exp(v));
          }
        });
      })
      .gradient({{0, 1, 2}, {0}}, [slopes](const PdfAttrs& a, const Gradient& g) -> Tensors {
        const int ndim = g.like(0).ndim();
        const Tensor head = a.is_log ? g.head() : g.head() * g.out(0);
        const Tensor p = aligned(g.in(1), ndim), q = g.num_inputs() > 2 ? aligned(g.in(2), ndim) : p;
        Tensors result = slopes(g.in(0), p, q);
        for (int i = 0; i < g.num_inputs(); ++i) {
          Tensor& r = result[i];
          if (!r.defined()) continue;
          r = head * r;
          if (i > 0) r = call("reshape_like", {reduce_like(r, i == 1 ? p : q), g.like(i)});
        }
        return result;
      });
}

GLUINO_OP(_random_pdf_uniform, PdfAttrs) {
  define_pdf(
      op.doc("Density of a uniform distribution.").alias("random_pdf_uniform"), {"low", "high"},
      [](double x, double low, double high) { return x >= low && x <= high ? -std::log(high - low) : -INFINITY; },
      [](const Tensor& x, const Tensor& low, const Tensor& high) {
        return Tensors{zeros_like(x), 1 / (high - low), 1 / (low - high)};
      });
  op.sample({uniform_sample({2, 3}, 0.6, 1.4), uniform_sample({2}, 0, 0.5), uniform_sample({2}, 1.5, 2)})
      .sample({uniform_sample({2, 3}, 0.6, 1.4), uniform_sample({2}, 0, 0.5), uniform_sample({2}, 1.5, 2)}, {.is_log = true});
}
#define SAMPLES2(x1, x2, p1, p2, q1, q2)                                                             \
  sample({uniform_sample({2, 3}, x1, x2), uniform_sample({2}, p1, p2), uniform_sample({2}, q1, q2)}) \
      .sample({uniform_sample({3}, x1, x2), uniform_sample({3}, p1, p2), uniform_sample({3}, q1, q2)}, {.is_log = true})
#define SAMPLES1(x1, x2, p1, p2)                                        \
  sample({uniform_sample({2, 3}, x1, x2), uniform_sample({2}, p1, p2)}) \
      .sample({uniform_sample({3}, x1, x2), uniform_sample({3}, p1, p2)}, {.is_log = true})
GLUINO_OP(_random_pdf_normal, PdfAttrs) {
  define_pdf(
      op.doc("Density of a normal distribution.").alias("random_pdf_normal"), {"mu", "sigma"},
      [](double x, double m, double s) { return -0.5 * (x - m) * (x - m) / (s * s) - std::log(s) - 0.9189385332046727; },  // log(2 pi) / 2
      [](const Tensor& x, const Tensor& m, const Tensor& s) {
        const Tensor d = (x - m) / f("square", s);
        return Tensors{-d, d, d * (x - m) / s - 1 / s};
      });
  op.SAMPLES2(-1, 1, -0.5, 0.5, 0.5, 1.5);
}
GLUINO_OP(_random_pdf_gamma, PdfAttrs) {
  define_pdf(
      op.doc("Density of a gamma distribution with shape alpha and rate beta.").alias("random_pdf_gamma"), {"alpha", "beta"},
      [](double x, double a, double b) { return a * std::log(b) + (a - 1) * std::log(x) - b * x - log_gamma(a); },
      [](const Tensor& x, const Tensor& a, const Tensor& b) {
        return Tensors{(a - 1) / x - b, f("log", x) + (f("log", b) - f("digamma", a)), a / b - x};
      });
  op.SAMPLES2(0.5, 2, 0.7, 2, 0.5, 2);
}
GLUINO_OP(_random_pdf_exponential, PdfAttrs) {
  define_pdf(
      op.doc("Density of an exponential distribution.").alias("random_pdf_exponential"), {"lam"},
      [](double x, double l, double) { return std::log(l) - l * x; },
      [](const Tensor& x, const Tensor& l, const Tensor&) {
        return Tensors{-l, 1 / l - x};
      });
  op.SAMPLES1(0.5, 2, 0.5, 2);
}
GLUINO_OP(_random_pdf_poisson, PdfAttrs) {
  define_pdf(
      op.doc("Probability of a Poisson distribution.").alias("random_pdf_poisson"), {"lam"},
      [](double x, double l, double) { return x * std::log(l) - l - log_gamma(x + 1); },
      [](const Tensor& x, const Tensor& l, const Tensor&) {
        return Tensors{f("log", l) - f("digamma", x + 1), x / l - 1};
      });
  op.SAMPLES1(1, 4, 0.5, 2);
}
static double log_negative_binomial(double x, double k, double p) {
  return log_gamma(x + k) - log_gamma(x + 1) - log_gamma(k) + k * std::log(p) + x * std::log1p(-p);
}
// Derivatives of the above by x, k and p.
static Tensors negative_binomial_slopes(const Tensor& x, const Tensor& k, const Tensor& p) {
  const Tensor both = f("digamma", x + k);
  return {both - f("digamma", x + 1) + f("log", 1 - p), both + (f("log", p) - f("digamma", k)), k / p - x / (1 - p)};
}
GLUINO_OP(_random_pdf_negative_binomial, PdfAttrs) {
  define_pdf(op.doc("Probability of a negative binomial distribution.").alias("random_pdf_negative_binomial"), {"k", "p"},
             log_negative_binomial, negative_binomial_slopes);
  op.SAMPLES2(1, 4, 1, 3, 0.3, 0.7);
}
GLUINO_OP(_random_pdf_generalized_negative_binomial, PdfAttrs) {
  define_pdf(
      op.doc("Probability of a negative binomial distribution given by mean and dispersion.")
          .alias("random_pdf_generalized_negative_binomial"),
      {"mu", "alpha"}, [](double x, double mu, double alpha) { return log_negative_binomial(x, 1 / alpha, 1 / (mu * alpha + 1)); },
      [](const Tensor& x, const Tensor& mu, const Tensor& alpha) {
        // k = 1 / alpha and p = 1 / (mu alpha + 1)
        const Tensor p = 1 / (mu * alpha + 1);
        const Tensors slopes = negative_binomial_slopes(x, 1 / alpha, p);
        const Tensor d = slopes[2] * f("square", p);
        return Tensors{slopes[0], -(d * alpha), -(slopes[1] / f("square", alpha)) - d * mu};
      });
  op.SAMPLES2(1, 4, 0.5, 2, 0.5, 1.5);
}

GLUINO_OP(_random_pdf_dirichlet, PdfAttrs) {
  op.doc("Density of a Dirichlet distribution over the last axis.")
      .alias("random_pdf_dirichlet")
      .input("sample")
      .input("alpha")
      .kernel_dtypes(float_dtypes())
      .shape([](const PdfAttrs&, std::span<const Shape> in) {
        bool fits = !in[1].empty() && in[1].ndim() <= in[0].ndim() && in[1].back() == in[0].back();
        for (int i = 0; fits && i + 1 < in[1].ndim(); ++i) fits = in[0][i] == in[1][i];
        if (!fits) raise<ShapeError>("alpha of shape {} does not fit samples of shape {}", in[1], in[0]);
        Shape out = in[0];
        out.erase(out.ndim() - 1);
        if (out.empty()) out.push_back(1);
        return out;
      })
      .kernel([](const PdfAttrs& a, KernelContext& k) {
        const int64_t n = k.in(1).shape().back(), rows = k.out().size(),
                      each = rows / std::max<int64_t>(1, k.in(1).size() / std::max<int64_t>(1, n));
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t r = 0; r < rows; ++r) {
            double total = 0, v = 0;
            for (int64_t i = 0; i < n; ++i) {
              const double alpha = static_cast<double>(k.data<T>(1)[r / each * n + i]);
              v += (alpha - 1) * std::log(static_cast<double>(k.data<T>(0)[r * n + i])) - log_gamma(alpha);
              total += alpha;
            }
            v += log_gamma(total);
            k.out_data<T>()[r] = static_cast<T>(a.is_log ? v : std::exp(v));
          }
        });
      })
      .gradient({{0, 1}, {0}},
                [](const PdfAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor& x = g.in(0);
                  Tensor head = a.is_log ? g.head() : g.head() * g.out(0);
                  if (x.ndim() > 1) head = call("expand_dims", {head}, {{"axis", int64_t{-1}}});
                  // alpha: its leading axes, then ones, then the last axis
                  Tensor alpha = g.in(1);
                  for (int i = alpha.ndim(); i < x.ndim(); ++i) alpha = call("expand_dims", {alpha}, {{"axis", int64_t{-2}}});
                  const Tensor by_alpha = f("log", x) - f("digamma", alpha) + f("digamma", alpha.sum(Shape{-1}, true));
                  return {head * (alpha - 1) / x, call("reshape_like", {reduce_like(head * by_alpha, alpha), g.like(1)})};
                })
      .sample({uniform_sample({2, 4, 3}, 0.2, 0.6), uniform_sample({2, 3}, 0.5, 2)})
      .sample({uniform_sample({3}, 0.2, 0.6), uniform_sample({3}, 0.5, 2)}, {.is_log = true});
}

}  // namespace
}  // namespace gluino::ops
