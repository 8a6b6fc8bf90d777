// How optimizer steps become operators: a rule for one element is run over one weight, or over many weights in one sweep.
#pragma once
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernels/isa/primitives.h"
#include "ops/nets.h"

namespace gluino::ops {

inline constexpr const char* kNoGradient = "an optimizer's step is not differentiated";

using Names1 = std::array<const char*, 1>;
using Names2 = std::array<const char*, 2>;
using Names3 = std::array<const char*, 3>;

// Keeps x within -bound and bound; a negative bound means none.
template <class T>
struct Clip {
  explicit Clip(double b) : bound(b < 0 ? std::numeric_limits<T>::infinity() : static_cast<T>(b)) {}
  T operator()(T x) const { return x > bound ? bound : x < -bound ? -bound : x; }
  T bound;
};

double norm_of(const Tensor& x);  // the root of the sum of squares, in double whatever the dtype

template <class T>
T sign_of(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

// Attributes stand in MXNet's order, because they may be given by position: the rate, what is the optimizer's own, the rest.
#define RATE(A) f.required("lr", &A::lr, "learning rate")
#define MOMENTUM(A) field("momentum", &A::momentum, "how much of the last step is kept")
#define AVERAGES(A)                                                  \
  field("beta1", &A::beta1, "how much of the mean is kept")          \
      .field("beta2", &A::beta2, "how much of the variance is kept") \
      .field("epsilon", &A::epsilon, "added to the standard deviation")
#define STEP_NUMBER(A) required("t", &A::t, "number of this step, from 1 on")
#define RESCALED_GRADIENT(A)                                        \
  field("rescale_grad", &A::rescale_grad, "factor of the gradient") \
      .field("clip_gradient", &A::clip_gradient, "bound of the gradient; negative for none")
#define LAZY_UPDATE(A) field("lazy_update", &A::lazy_update, "for gradients of few rows, which are dense here: no effect")
#define DECAY_AND_GRADIENT(A) field("wd", &A::wd, "weight decay").RESCALED_GRADIENT(A)

// One weight of a step: out[i] = rule(weight[i], gradient[i], states[0][i], ...), where the rule also updates the states.
template <class T, size_t States, class Rule>
struct Piece {
  int64_t size;
  const T *weight, *gradient;
  std::array<T*, States> states;
  T* out;
  Rule rule;
};
template <class T, size_t States, class Rule, size_t... I>
void update_range(const Piece<T, States, Rule>& piece, int64_t begin, int64_t end, std::index_sequence<I...>) {
  const T *weight = piece.weight, *gradient = piece.gradient;
  const std::array<T*, States> s = piece.states;
  (void)s;
  T* out = piece.out;
  const Rule rule = piece.rule;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) out[i] = rule(weight[i], gradient[i], s[I][i]...);
}
// The elements of all pieces, one piece after the other, are shared out to the threads.
template <class T, size_t States, class Rule>
void update_pieces(const std::vector<Piece<T, States, Rule>>& pieces) {
  std::vector<int64_t> ends;
  for (const auto& p : pieces) ends.push_back(p.size + (ends.empty() ? 0 : ends.back()));
  parallel_for(ends.empty() ? 0 : ends.back(), kParallelGrain, [&](int64_t begin, int64_t end) {
    for (auto n = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin()); begin < end; ++n) {
      const int64_t first = ends[n] - pieces[n].size, last = std::min(end, ends[n]);
      update_range(pieces[n], begin - first, last - first, std::make_index_sequence<States>());
      begin = last;
    }
  });
}

// make(attrs, T()) gives the rule of one element: (weight, gradient, states&...) -> new weight.
template <size_t States, class A, class Make>
void run_update(const A& a, KernelContext& k, bool has_master, const Make& make) {
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    std::array<T*, States> states;
    int input = 2;
    for (T*& state : states) state = k.state(input++).template mutable_data<T>();
    const auto rule = make(a, T());
    using P = Piece<T, States, std::remove_const_t<decltype(rule)>>;
    T* out = k.out_data<T>();
    if (!has_master) return update_pieces(std::vector<P>{{k.out().size(), k.data<T>(0), k.data<T>(1), states, out, rule}});
    Tensor master = k.state(k.num_inputs() - 1);
    T* weight = master.mutable_data<T>();
    update_pieces(std::vector<P>{{k.out().size(), weight, k.data<T>(1), states, weight, rule}});
    std::copy_n(weight, k.out().size(), out);
  });
}

// Inputs weight, grad and the named states; with a master copy the float32 weight comes last and is what is updated.
template <size_t States, class A, class Make>
OpBuilder<A>& define_update(OpBuilder<A>& op, const std::array<const char*, States>& names, bool has_master, Make make) {
  op.input("weight").input("grad");
  for (const char* name : names) op.state(name);
  if (has_master) op.state("weight32");
  return op.same_shape()
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .inplace(0)
      .kernel([make, has_master](const A& a, KernelContext& k) { run_update<States>(a, k, has_master, make); });
}

// ---- the same step on many weights in one call

// A step in which every weight has one more rate of its own, that of the gradient beside that of its mean.
template <class A>
concept HasGradientRate = requires(A a) {
  a.gradient_lr;
};

// Takes the place of AttrFields<M> where a step on one weight declares its attributes, and leaves out those that each of many weights has
// of its own.
template <class M>
struct CommonFields {
  AttrFields<M>& fields;
  template <class T, class B>
  CommonFields& field(const std::string& name, T B::*member, const std::string& doc) {
    const bool is_listed = name == "lr" || name == "wd" || name == "gradient_lr", is_without_effect = name == "lazy_update";
    if (!is_listed && !is_without_effect) fields.field(name, static_cast<T M::*>(member), doc);
    return *this;
  }
  template <class T, class B>
  CommonFields& required(const std::string& name, T B::*member, const std::string& doc) {
    return field(name, member, doc);
  }
};
inline void check_list(const char* name, const Floats& list, int64_t weights) {
  if (static_cast<int64_t>(list.size()) != weights) raise<AttrError>("there are {} {} for num_weights = {}", list.size(), name, weights);
}

// Every weight has a rate and a decay of its own; the other attributes are those of the step on one weight.
template <class A>
struct Many : A {
  Floats lrs, wds, gradient_lrs;
  int64_t num_weights = 1;
  int64_t count() const { return num_weights; }
  A of(size_t weight) const {
    A one = *this;
    one.lr = lrs[weight];
    one.wd = wds[weight];
    if constexpr (HasGradientRate<A>) one.gradient_lr = gradient_lrs[weight];
    return one;
  }
  void check_lists() const {
    check_list("lrs", lrs, num_weights);
    check_list("wds", wds, num_weights);
    if (HasGradientRate<A>) check_list("gradient_lrs", gradient_lrs, num_weights);
  }
  static void fields(AttrFields<Many>& f) {
    f.required("lrs", &Many::lrs, "learning rate of each weight").required("wds", &Many::wds, "weight decay of each weight");
    if (HasGradientRate<A>) f.required("gradient_lrs", &Many::gradient_lrs, "learning rate of each weight for its gradient itself");
    CommonFields<Many> others{f};
    A::fields(others);
    f.field("num_weights", &Many::num_weights, "number of weights");
  }
  static Many sample() {
    Many a;
    a.lrs = {0.1, 0.2};
    a.wds = {0, 0.1};
    if (HasGradientRate<A>) a.gradient_lrs = {0.05, 0.02};
    a.num_weights = 2;
    return a;
  }
  static std::vector<SampleInput> shared_inputs() { return {}; }
};

// The same with the rates and decays in two tensors, which are the last inputs.
template <class A>
struct Preloaded : A {
  int64_t num_weights = 1;
  int64_t count() const { return num_weights; }
  A of(size_t weight, std::span<const Tensor> shared) const {
    A one = *this;
    one.lr = with_dtype(shared[0], DType::float64).template data<double>()[weight];
    one.wd = with_dtype(shared[1], DType::float64).template data<double>()[weight];
    return one;
  }
  void check_lists() const {}
  static void fields(AttrFields<Preloaded>& f) {
    CommonFields<Preloaded> others{f};
    A::fields(others);
    f.field("num_weights", &Preloaded::num_weights, "number of weights");
  }
  static Preloaded sample() {
    Preloaded a;
    a.num_weights = 2;
    return a;
  }
  static std::vector<SampleInput> shared_inputs() { return {uniform_sample({2}, 0.1, 0.2), uniform_sample({2}, 0, 0.1)}; }
};

// The tensors of one weight, all in the dtype of the computation.
template <size_t States>
struct Group {
  Tensor weight, grad, out;
  std::array<Tensor, States> states;
  template <class T, class Rule>
  Piece<T, States, Rule> piece(const Rule& rule) {
    std::array<T*, States> data;
    for (size_t i = 0; i < States; ++i) data[i] = states[i].template mutable_data<T>();
    return {weight.size(), weight.data<T>(), grad.data<T>(), data, out.mutable_data<T>(), rule};
  }
};
template <size_t States>
using Groups = std::vector<Group<States>>;

// rule_of(number of the weight, T()) gives the rule of its elements.
template <size_t States, class RuleOf>
void sweep(Groups<States>& groups, const RuleOf& rule_of) {
  for (const DType dtype : real_dtypes())
    visit_real(dtype, [&]<class T>(T*) {
      std::vector<Piece<T, States, decltype(rule_of(size_t{0}, T()))>> pieces;
      for (size_t w = 0; w < groups.size(); ++w)
        if (groups[w].weight.dtype() == dtype) pieces.push_back(groups[w].template piece<T>(rule_of(w, T())));
      update_pieces(pieces);
    });
}

// Where the tensors of each weight stand among the inputs: itself, its gradient, its states and the master copy.
template <size_t States>
struct GroupLayout {
  bool has_master;
  int size() const { return 2 + static_cast<int>(States) + has_master; }

  Groups<States> gather(KernelContext& k, int64_t count) const {
    Groups<States> groups;
    for (int w = 0; w < count; ++w) {
      const int first = w * size();
      const Tensor weight = has_master ? k.state(first + size() - 1) : k.in(first);
      const DType dtype = weight.dtype() == DType::float64 ? DType::float64 : DType::float32;
      Group<States> g{with_dtype(weight, dtype), with_dtype(k.in(first + 1), dtype), {}, {}};
      for (size_t i = 0; i < States; ++i) g.states[i] = with_dtype(k.state(first + 2 + static_cast<int>(i)), dtype);
      g.out = has_master ? g.weight : k.out(w).dtype() == dtype ? k.out(w) : make_tensor(weight.shape(), dtype, weight.device());
      groups.push_back(std::move(g));
    }
    return groups;
  }
  // Brings what was converted to where the caller has it.
  void store(KernelContext& k, const Groups<States>& groups) const {
    const auto bring = [](const Tensor& from, const Tensor& to) {
      if (to.is_same(from)) return;
      kernels::convert(bytes_of(from), from.dtype(), bytes_of(to), to.dtype(), to.size());
      impl_of(to).storage->note_write();
    };
    for (int w = 0; w < static_cast<int>(groups.size()); ++w) {
      const Group<States>& g = groups[w];
      for (size_t i = 0; i < States; ++i) bring(g.states[i], k.state(w * size() + 2 + static_cast<int>(i)));
      if (has_master) bring(g.out, k.state(w * size() + size() - 1));
      bring(g.out, k.out(w));
    }
  }
};

// For each weight the inputs are those of the step on one weight; behind them come those that all share. run(attrs, groups, shared) updates
// them all, in one sweep or more.
template <size_t States, class M, class Run>
OpBuilder<M>& define_updates_by(OpBuilder<M>& op, bool has_master, Run run) {
  const GroupLayout<States> layout{has_master};
  const size_t size = static_cast<size_t>(layout.size()), shared = M::shared_inputs().size();
  const auto check_count = [size, shared](const M& a, size_t inputs) {
    const auto n = static_cast<size_t>(a.count());
    if (n > inputs || inputs != n * size + shared)
      raise<UserError>("{} inputs were given, but {} per weight{} are needed for num_weights = {}", inputs, size,
                       shared ? fmt::format(" and {} behind them", shared) : "", a.count());
  };
  op.variadic("data")
      .own_dtype()
      .num_outputs([](const M& a) { return a.count(); })
      .not_differentiable(kNoGradient)
      .shape([size, shared, check_count](const M& a, std::span<const Shape> in) {
        check_count(a, in.size());
        a.check_lists();
        std::vector<Shape> out;
        for (size_t i = 0; i + shared < in.size(); ++i) {
          const Shape& weight = in[i / size * size];
          if (!(in[i] == weight)) raise<ShapeError>("inputs of a weight of shape {} have its shape, but one has {}", weight, in[i]);
          if (i % size == 0) out.push_back(weight);
        }
        const std::vector<SampleInput> expected = M::shared_inputs();
        for (size_t i = 0; i < shared; ++i) {
          const Shape& given = in[in.size() - shared + i];
          const int64_t wanted = expected[i].shape.elements() == 1 ? 1 : a.count();
          if (given.elements() != wanted)
            raise<ShapeError>("the last {} inputs have {} element(s), but one has shape {}", shared, wanted, given);
        }
        return out;
      })
      .dtype([layout, check_count](const M& a, std::span<const DType> in, DType) {
        check_count(a, in.size());
        std::vector<DType> out;
        for (int i = 0; i < a.count(); ++i) out.push_back(in[i * layout.size()]);
        return out;
      })
      .kernel([layout, shared, run](const M& a, KernelContext& k) {
        Groups<States> groups = layout.gather(k, a.count());
        Tensors last;
        for (size_t i = 0; i < shared; ++i) last.push_back(k.in(k.num_inputs() - static_cast<int>(shared) + static_cast<int>(i)));
        run(a, groups, std::span<const Tensor>(last));
        layout.store(k, groups);
      });
  std::vector<SampleInput> inputs;
  for (int w = 0; w < 2; ++w)
    for (int i = 0; i < layout.size(); ++i) inputs.push_back(i < 2 ? SampleInput{2 + w, 3} : uniform_sample({2 + w, 3}, 0.5, 0.7));
  for (const SampleInput& s : M::shared_inputs()) inputs.push_back(s);
  return op.sample(inputs, M::sample());
}

// The rule of the step on one weight, in one sweep over all.
template <size_t States, class A, class Make>
OpBuilder<Many<A>>& define_updates(OpBuilder<Many<A>>& op, bool has_master, Make make) {
  return define_updates_by<States>(op, has_master, [make](const Many<A>& a, Groups<States>& groups, std::span<const Tensor>) {
    sweep(groups, [&](size_t w, auto zero) { return make(a.of(w), zero); });
  });
}
template <size_t States, class A, class Make>
OpBuilder<Preloaded<A>>& define_updates(OpBuilder<Preloaded<A>>& op, bool has_master, Make make) {
  return define_updates_by<States>(op, has_master, [make](const Preloaded<A>& a, Groups<States>& groups, std::span<const Tensor> rates) {
    sweep(groups, [&](size_t w, auto zero) { return make(a.of(w, rates), zero); });
  });
}

}  // namespace gluino::ops
