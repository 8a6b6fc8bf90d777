// How optimizer steps become operators: a rule for one element is run over one weight, or over many weights in one sweep.
#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "base/parallel.h"
#include "ops/nets.h"

namespace gluino::ops {

inline constexpr const char* kNoGradient = "an optimizer's step is not differentiated";

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

// Every weight has a rate and a decay of its own; the other attributes are those of the step on one weight.
template <class A>
struct Many : A {
  Floats lrs, wds;
  int64_t num_weights = 1;
  A of(size_t weight) const {
    A one = *this;
    one.lr = lrs[weight];
    one.wd = wds[weight];
    return one;
  }
  // Takes the place of AttrFields<A>.
  struct Others {
    AttrFields<Many>& fields;
    template <class M>
    Others& field(const std::string& name, M A::*member, const std::string& doc) {
      const bool is_listed = name == "lr" || name == "wd", is_without_effect = name == "lazy_update";
      if (!is_listed && !is_without_effect) fields.field(name, static_cast<M Many::*>(member), doc);
      return *this;
    }
    template <class M>
    Others& required(const std::string& name, M A::*member, const std::string& doc) {
      return field(name, member, doc);
    }
  };
  static void fields(AttrFields<Many>& f) {
    f.required("lrs", &Many::lrs, "learning rate of each weight").required("wds", &Many::wds, "weight decay of each weight");
    Others others{f};
    A::fields(others);
    f.field("num_weights", &Many::num_weights, "number of weights");
  }
};

// The tensors of one weight: itself, its gradient, its states and the master copy, all in the dtype of the computation.
template <size_t States>
struct Group {
  static constexpr int size(bool has_master) { return 2 + static_cast<int>(States) + has_master; }
  Tensor weight, grad, out;
  std::array<Tensor, States> states;

  Group(KernelContext& k, int number, bool has_master) : first_(number * size(has_master)), number_(number), has_master_(has_master) {
    weight = has_master ? k.state(first_ + size(true) - 1) : k.in(first_);
    const DType dtype = weight.dtype() == DType::float64 ? DType::float64 : DType::float32;
    weight = with_dtype(weight, dtype);
    grad = with_dtype(k.in(first_ + 1), dtype);
    for (size_t i = 0; i < States; ++i) states[i] = with_dtype(k.state(first_ + 2 + static_cast<int>(i)), dtype);
    out = has_master ? weight : k.out(number).dtype() == dtype ? k.out(number) : make_tensor(weight.shape(), dtype, weight.device());
  }
  // Brings what was converted to where the caller has it.
  void store(KernelContext& k) const {
    const auto bring = [](const Tensor& from, Tensor to) {
      if (!to.is_same(from)) from.copy_to(to);
    };
    for (size_t i = 0; i < States; ++i) bring(states[i], k.state(first_ + 2 + static_cast<int>(i)));
    if (has_master_) bring(out, k.state(first_ + size(true) - 1));
    bring(out, k.out(number_));
  }
  template <class T, class Rule>
  Piece<T, States, Rule> piece(const Rule& rule) {
    std::array<T*, States> data;
    for (size_t i = 0; i < States; ++i) data[i] = states[i].template mutable_data<T>();
    return {weight.size(), weight.data<T>(), grad.data<T>(), data, out.mutable_data<T>(), rule};
  }

 private:
  int first_, number_;
  bool has_master_;
};

template <size_t States, class A, class Make>
void run_updates(const Many<A>& a, KernelContext& k, bool has_master, const Make& make) {
  std::vector<Group<States>> groups;
  for (int w = 0; w < a.num_weights; ++w) groups.emplace_back(k, w, has_master);
  for (const DType dtype : real_dtypes())
    visit_real(dtype, [&]<class T>(T*) {
      std::vector<Piece<T, States, decltype(make(a.of(0), T()))>> pieces;
      for (size_t w = 0; w < groups.size(); ++w)
        if (groups[w].weight.dtype() == dtype) pieces.push_back(groups[w].template piece<T>(make(a.of(w), T())));
      update_pieces(pieces);
    });
  for (const auto& group : groups) group.store(k);
}

// For each weight the inputs are those of the step on one weight.
template <size_t States, class A, class Make>
void define_updates(OpBuilder<Many<A>>& op, bool has_master, Make make, Many<A> sample = {}) {
  constexpr auto group_size = &Group<States>::size;
  op.variadic("data")
      .own_dtype()
      .num_outputs([](const Many<A>& a) { return a.num_weights; })
      .not_differentiable(kNoGradient)
      .shape([has_master](const Many<A>& a, std::span<const Shape> in) {
        const auto n = static_cast<size_t>(a.num_weights), size = static_cast<size_t>(group_size(has_master));
        if (in.size() != n * size)
          raise<UserError>("{} inputs were given, but {} per weight are needed for num_weights = {}", in.size(), size, n);
        if (a.lrs.size() != n || a.wds.size() != n)
          raise<AttrError>("there are {} lrs and {} wds for num_weights = {}", a.lrs.size(), a.wds.size(), n);
        std::vector<Shape> out;
        for (size_t i = 0; i < in.size(); ++i) {
          const Shape& weight = in[i / size * size];
          if (!(in[i] == weight)) raise<ShapeError>("inputs of a weight of shape {} have its shape, but one has {}", weight, in[i]);
          if (i % size == 0) out.push_back(weight);
        }
        return out;
      })
      .dtype([has_master](const Many<A>& a, std::span<const DType> in, DType) {
        std::vector<DType> out;
        for (int i = 0; i < a.num_weights; ++i) out.push_back(in[static_cast<size_t>(i * group_size(has_master))]);
        return out;
      })
      .kernel([make, has_master](const Many<A>& a, KernelContext& k) { run_updates<States>(a, k, has_master, make); });
  std::vector<SampleInput> inputs;
  for (int w = 0; w < 2; ++w)
    for (int i = 0; i < group_size(has_master); ++i) inputs.push_back(i < 2 ? SampleInput{2 + w, 3} : uniform_sample({2 + w, 3}, 0.5, 0.7));
  sample.lrs = {0.1, 0.2};
  sample.wds = {0, 0.1};
  sample.num_weights = 2;
  op.sample(inputs, sample);
}

}  // namespace gluino::ops
