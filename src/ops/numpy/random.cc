// Names of mx.np.random: distributions whose parameters are numbers or tensors. Draws of a standard distribution are moved and stretched,
// so gradients reach the parameters.
#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

// A parameter of a distribution: a number, or a tensor that broadcasts.
struct Parameter {
  Tensor tensor;
  double number = 0;

  Tensor times(const Tensor& x) const { return tensor.defined() ? call("broadcast_mul", {x, tensor}) : x * number; }
  Tensor plus(const Tensor& x) const { return tensor.defined() ? call("broadcast_add", {x, tensor}) : x + number; }
  Tensor into(const Tensor& x) const { return tensor.defined() ? call("broadcast_div", {x, tensor}) : x / number; }
  // x to the power of one over the parameter.
  Tensor root(const Tensor& x) const {
    return tensor.defined() ? call("broadcast_power", {x, call("reciprocal", {tensor})})
                            : call("_power_scalar", {x}, {{"scalar", 1 / number}});
  }
};
Parameter difference(const Parameter& a, const Parameter& b) {
  if (a.tensor.defined() && b.tensor.defined()) return {a.tensor - b.tensor};
  if (a.tensor.defined()) return {a.tensor - b.number};
  if (b.tensor.defined()) return {a.number - b.tensor};
  return {{}, a.number - b.number};
}

// What all share: the parameters that are tensors come as inputs, in order.
struct DrawAttrs {
  std::optional<double> first, second;
  std::optional<Shape> size;
  std::string ctx;
  std::optional<DType> dtype;
};
class Draw {
 public:
  Draw(const DrawAttrs& a, std::span<const Tensor> in, bool has_second, bool batch = false) : dtype_(a.dtype.value_or(DType::float32)) {
    auto next = in.begin();
    const auto parameter = [&](const std::optional<double>& given) {
      return given ? Parameter{{}, *given} : Parameter{as_dtype(*next++, dtype_)};
    };
    first = parameter(a.first);
    if (has_second) second = parameter(a.second);
    std::vector<Shape> shapes;
    for (const Parameter* p : {&first, &second})
      if (p->tensor.defined()) shapes.push_back(p->tensor.shape());
    const Shape common = shapes.empty() ? Shape{} : broadcast_shapes(shapes);
    if (batch) {
      shape_ = a.size.value_or(Shape{});
      for (int64_t e : common) shape_.push_back(e);
    } else {
      shape_ = a.size.value_or(common);
      shapes.push_back(shape_);
      if (!(broadcast_shapes(shapes) == shape_)) raise<ShapeError>("size {} does not fit parameters of shape {}", shape_, common);
    }
  }
  // Draws of the shape of the result.
  Tensor standard(std::string_view op) const { return shaped(call(op, {}, {{"shape", shape_}, {"dtype", dtype_}})); }
  Tensor gamma(double alpha) const {
    return shaped(call("_random_gamma", {}, {{"shape", shape_}, {"dtype", dtype_}, {"alpha", alpha}, {"beta", 1.0}}));
  }
  Tensor uniform() const { return standard("_random_uniform"); }
  Tensor exponential() const { return standard("_random_exponential"); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

  Parameter first, second;

 private:
  // Without a shape the generators give one number in an array.
  Tensor shaped(const Tensor& drawn) const { return shape_.empty() ? reshaped(drawn, {}) : drawn; }

  Shape shape_;
  DType dtype_;
};

#define GLUINO_DRAW_ATTRS(Name, first_name, first_default, second_name, second_default, has_dtype)                                         \
  struct Name : DrawAttrs {                                                                                                                \
    static constexpr bool has_second = *second_name != 0;                                                                                  \
    Name() { first = first_default, second = second_default; }                                                                             \
    Name(std::optional<double> a, std::optional<double> b, std::optional<Shape> s) { first = a, second = b, size = std::move(s); }         \
    static void fields(AttrFields<Name>& f) {                                                                                              \
      f.field(first_name, static_cast<std::optional<double> Name::*>(&DrawAttrs::first), "parameter; None where it is a tensor");          \
      if (has_second)                                                                                                                      \
        f.field(second_name, static_cast<std::optional<double> Name::*>(&DrawAttrs::second), "parameter; None where it is a tensor");      \
      f.field("size", static_cast<std::optional<Shape> Name::*>(&DrawAttrs::size), "shape of the result; None for that of the parameters") \
          .field("ctx", static_cast<std::string Name::*>(&DrawAttrs::ctx), "device as MXNet's files name it; has no effect");              \
      if (has_dtype)                                                                                                                       \
        f.field("dtype", static_cast<std::optional<DType> Name::*>(&DrawAttrs::dtype), "dtype of the result; None for float32");           \
    }                                                                                                                                      \
  };
GLUINO_DRAW_ATTRS(UniformAttrs, "low", 0.0, "high", 1.0, true)
GLUINO_DRAW_ATTRS(NormalAttrs, "loc", 0.0, "scale", 1.0, true)
GLUINO_DRAW_ATTRS(GammaAttrs, "shape", 1.0, "scale", 1.0, true)
GLUINO_DRAW_ATTRS(PlaceAttrs, "loc", 0.0, "scale", 1.0, false)
GLUINO_DRAW_ATTRS(ScaleAttrs, "scale", 1.0, "", 1.0, false)
GLUINO_DRAW_ATTRS(ExponentAttrs, "a", 1.0, "", 1.0, false)
#undef GLUINO_DRAW_ATTRS

template <class A, class F>
OpBuilder<A>& declare_draw(OpBuilder<A>& op, F f, bool batch) {
  op.input("input1").present_if([](const A& a) { return !a.first; });
  if (A::has_second) op.input("input2").present_if([](const A& a) { return !a.second; });
  return composed(op.dtypes(DTypeSet::numeric).random().dtype([](const A& a, std::span<const DType>, DType) {
    return a.dtype.value_or(DType::float32);
  }),
                  [f, batch](const A& a, std::span<const Tensor> in) { return f(Draw(a, in, A::has_second, batch)); });
}
template <class A, class F>
void define_draw(OpBuilder<A>& op, F f) {
  declare_draw(op, f, false).sample({}, A(1.0, 2.0, Shape{2, 3}));
  if (A::has_second)
    op.sample({uniform_sample({3}, 0.5, 1), uniform_sample({2, 1}, 1, 2)}, A({}, {}, {}))
        .sample({uniform_sample({3}, 1, 2)}, A(1.0, {}, Shape{2, 3}));
  else
    op.sample({uniform_sample({2, 3}, 0.5, 1)}, A({}, 1.0, {}));
}
// `size` draws for every element of the parameters.
template <class A, class F>
void define_batch(OpBuilder<A>& op, F f) {
  declare_draw(op, f, true)
      .sample({uniform_sample({3}, 0, 1), uniform_sample({2, 1}, 1, 2)}, A({}, {}, Shape{4}))
      .sample({}, A(0.0, 1.0, Shape{2}));
}

Tensor uniform(const Draw& d) { return d.first.plus(difference(d.second, d.first).times(d.uniform())); }
Tensor normal(const Draw& d) { return d.first.plus(d.second.times(d.standard("_random_normal"))); }

GLUINO_OP(_npi_uniform, UniformAttrs) { define_draw(op.doc("Draws from [low, high)."), uniform); }
GLUINO_OP(_npi_normal, NormalAttrs) { define_draw(op.doc("Draws from normal distributions."), normal); }
GLUINO_OP(_npi_uniform_n, UniformAttrs) {
  define_batch(op.doc("Draws from [low, high): `size` of them for every element of the parameters."), uniform);
}
GLUINO_OP(_npi_normal_n, NormalAttrs) {
  define_batch(op.doc("Draws from normal distributions: `size` of them for every element of the parameters."), normal);
}
GLUINO_OP(_npi_gamma, GammaAttrs) {
  define_draw(op.doc("Draws from gamma distributions."), [](const Draw& d) {
    if (!d.first.tensor.defined()) return d.second.times(d.gamma(d.first.number));
    const Tensor shapes = call("_npi_broadcast_to", {d.first.tensor}, {{"shape", d.shape()}});
    return d.second.times(call("_sample_gamma", {shapes, call("ones_like", {shapes})}));
  });
}
GLUINO_OP(_npi_exponential, ScaleAttrs) {
  define_draw(op.doc("Draws from exponential distributions."), [](const Draw& d) { return d.first.times(d.exponential()); });
}
GLUINO_OP(_npi_rayleigh, ScaleAttrs) {
  define_draw(op.doc("Draws from Rayleigh distributions."),
              [](const Draw& d) { return d.first.times(call("sqrt", {d.exponential() * 2})); });
}
GLUINO_OP(_npi_weibull, ExponentAttrs) {
  define_draw(op.doc("Draws from Weibull distributions."), [](const Draw& d) { return d.first.root(d.exponential()); });
}
GLUINO_OP(_npi_pareto, ExponentAttrs) {
  define_draw(op.doc("Draws from Pareto distributions that start at 0."),
              [](const Draw& d) { return call("expm1", {d.first.into(d.exponential())}); });
}
GLUINO_OP(_npi_powerd, ExponentAttrs) {
  define_draw(op.doc("Draws from [0, 1) with density a x^(a - 1)."), [](const Draw& d) { return d.first.root(d.uniform()); });
}
// The logarithm of an exponential draw is that of Gumbel's distribution, turned around.
GLUINO_OP(_npi_gumbel, PlaceAttrs) {
  define_draw(op.doc("Draws from Gumbel distributions."),
              [](const Draw& d) { return d.first.plus(d.second.times(-call("log", {d.exponential()}))); });
}
GLUINO_OP(_npi_logistic, PlaceAttrs) {
  define_draw(op.doc("Draws from logistic distributions."), [](const Draw& d) {
    // log(u / (1 - u)) with u = exp(-e): -log(expm1(e))
    return d.first.plus(d.second.times(-call("log", {call("expm1", {d.exponential()})})));
  });
}

// ---- truth, counts and choices

struct BernoulliAttrs {
  std::optional<double> prob, logit;
  std::optional<Shape> size;
  std::string ctx;
  DType dtype = DType::float32;
  bool is_logit = false;
  static void fields(AttrFields<BernoulliAttrs>& f) {
    f.field("prob", &BernoulliAttrs::prob, "probability of 1; None where it is a tensor, or the logit is given")
        .field("logit", &BernoulliAttrs::logit, "logarithm of the odds of 1; None where it is a tensor, or the probability is given")
        .field("size", &BernoulliAttrs::size, "shape of the result; None for that of the parameter")
        .field("ctx", &BernoulliAttrs::ctx, "device as MXNet's files name it; has no effect")
        .field("dtype", &BernoulliAttrs::dtype, "dtype of the result")
        .field("is_logit", &BernoulliAttrs::is_logit, "whether the parameter is the logit");
  }
};
GLUINO_OP(_npi_bernoulli, BernoulliAttrs) {
  composed(op.doc("Draws ones with a probability, else zeros.")
               .input("input1")
               .present_if([](const BernoulliAttrs& a) { return !a.prob && !a.logit; })
               .dtypes(DTypeSet::numeric)
               .random()
               .dtype([](const BernoulliAttrs& a, std::span<const DType>, DType) { return a.dtype; }),
           [](const BernoulliAttrs& a, std::span<const Tensor> in) {
             const bool is_logit = a.logit || (a.is_logit && !a.prob);
             const Draw d({.first = a.logit ? a.logit : a.prob, .size = a.size}, in, false);
             const Tensor parameter = d.first.plus(call("_zeros", {}, {{"shape", d.shape()}}));
             return as_dtype(d.uniform() < (is_logit ? call("sigmoid", {parameter}) : parameter), a.dtype);
           })
      .not_differentiable("it draws ones and zeros")
      .sample({}, {.prob = 0.3, .size = Shape{2, 3}})
      .sample({{2, 3}}, {.is_logit = true});
}

struct CountsAttrs {
  int64_t n = 1;
  std::optional<Floats> pvals;
  std::optional<Shape> size;
  static void fields(AttrFields<CountsAttrs>& f) {
    f.required("n", &CountsAttrs::n, "how many draws")
        .field("pvals", &CountsAttrs::pvals, "probabilities; None where they are a tensor")
        .field("size", &CountsAttrs::size, "how many results; None for one");
  }
};
GLUINO_OP(_npi_multinomial, CountsAttrs) {
  composed(
      op.doc("How often each outcome came up in n draws.")
          .input("a")
          .present_if([](const CountsAttrs& a) { return !a.pvals; })
          .random()
          .dtype([](const CountsAttrs&, std::span<const DType>, DType) { return DType::int64; }),
      [](const CountsAttrs& a, std::span<const Tensor> in) {
        const Tensor p = a.pvals ? from_vector(*a.pvals) : in[0];
        if (p.ndim() != 1) raise<ShapeError>("probabilities have shape {}, but a vector is needed", p.shape());
        if (a.n < 0) raise<AttrError>("n is {}, but it cannot be negative", a.n);
        Shape shape = a.size.value_or(Shape{});
        const int64_t results = shape.elements(), outcomes = p.extent(0);
        shape.push_back(outcomes);
        if (a.n == 0) return call("_zeros", {}, {{"shape", shape}, {"dtype", DType::int64}});
        const Tensor draws = call("_sample_multinomial", {p}, {{"shape", Shape{results, a.n}}});
        const Tensor counts = call("sum", {call("one_hot", {draws}, {{"depth", outcomes}, {"dtype", DType::int64}})}, {{"axis", Shape{1}}});
        return reshaped(counts, shape);
      })
      .not_differentiable("it draws counts")
      .sample({uniform_sample({3}, 0.1, 1)}, {.n = 5})
      .sample({}, {.n = 4, .pvals = Floats{0.5, 0.5}, .size = Shape{2}});
}

struct ChoiceAttrs {
  std::optional<int64_t> a;
  std::optional<Shape> size;
  std::string ctx;
  bool replace = true, weighted = false;
  static void fields(AttrFields<ChoiceAttrs>& f) {
    f.field("a", &ChoiceAttrs::a, "how many there are to choose from; None for as many as the input has rows")
        .field("size", &ChoiceAttrs::size, "shape of the result; None for one")
        .field("ctx", &ChoiceAttrs::ctx, "device as MXNet's files name it; has no effect")
        .field("replace", &ChoiceAttrs::replace, "whether one can be chosen twice")
        .field("weighted", &ChoiceAttrs::weighted, "whether probabilities are given");
  }
};
GLUINO_OP(_npi_choice, ChoiceAttrs) {
  composed(
      op.doc("Draws places of elements, with probabilities where they are given.")
          .input("input1")
          .own_dtype()
          .present_if([](const ChoiceAttrs& a) { return !a.a; })
          .input("input2")
          .present_if([](const ChoiceAttrs& a) { return a.weighted; })
          .dtypes(DTypeSet::any)
          .random()
          .dtype([](const ChoiceAttrs&, std::span<const DType>, DType) { return DType::int64; }),
      [](const ChoiceAttrs& a, std::span<const Tensor> in) -> Tensor {
        const Shape shape = a.size.value_or(Shape{});
        if (!a.a && in[0].ndim() == 0) throw ShapeError("there is nothing to choose from: the input is a scalar");
        const int64_t count = shape.elements(), known = a.a ? *a.a : in[0].extent(0);
        if (known < 1) raise<AttrError>("there is nothing to choose from: a is {}", known);
        if (!a.replace && count > known) raise<AttrError>("{} different elements cannot be drawn from {}", count, known);
        if (a.weighted && !(in.back().shape() == Shape{known}))
          raise<ShapeError>("probabilities of shape {} for {} elements", in.back().shape(), known);
        if (a.weighted && a.replace)
          return reshaped(call("_sample_multinomial", {as_real(in.back())}, {{"shape", Shape{count}}, {"dtype", DType::int64}}), shape);
        if (a.replace)
          return reshaped(
              call("_random_randint", {}, {{"low", int64_t{0}}, {"high", known}, {"shape", Shape{count}}, {"dtype", DType::int64}}), shape);
        // The first of all, ordered by exponential draws over the probabilities (Efraimidis and Spirakis, 2006).
        const Tensor draws = call("_random_exponential", {}, {{"shape", Shape{known}}});
        const Tensor keys = a.weighted ? draws / as_dtype(in.back(), DType::float32) : draws;
        return reshaped(slice_of(call("argsort", {keys}, {{"dtype", DType::int64}}), 0, 0, count), shape);
      })
      .not_differentiable("it draws places")
      .sample({}, {.a = 5, .size = Shape{2, 2}})
      .sample({{4, 2}, uniform_sample({4}, 0.1, 1)}, {.size = Shape{3}, .replace = false, .weighted = true});
}

}  // namespace
}  // namespace gluino::ops
