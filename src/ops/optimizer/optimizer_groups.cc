// Optimizer steps that look at whole tensors: LAMB, LARS.
#include <cmath>

#include "kernels/reduce/reduce.h"
#include "ops/optimizer/optimizer_steps.h"

namespace gluino::ops {

double norm_of(const Tensor& x) {
  constexpr bool kAll[] = {true};
  double norm = 0;
  kernels::reduce(kernels::ReduceOp::sum_square, kernels::ReduceFinish::sqrt, bytes_of(x), x.dtype(), Shape{x.size()}, kAll, &norm,
                  DType::float64);
  return norm;
}

namespace {

// ---- LAMB
struct LambPhase1Attrs {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, wd = 0, rescale_grad = 1, clip_gradient = -1;
  int64_t t = 1;
  bool bias_correction = true;
  template <class Fields>
  static void fields(Fields& f) {
    f.AVERAGES(LambPhase1Attrs)
        .STEP_NUMBER(LambPhase1Attrs)
        .field("bias_correction", &LambPhase1Attrs::bias_correction, "correct mean and variance for their start at 0")
        .required("wd", &LambPhase1Attrs::wd, "weight decay")
        .RESCALED_GRADIENT(LambPhase1Attrs);
  }
};
static auto lamb_direction = [](const LambPhase1Attrs& a, auto zero) {
  using T = decltype(zero);
  const auto correction = [&](double beta) { return static_cast<T>(a.bias_correction ? 1 - std::pow(beta, static_cast<double>(a.t)) : 1); };
  return [wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), b1 = static_cast<T>(a.beta1), b2 = static_cast<T>(a.beta2),
          eps = static_cast<T>(a.epsilon), c1 = correction(a.beta1), c2 = correction(a.beta2),
          clip = Clip<T>(a.clip_gradient)](T w, T g, T& mean, T& var) {
    const T d = clip(scale * g);
    mean = b1 * mean + (1 - b1) * d;
    var = b2 * var + (1 - b2) * d * d;
    return mean / c1 / (std::sqrt(var / c2) + eps) + wd * w;
  };
};
static void lamb_phase1_kernel(const LambPhase1Attrs& a, KernelContext& k) {
  Tensor mean = k.state(2), var = k.state(3);
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const auto rule = lamb_direction(a, T());
    using P = Piece<T, 2, std::remove_const_t<decltype(rule)>>;
    update_pieces(std::vector<P>{{k.out().size(),
                                  k.data<T>(k.num_inputs() == 5 ? 4 : 0),
                                  k.data<T>(1),
                                  {mean.mutable_data<T>(), var.mutable_data<T>()},
                                  k.out_data<T>(),
                                  rule}});
  });
}
static OpBuilder<LambPhase1Attrs>& define_phase1(OpBuilder<LambPhase1Attrs>& op) {
  return op.input("weight")
      .input("grad")
      .state("mean")
      .state("var")
      .kernel(lamb_phase1_kernel)
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .same_shape();
}
GLUINO_OP(lamb_update_phase1, LambPhase1Attrs) {
  define_phase1(op.doc("The direction of a LAMB step."))
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.wd = 0.1, .t = 2});
}
GLUINO_OP(mp_lamb_update_phase1, LambPhase1Attrs) {
  define_phase1(op.doc("The direction of a LAMB step, from a float32 copy of the weight."))
      .state("weight32")
      .dtype([](const LambPhase1Attrs&, std::span<const DType> in, DType) {
        if (in[1] == DType::float64 && in[2] != in[1]) raise<DTypeError>("the gradient is {}, but mean is {}", in[1], in[2]);
        for (int i : {3, 4})
          if (in[i] != in[2]) raise<DTypeError>("mean is {}, but input {} is {}; they must be the same", in[2], i, in[i]);
        return in[2];
      })
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1), {3, 4}}, {.wd = 0.1, .t = 2});
}

#define NORM_BOUNDS(A)                                                                 \
  field("lower_bound", &A::lower_bound, "least norm of the weight; negative for none") \
      .field("upper_bound", &A::upper_bound, "largest norm of the weight; negative for none")
struct LambPhase2Attrs {
  double lr = 0, lower_bound = -1, upper_bound = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(LambPhase2Attrs).NORM_BOUNDS(LambPhase2Attrs);
  }
};
// The rate of a weight with norm r1 along a direction with norm r2.
template <class A>
static double lamb_rate(const A& a, double r1, double r2) {
  if (a.lower_bound >= 0) r1 = std::max(r1, a.lower_bound);
  if (a.upper_bound >= 0) r1 = std::min(r1, a.upper_bound);
  return r1 == 0 || r2 == 0 ? a.lr : a.lr * r1 / r2;
}
static auto along = [](double rate, auto zero) {
  using T = decltype(zero);
  return [rate = static_cast<T>(rate)](T w, T direction) { return w - rate * direction; };
};
static void lamb_phase2_kernel(const LambPhase2Attrs& a, KernelContext& k) {
  const double rate = lamb_rate(a, k.in(2).item<double>(), k.in(3).item<double>());
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const auto rule = along(rate, T());
    using P = Piece<T, 0, std::remove_const_t<decltype(rule)>>;
    const bool has_master = k.num_inputs() == 5;
    Tensor master = has_master ? k.state(4) : Tensor();
    const T* weight = has_master ? master.data<T>() : k.data<T>(0);
    T *out = k.out_data<T>(), *target = has_master ? master.mutable_data<T>() : out;
    update_pieces(std::vector<P>{{k.out().size(), weight, k.data<T>(1), {}, target, rule}});
    if (has_master) std::copy_n(target, k.out().size(), out);
  });
}
static OpBuilder<LambPhase2Attrs>& define_phase2(OpBuilder<LambPhase2Attrs>& op) {
  return op.input("weight")
      .input("g")
      .input("r1")
      .own_dtype()
      .input("r2")
      .own_dtype()
      .kernel(lamb_phase2_kernel)
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .shape([](const LambPhase2Attrs&, std::span<const Shape> in) {
        check_same_shape("g", in[1], in[0]);
        check_one_element("r1", in[2]);
        check_one_element("r2", in[3]);
        if (in.size() > 4) check_same_shape("weight32", in[4], in[0]);
        return in[0];
      });
}
GLUINO_OP(lamb_update_phase2, LambPhase2Attrs) {
  define_phase2(op.doc("A LAMB step along g, scaled by the ratio of the norms r1 and r2."))
      .sample({{3, 4}, {3, 4}, uniform_sample({1}, 1, 2), uniform_sample({1}, 1, 2)}, {.lr = 0.1});
}
GLUINO_OP(mp_lamb_update_phase2, LambPhase2Attrs) {
  define_phase2(op.doc("A LAMB step on a float32 copy of the weight."))
      .state("weight32")
      .dtype([](const LambPhase2Attrs&, std::span<const DType> in, DType) {
        if ((in[0] == DType::float64 || in[1] == DType::float64) != (in[4] == DType::float64))
          raise<DTypeError>("the weight is {} and g {}, but weight32 is {}; float64 goes with float64 alone", in[0], in[1], in[4]);
        return in[0];
      })
      .sample({{3, 4}, {3, 4}, uniform_sample({1}, 1, 2), uniform_sample({1}, 1, 2), {3, 4}}, {.lr = 0.1});
}

struct LambAttrs : LambPhase1Attrs {
  double lr = 0, lower_bound = -1, upper_bound = -1;
  template <class Fields>
  static void fields(Fields& f) {
    LambPhase1Attrs::fields(f);
    RATE(LambAttrs).NORM_BOUNDS(LambAttrs);
  }
};
// of(number of a weight) gives its attributes.
template <class Of>
static void lamb_sweeps(Groups<2>& groups, const Of& of) {
  Groups<2> directed = groups;
  for (Group<2>& g : directed) g.out = make_tensor(g.weight.shape(), g.weight.dtype(), g.weight.device());
  sweep(directed, [&](size_t w, auto zero) { return lamb_direction(of(w), zero); });
  Groups<0> moved;
  std::vector<double> rates;
  for (const Group<2>& g : directed) {
    rates.push_back(lamb_rate(of(moved.size()), norm_of(g.weight), norm_of(g.out)));
    moved.push_back({g.weight, g.out, groups[moved.size()].out, {}});
  }
  sweep(moved, [&](size_t w, auto zero) { return along(rates[w], zero); });
}
GLUINO_OP(_multi_lamb_step, Many<LambAttrs>) {
  op.doc("LAMB on many weights that are at the same step: inputs are (weight, grad, mean, var) for each.");
  define_updates_by<2>(op, false, [](const Many<LambAttrs>& a, Groups<2>& groups, std::span<const Tensor>) {
    lamb_sweeps(groups, [&](size_t w) { return a.of(w); });
  });
}
struct MultiLambAttrs : LambAttrs {
  Floats learning_rates, wds;
  Shape step_count;
  int64_t num_tensors = 1;
  int64_t count() const { return num_tensors; }
  LambAttrs of(size_t weight) const {
    LambAttrs one = *this;
    one.lr = learning_rates[weight], one.wd = wds[weight], one.t = step_count[static_cast<int>(weight)];
    return one;
  }
  void check_lists() const {
    check_list("learning_rates", learning_rates, num_tensors);
    check_list("wds", wds, num_tensors);
    if (step_count.size() != num_tensors) raise<AttrError>("there are {} step_count for num_tensors = {}", step_count.size(), num_tensors);
  }
  static void fields(AttrFields<MultiLambAttrs>& f) {
    const auto common = []<class T, class B>(T B::*member) { return static_cast<T MultiLambAttrs::*>(member); };
    f.required("learning_rates", &MultiLambAttrs::learning_rates, "learning rate of each weight")
        .field("beta1", common(&LambAttrs::beta1), "how much of the mean is kept")
        .field("beta2", common(&LambAttrs::beta2), "how much of the variance is kept")
        .field("epsilon", common(&LambAttrs::epsilon), "added to the standard deviation")
        .required("wds", &MultiLambAttrs::wds, "weight decay of each weight")
        .field("rescale_grad", common(&LambAttrs::rescale_grad), "factor of the gradients")
        .field("lower_bound", common(&LambAttrs::lower_bound), "least norm of the weight; negative for none")
        .field("upper_bound", common(&LambAttrs::upper_bound), "largest norm of the weight; negative for none")
        .field("clip_gradient", common(&LambAttrs::clip_gradient), "bound of the gradients; negative for none")
        .field("bias_correction", common(&LambAttrs::bias_correction), "correct mean and variance for their start at 0")
        .required("step_count", &MultiLambAttrs::step_count, "number of this step of each weight, from 1 on")
        .field("num_tensors", &MultiLambAttrs::num_tensors, "number of weights");
  }
  static MultiLambAttrs sample() {
    MultiLambAttrs a;
    a.learning_rates = {0.1, 0.2}, a.wds = {0, 0.1}, a.step_count = {1, 2};
    a.num_tensors = 2;
    return a;
  }
  static std::vector<SampleInput> shared_inputs() { return {}; }
};
static OpBuilder<MultiLambAttrs>& define_multi_lamb(OpBuilder<MultiLambAttrs>& op, bool has_master) {
  return define_updates_by<2>(op, has_master, [](const MultiLambAttrs& a, Groups<2>& groups, std::span<const Tensor>) {
    lamb_sweeps(groups, [&](size_t w) { return a.of(w); });
  });
}
GLUINO_OP(_multi_lamb_update, MultiLambAttrs) {
  define_multi_lamb(op.doc("LAMB on many weights: inputs are (weight, grad, mean, var) for each."), false);
}
GLUINO_OP(_multi_mp_lamb_update, MultiLambAttrs) {
  define_multi_lamb(op.doc("LAMB on many weights: inputs are (weight, grad, mean, var, weight32) for each."), true);
}

// ---- AdaGrad by rows
struct GroupAdaGradAttrs {
  double lr = 0, rescale_grad = 1, clip_gradient = -1, epsilon = 1e-5;
  static void fields(AttrFields<GroupAdaGradAttrs>& f) {
    RATE(GroupAdaGradAttrs)
        .RESCALED_GRADIENT(GroupAdaGradAttrs)
        .field("epsilon", &GroupAdaGradAttrs::epsilon, "added to the history before its root is taken");
  }
};
GLUINO_OP(_contrib_group_adagrad_update, GroupAdaGradAttrs) {
  op.doc("AdaGrad with one history per row of the weight, the mean of the squares of its gradient; there is no weight decay.")
      .input("weight")
      .input("grad")
      .state("history")
      .shape([](const GroupAdaGradAttrs&, std::span<const Shape> in) {
        check_same_shape("grad", in[1], in[0]);
        if (in[0].ndim() == 0 || in[2].elements() != in[0][0])
          raise<ShapeError>("history has shape {}, but a weight of shape {} needs a number per row", in[2], in[0]);
        return in[0];
      })
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .inplace(0)
      .kernel([](const GroupAdaGradAttrs& a, KernelContext& k) {
        const int64_t rows = k.in(0).extent(0), size = rows ? k.in(0).size() / rows : 0;
        Tensor history = k.state(2);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T *weight = k.data<T>(0), *gradient = k.data<T>(1), lr = static_cast<T>(a.lr), scale = static_cast<T>(a.rescale_grad);
          T *out = k.out_data<T>(), *seen = history.mutable_data<T>();
          const Clip<T> clip(a.clip_gradient);
          parallel_for(rows, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(size, 1)), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
              const T *w = weight + row * size, *g = gradient + row * size;
              T squares = 0;
              for (int64_t i = 0; i < size; ++i) squares += clip(scale * g[i]) * clip(scale * g[i]);
              if (size) seen[row] += squares / static_cast<T>(size);
              const T rate = lr / std::sqrt(seen[row] + static_cast<T>(a.epsilon));
              for (int64_t i = 0; i < size; ++i) out[row * size + i] = w[i] - rate * clip(scale * g[i]);
            }
          });
        });
      })
      .sample({{3, 4}, {3, 4}, uniform_sample({3, 1}, 0.1, 1)}, {.lr = 0.1});
}

// ---- LARS
struct MultiLarsAttrs {
  double eta = 0, eps = 0, rescale_grad = 1;
  static void fields(AttrFields<MultiLarsAttrs>& f) {
    f.required("eta", &MultiLarsAttrs::eta, "trust in the ratio of the norms")
        .required("eps", &MultiLarsAttrs::eps, "added to the norm of the gradient")
        .field("rescale_grad", &MultiLarsAttrs::rescale_grad, "factor of the gradients");
  }
};
GLUINO_OP(multi_lars, MultiLarsAttrs) {
  op.doc("Learning rates of many weights by the ratio of the norms of weights and gradients.")
      .input("lrs")
      .input("weights_sum_sq")
      .input("grads_sum_sq")
      .input("wds")
      .same_shape()
      .kernel([](const MultiLarsAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) {
            const T weight = std::sqrt(k.data<T>(1)[i]), gradient = std::sqrt(k.data<T>(2)[i]) * static_cast<T>(a.rescale_grad);
            const bool both = weight > 0 && gradient > 0;
            k.out_data<T>()[i] =
                k.data<T>(0)[i] *
                (both ? static_cast<T>(a.eta) * weight / (gradient + k.data<T>(3)[i] * weight + static_cast<T>(a.eps)) : T(1));
          }
        });
      })
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .sample({uniform_sample({3}, 0.1, 1), uniform_sample({3}, 0.1, 1), uniform_sample({3}, 0.1, 1), uniform_sample({3}, 0, 0.1)},
              {.eta = 0.1, .eps = 1e-6});
}

// ---- many arrays
struct ResetArraysAttrs {
  int64_t num_arrays = 1;
  static void fields(AttrFields<ResetArraysAttrs>& f) { f.required("num_arrays", &ResetArraysAttrs::num_arrays, "number of inputs"); }
};
GLUINO_OP(reset_arrays, ResetArraysAttrs) {
  op.doc("Sets all inputs to zero; the output tells how many there were.")
      .variadic("data")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const ResetArraysAttrs&, std::span<const Shape>) { return Shape{1}; })
      .dtype([](const ResetArraysAttrs&, std::span<const DType>, DType) { return DType::int64; })
      .kernel([](const ResetArraysAttrs&, KernelContext& k) {
        for (int i = 0; i < k.num_inputs(); ++i) std::fill_n(bytes_of(k.state(i)), k.in(i).nbytes(), '\0');
        *k.out_data<int64_t>() = k.num_inputs();
      })
      .not_differentiable("it overwrites its inputs")
      .sample({{3, 4}, {2}}, {.num_arrays = 2});
}

}  // namespace
}  // namespace gluino::ops
