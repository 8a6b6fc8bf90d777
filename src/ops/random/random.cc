// Random tensors: with one set of parameters, of the shape of another tensor, or with parameters per element.
#include "gluino/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "base/parallel.h"
#include "kernels/isa/philox.h"
#include "kernels/isa/primitives.h"
#include "ops/common.h"
#include "ops/random/distributions.h"

namespace gluino::ops {
namespace {

static constexpr const char* kRandom = "draws random numbers";

static Shape random_shape(const Shape& s) {
  for (int64_t e : s)
    if (e < 0) raise<ShapeError>("a tensor cannot have shape {}", s);
  return s.empty() ? Shape{1} : s;
}
// out[i] = f(i, generator of element i)
template <class F>
static void fill(Tensor& out, F&& f) {
  const RandomStream stream = next_random_stream(out.device());
  visit_dtype(out.dtype(), [&]<class T>(T*) {
    T* data = out.mutable_data<T>();
    parallel_for(out.size(), kParallelGrain / 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ElementRandom random(stream, i);
        data[i] = element<T>(f(i, random));
      }
    });
  });
}
// The same numbers where every element needs one block of words at most, many at a time: f(words, values, n) gives n elements.
constexpr int64_t kTogether = 256;
template <class V, int64_t words_each, class T, class F>
static void fill_together(const RandomStream& stream, T* data, int64_t n, F&& f) {
  constexpr int64_t each = 4 / words_each;  // elements of a block
  parallel_for((n + each - 1) / each, kParallelGrain / 16, [&](int64_t begin, int64_t end) {
    std::array<uint32_t, 4 * kTogether> words;
    std::array<V, each * kTogether> values;
    for (int64_t b = begin; b < end; b += kTogether) {
      const int64_t blocks = std::min(kTogether, end - b), count = std::min(each * blocks, n - each * b);
      kernels::philox_table().words(stream.seed, stream.stream, static_cast<uint64_t>(b), blocks, words.data());
      f(words.data(), values.data(), each * blocks);
      for (int64_t i = 0; i < count; ++i) {
        if constexpr (std::is_integral_v<V> && std::is_integral_v<T>)
          data[each * b + i] = static_cast<T>(values[i]);
        else
          data[each * b + i] = element<T>(static_cast<double>(values[i]));
      }
    }
  });
}
// Elements in float32 from one word each.
template <class T, class F>
static void fill_floats(const RandomStream& stream, T* data, int64_t n, F&& f) {
  fill_together<float, 1>(stream, data, n, f);
}
// Elements in float64, from the two uniform numbers that ElementRandom would give: f(first, second, values, n).
template <class F>
static void fill_doubles(Tensor& out, F&& f) {
  const RandomStream stream = next_random_stream(out.device());
  visit_dtype(out.dtype(), [&]<class T>(T*) {
    fill_together<double, 4>(stream, out.mutable_data<T>(), out.size(), [&](const uint32_t* w, double* values, int64_t n) {
      std::array<double, kTogether> first, second;
      for (int64_t i = 0; i < n; ++i) first[i] = unit_double(w[4 * i], w[4 * i + 1]);
      for (int64_t i = 0; i < n; ++i) second[i] = unit_double(w[4 * i + 2], w[4 * i + 3]);
      f(first.data(), second.data(), values, n);
    });
  });
}
template <class T>
static void apply_function(ScalarFn fn, T* x, int64_t n) {
  const auto type = static_cast<size_t>(sizeof(T) == 4 ? ComputeType::f32 : ComputeType::f64);
  kernels::primitives().scalar[static_cast<int>(fn)][type](x, nullptr, nullptr, x, n);
}

// Elements whose parameters are those of their neighbours too: parameters(i) are those of elements from i * each on.
template <class D, class F>
static void fill_runs(Tensor& out, int64_t each, F&& parameters) {
  const RandomStream stream = next_random_stream(out.device());
  visit_dtype(out.dtype(), [&]<class T>(T*) {
    T* data = out.mutable_data<T>();
    parallel_for(out.size(), kParallelGrain / 16, [&](int64_t begin, int64_t end) {
      std::array<double, Neighbours::kMost> numbers;
      for (int64_t i = begin, n; i < end; i += n) {
        n = std::min({Neighbours::kMost, end - i, each - i % each});
        const auto [a, b] = parameters(i / each);
        D::draw_many(a, b, {stream, i, n}, numbers.data());
        for (int64_t k = 0; k < n; ++k) data[i + k] = element<T>(numbers[k]);
      }
    });
  });
}
template <class D>
constexpr bool draws_many = requires {
  D::draw_many;
};
// Elements with these parameters each; fewer than so many neighbours would have most of their work done for others.
constexpr int64_t kLeastRun = 16;
template <class D, class F>
static void fill_each(Tensor& out, int64_t each, F&& parameters) {
  if constexpr (draws_many<D>)
    if (each >= kLeastRun) return fill_runs<D>(out, each, parameters);
  fill(out, [&](int64_t i, ElementRandom& r) {
    const auto [a, b] = parameters(i / each);
    if constexpr (requires { D::draw(a, b, r); })
      return D::draw(a, b, r);
    else
      return D::draw(a, r);
  });
}

template <class D>
static void fill_distribution(Tensor& out, double a, double b) {
  fill_each<D>(out, std::max<int64_t>(out.size(), 1), [&](int64_t) { return std::pair(a, b); });
}
template <>
void fill_distribution<Uniform>(Tensor& out, double low, double high) {
  if (out.dtype() == DType::float64)
    return fill_doubles(out, [&](const double* u, const double*, double* v, int64_t n) {
      for (int64_t i = 0; i < n; ++i) v[i] = low + (high - low) * u[i];
    });
  const RandomStream stream = next_random_stream(out.device());
  const auto first = static_cast<float>(low), width = static_cast<float>(high - low);
  visit_dtype(out.dtype(), [&]<class T>(T*) {
    fill_floats(stream, out.mutable_data<T>(), out.size(), [&](const uint32_t* w, float* v, int64_t n) {
      for (int64_t i = 0; i < n; ++i) v[i] = first + width * unit_float(w[i]);
    });
  });
}
// By Box and Muller: of float32 two from two words.
template <>
void fill_distribution<Normal>(Tensor& out, double mean, double deviation) {
  if (out.dtype() == DType::float64)
    return fill_doubles(out, [&](const double* u, const double* angle, double* v, int64_t n) {
      std::array<double, kTogether> cosine;
      for (int64_t i = 0; i < n; ++i) v[i] = 1 - u[i];
      for (int64_t i = 0; i < n; ++i) cosine[i] = 2 * std::numbers::pi * angle[i];
      apply_function(ScalarFn::log, v, n);
      apply_function(ScalarFn::cos, cosine.data(), n);
      for (int64_t i = 0; i < n; ++i) v[i] = mean + deviation * std::sqrt(-2 * v[i]) * cosine[i];
    });
  const RandomStream stream = next_random_stream(out.device());
  const auto m = static_cast<float>(mean), s = static_cast<float>(deviation);
  visit_dtype(out.dtype(), [&]<class T>(T*) {
    fill_floats(stream, out.mutable_data<T>(), out.size(), [&](const uint32_t* w, float* v, int64_t n) {
      std::array<float, 2 * kTogether> radius, sine, cosine;
      const int64_t pairs = n / 2;
      for (int64_t i = 0; i < pairs; ++i) radius[i] = (static_cast<float>(w[2 * i]) + 1) * 0x1p-32f;
      for (int64_t i = 0; i < pairs; ++i) sine[i] = unit_float(w[2 * i + 1]) * (2 * std::numbers::pi_v<float>);
      std::copy_n(sine.data(), pairs, cosine.data());
      apply_function(ScalarFn::log, radius.data(), pairs);
      apply_function(ScalarFn::sin, sine.data(), pairs);
      apply_function(ScalarFn::cos, cosine.data(), pairs);
      for (int64_t i = 0; i < pairs; ++i) {
        const float length = std::sqrt(-2 * radius[i]);
        v[2 * i] = m + s * length * cosine[i];
        v[2 * i + 1] = m + s * length * sine[i];
      }
    });
  });
}
template <>
void fill_distribution<Exponential>(Tensor& out, double rate, double) {
  fill_doubles(out, [&](const double* u, const double*, double* v, int64_t n) {
    for (int64_t i = 0; i < n; ++i) v[i] = 1 - u[i];
    apply_function(ScalarFn::log, v, n);
    for (int64_t i = 0; i < n; ++i) v[i] = -v[i] / rate;
  });
}

// ---- one definition per distribution gives its three operators
// For each: the parameters' names and defaults. A distribution with one parameter leaves `second` empty.
struct Parameters {
  const char *first, *first_doc, *second, *second_doc;
};
template <class D>
struct Traits;
#define TRAITS(D, p1, doc1, default1, p2, doc2, default2)        \
  template <>                                                    \
  struct Traits<D> {                                             \
    static constexpr Parameters names{p1, doc1, p2, doc2};       \
    static constexpr double first = default1, second = default2; \
  };
TRAITS(Uniform, "low", "least value", 0, "high", "end, not included", 1)
TRAITS(Normal, "loc", "mean", 0, "scale", "standard deviation", 1)
TRAITS(Gamma, "alpha", "shape of the distribution", 1, "beta", "scale of the distribution", 1)
TRAITS(Exponential, "lam", "rate: one over the mean", 1, "", "", 0)
TRAITS(Poisson, "lam", "mean", 1, "", "", 0)
TRAITS(NegativeBinomial, "k", "number of failures to stop at", 1, "p", "probability of a failure", 1)
TRAITS(GeneralizedNegativeBinomial, "mu", "mean", 1, "alpha", "dispersion", 1)
#undef TRAITS

template <class D>
struct RandomAttrs {
  double first = Traits<D>::first, second = Traits<D>::second;
  Shape shape;
  std::optional<DType> dtype;
  std::string ctx;
  static void fields(AttrFields<RandomAttrs>& f) {
    f.field(Traits<D>::names.first, &RandomAttrs::first, Traits<D>::names.first_doc);
    if (*Traits<D>::names.second) f.field(Traits<D>::names.second, &RandomAttrs::second, Traits<D>::names.second_doc);
    f.field("shape", &RandomAttrs::shape, "shape of the result; () for one number")
        .field("dtype", &RandomAttrs::dtype, "dtype of the result; None for float32")
        .field("ctx", &RandomAttrs::ctx, "device as MXNet's files name it; has no effect");
  }
};
template <class D>
static void define_random(OpBuilder<RandomAttrs<D>>& op) {
  using A = RandomAttrs<D>;
  op.random()
      .dtypes(DTypeSet::any)
      .shape([](const A& a, std::span<const Shape>) { return random_shape(a.shape); })
      .dtype([](const A& a, std::span<const DType>, DType) { return a.dtype.value_or(DType::float32); })
      .kernel([](const A& a, KernelContext& k) { fill_distribution<D>(k.out(), a.first, a.second); })
      .not_differentiable(kRandom)
      .sample({}, {.shape = {3, 5}});
}
template <class D>
struct RandomLikeAttrs {
  double first = Traits<D>::first, second = Traits<D>::second;
  static void fields(AttrFields<RandomLikeAttrs>& f) {
    f.field(Traits<D>::names.first, &RandomLikeAttrs::first, Traits<D>::names.first_doc);
    if (*Traits<D>::names.second) f.field(Traits<D>::names.second, &RandomLikeAttrs::second, Traits<D>::names.second_doc);
  }
};
template <class D>
static void define_random_like(OpBuilder<RandomLikeAttrs<D>>& op) {
  using A = RandomLikeAttrs<D>;
  op.random()
      .input("data")
      .shape_only()
      .same_shape()
      .kernel([](const A& a, KernelContext& k) { fill_distribution<D>(k.out(), a.first, a.second); })
      .not_differentiable(kRandom)
      .sample({{3, 5}});
}
struct SampleAttrs {
  Shape shape;
  std::optional<DType> dtype;
  static void fields(AttrFields<SampleAttrs>& f) {
    f.field("shape", &SampleAttrs::shape, "how many numbers per parameter; () for one")
        .field("dtype", &SampleAttrs::dtype, "dtype of the result; None for that of the parameters");
  }
};
// The parameters of element i of the result are those at i / (numbers per parameter).
template <class D>
static void define_sample(OpBuilder<SampleAttrs>& op, std::vector<std::string> inputs) {
  for (const std::string& name : inputs) op.input(name);
  op.random()
      .shape([](const SampleAttrs& a, std::span<const Shape> in) {
        for (const Shape& s : in)
          if (!(s == in[0])) raise<ShapeError>("the parameters have shapes {} and {}: they must be the same", in[0], s);
        Shape out = in[0];
        for (int64_t e : a.shape) out.push_back(e);
        return out;
      })
      .dtype([](const SampleAttrs& a, std::span<const DType>, DType promoted) { return a.dtype.value_or(promoted); })
      .kernel([](const SampleAttrs& a, KernelContext& k) {
        const int64_t each = a.shape.elements();
        const Tensor first = with_dtype(k.in(0), DType::float64), second = with_dtype(k.in(k.num_inputs() - 1), DType::float64);
        const double *x = first.data<double>(), *y = second.data<double>();
        fill_each<D>(k.out(), each, [&](int64_t i) { return std::pair(x[i], y[i]); });
      })
      .not_differentiable(kRandom);
  std::vector<SampleInput> parameters;
  for (size_t i = 0; i < inputs.size(); ++i)
    parameters.push_back(uniform_sample({3}, 0.2 + 0.4 * static_cast<double>(i), 0.6 + 0.4 * static_cast<double>(i)));
  op.sample(parameters, {.shape = {4}}).sample(parameters);
}

#define DISTRIBUTION(D, name, text, old_alias, ...)                                                                                \
  GLUINO_OP(_random_##name, RandomAttrs<D>) { define_random<D>(op.doc(text).alias("random_" #name) old_alias); }                   \
  GLUINO_OP(_random_##name##_like, RandomLikeAttrs<D>) {                                                                           \
    define_random_like<D>(op.doc(text " The result has the shape of data.").alias("random_" #name "_like"));                       \
  }                                                                                                                                \
  GLUINO_OP(_sample_##name, SampleAttrs) {                                                                                         \
    define_sample<D>(op.doc(text " Each element of the parameters gives its own numbers.").alias("sample_" #name), {__VA_ARGS__}); \
  }
DISTRIBUTION(Uniform, uniform, "Random numbers spread evenly over [low, high).", .alias("uniform"), "low", "high")
DISTRIBUTION(Normal, normal, "Random numbers of a normal distribution.", .alias("normal"), "mu", "sigma")
DISTRIBUTION(Gamma, gamma, "Random numbers of a gamma distribution.", , "alpha", "beta")
DISTRIBUTION(Exponential, exponential, "Random numbers of an exponential distribution.", .alias("exponential"), "lam")
DISTRIBUTION(Poisson, poisson, "Random whole numbers of a Poisson distribution.", .alias("poisson"), "lam")
DISTRIBUTION(NegativeBinomial, negative_binomial, "Random whole numbers of a negative binomial distribution.", .alias("negative_binomial"),
             "k", "p")
DISTRIBUTION(GeneralizedNegativeBinomial, generalized_negative_binomial,
             "Random whole numbers of a negative binomial distribution given by mean and dispersion.",
             .alias("generalized_negative_binomial"), "mu", "alpha")

struct RandintAttrs {
  int64_t low = 0, high = 1;
  Shape shape;
  std::optional<DType> dtype;
  std::string ctx;
  static void fields(AttrFields<RandintAttrs>& f) {
    f.required("low", &RandintAttrs::low, "least value")
        .required("high", &RandintAttrs::high, "end, not included")
        .field("shape", &RandintAttrs::shape, "shape of the result; () for one number")
        .field("dtype", &RandintAttrs::dtype, "dtype of the result; None for int32")
        .field("ctx", &RandintAttrs::ctx, "device as MXNet's files name it; has no effect");
  }
};
GLUINO_OP(_random_randint, RandintAttrs) {
  op.doc("Random whole numbers spread evenly over [low, high).")
      .alias("random_randint", "randint")
      .random()
      .dtypes(DTypeSet::any)
      .shape([](const RandintAttrs& a, std::span<const Shape>) {
        if (a.low >= a.high) raise<AttrError>("there is no whole number in [{}, {})", a.low, a.high);
        return random_shape(a.shape);
      })
      .dtype([](const RandintAttrs& a, std::span<const DType>, DType) { return a.dtype.value_or(DType::int32); })
      .kernel([](const RandintAttrs& a, KernelContext& k) {
        const RandomStream stream = next_random_stream(k.out().device());
        const uint64_t count = static_cast<uint64_t>(a.high) - static_cast<uint64_t>(a.low);
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          fill_together<int64_t, 2>(stream, k.out_data<T>(), k.out().size(), [&](const uint32_t* w, int64_t* v, int64_t n) {
            // The high half of a product of 128 bits maps 64 random bits to [0, count) evenly enough.
            if (count >> 32 == 0) {  // it can be had from two products of 64
              for (int64_t i = 0; i < n; ++i)
                v[i] = static_cast<int64_t>(static_cast<uint64_t>(a.low) + ((w[2 * i] * count + (w[2 * i + 1] * count >> 32)) >> 32));
              return;
            }
            for (int64_t i = 0; i < n; ++i) {
              const uint64_t bits = (uint64_t{w[2 * i]} << 32) | w[2 * i + 1];
              const auto offset = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * count) >> 64);
              v[i] = static_cast<int64_t>(static_cast<uint64_t>(a.low) + offset);
            }
          });
        });
      })
      .not_differentiable(kRandom)
      .sample({}, {.low = -3, .high = 8, .shape = {3, 5}});
}

struct BernoulliAttrs {
  double prob = 0.5;
  Shape shape;
  std::optional<DType> dtype;
  static void fields(AttrFields<BernoulliAttrs>& f) {
    f.field("prob", &BernoulliAttrs::prob, "probability of a 1")
        .field("shape", &BernoulliAttrs::shape, "shape of the result; () for one number")
        .field("dtype", &BernoulliAttrs::dtype, "dtype of the result; None for float32");
  }
};
GLUINO_OP(_bernoulli, BernoulliAttrs) {
  op.doc("1 with a given probability, else 0.")
      .random()
      .dtypes(DTypeSet::any)
      .shape([](const BernoulliAttrs& a, std::span<const Shape>) { return random_shape(a.shape); })
      .dtype([](const BernoulliAttrs& a, std::span<const DType>, DType) { return a.dtype.value_or(DType::float32); })
      .kernel([](const BernoulliAttrs& a, KernelContext& k) {
        fill_doubles(k.out(), [&](const double* u, const double*, double* v, int64_t n) {
          for (int64_t i = 0; i < n; ++i) v[i] = u[i] < a.prob ? 1.0 : 0.0;
        });
      })
      .not_differentiable(kRandom)
      .sample({}, {.prob = 0.3, .shape = {3, 5}});
}

// ---- Dropout
enum class DropoutMode { training, always };
struct DropoutAttrs {
  double p = 0.5;
  DropoutMode mode = DropoutMode::training;
  Shape axes;
  static void fields(AttrFields<DropoutAttrs>& f) {
    f.field("p", &DropoutAttrs::p, "share of the elements that become 0")
        .choice("mode", &DropoutAttrs::mode, {"training", "always"}, "whether to drop only while training, or always")
        .field("axes", &DropoutAttrs::axes, "axes along which whole slices are dropped together");
  }
};
GLUINO_OP(Dropout, DropoutAttrs) {
  op.doc("Sets a random part of the elements to 0 while training and scales the others to keep the mean.")
      .input("data")
      .outputs({"output", "mask"})
      .ignores({"cudnn_off"})
      .random()
      .mode_dependent()
      .kernel_dtypes({DType::float32, DType::float64})
      .hidden_outputs(1)
      .inplace(0)
      .identity_if([](const DropoutAttrs& a, bool training) { return a.p == 0 || (a.mode == DropoutMode::training && !training); })
      .shape([](const DropoutAttrs& a, std::span<const Shape> in) {
        if (!(a.p >= 0 && a.p <= 1)) raise<AttrError>("attribute 'p' is {}, but a probability is needed", a.p);
        Shape mask = in[0];
        for (int64_t axis : a.axes) mask[normalize_axis(axis, in[0])] = 1;
        return std::vector<Shape>{in[0], mask};
      })
      .kernel([](const DropoutAttrs& a, KernelContext& k) {
        const bool drops = (k.training() || a.mode == DropoutMode::always) && a.p > 0;
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* mask = k.out_data<T>(1);
          if (!drops) {
            std::fill_n(mask, k.out(1).size(), T(1));
            if (k.data<T>(0) != k.out_data<T>(0)) std::copy_n(k.data<T>(0), k.out().size(), k.out_data<T>(0));
            return;
          }
          const auto keep = static_cast<float>(1 - a.p), scale = a.p < 1 ? static_cast<float>(1 / (1 - a.p)) : 0.0f;
          const auto limit = static_cast<int32_t>(std::ceil(keep * 0x1p24f));
          const auto kept = std::bit_cast<uint32_t>(scale);
          fill_floats(of_this_rank(next_random_stream(k.out().device())), mask, k.out(1).size(),
                      [&](const uint32_t* w, float* v, int64_t n) {
                        // unit_float(w) < keep, as whole numbers and without a branch, which nobody could foresee.
                        for (int64_t i = 0; i < n; ++i)
                          v[i] = std::bit_cast<float>(kept & (0 - static_cast<uint32_t>(static_cast<int32_t>(w[i] >> 8) < limit)));
                      });
        });
        if (!drops) return;
        const Tensor in[] = {k.in(0), k.out(1)};
        apply_into(OpRegistry::global().get("broadcast_mul"), in, nullptr, {&k.out(0), 1});
      })
      .gradient({{}, {1}}, [](const Gradient& g) -> Tensors { return {g.head() * g.out(1)}; })
      .sample({{4, 5}})
      .sample({{4, 5}}, {.p = 0.3, .mode = DropoutMode::always, .axes = {1}});
}

}  // namespace

void fill_normal(Tensor& out, double mean, double deviation) { fill_distribution<Normal>(out, mean, deviation); }

}  // namespace gluino::ops
