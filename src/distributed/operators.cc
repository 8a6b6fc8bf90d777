// The collectives as operators. Each is a linear function of what all ranks give it, so its gradient is another one.
#include <cstring>

#include "base/format.h"
#include "dispatch/compiler_rules.h"
#include "distributed/collectives.h"
#include "tensor/impl.h"

namespace gluino::distributed {
namespace {

struct ReduceAttrs {
  Reduce how = Reduce::sum;
  static void fields(AttrFields<ReduceAttrs>& f) {
    f.choice("how", &ReduceAttrs::how, {"sum", "mean", "max", "min"}, "how the values of the ranks are combined");
  }
};
constexpr const char* kHowNames[] = {"sum", "mean", "max", "min"};

struct RootAttrs {
  int64_t root = 0;
  static void fields(AttrFields<RootAttrs>& f) { f.field("root", &RootAttrs::root, "the rank that gives, or gets, the value"); }
};

int root_of(const RootAttrs& a) {
  if (a.root < 0 || a.root >= size()) raise<AttrError>("root is {}, but the ranks are 0 to {}", a.root, size() - 1);
  return static_cast<int>(a.root);
}

void require_rows(std::span<const Shape> in) {
  if (in[0].ndim() == 0) throw ShapeError("the input is a single number; at least one axis is needed, for instance by reshape({1})");
}

// work(engine, from, to) on the memory of the input and of the result, in its turn among the collectives; alone there are no turns.
template <class Work>
void run_collective(KernelContext& k, const std::string& name, const Work& work) {
  Engine& engine = Engine::get();
  const char* from = bytes_of(k.in(0));
  char* to = bytes_of(k.out());
  if (engine.size() == 1) return work(engine, from, to);
  engine.run(fmt::format("{} of {} {}", name, k.in(0).dtype(), k.in(0).shape()), [&] { work(engine, from, to); });
}

// An operator whose kernel is a collective: all ranks must come to it, and in the same order.
template <class A>
OpBuilder<A>& collective(OpBuilder<A>& op, std::string doc) {
  for_compiler(op).effect();
  return op.doc(std::move(doc)).input("data");
}

GLUINO_OP(_distributed_all_reduce, ReduceAttrs) {
  collective(op, "The values of all ranks combined, on every rank; 16-bit floats are added up in float32.")
      .same_shape()
      .dtypes(DTypeSet::numeric)
      .kernel([](const ReduceAttrs& a, KernelContext& k) {
        run_collective(
            k, fmt::format("all_reduce ({})", kHowNames[static_cast<int>(a.how)]),
            [&](Engine& engine, const char* from, char* to) { all_reduce_now(engine, from, to, k.in(0).size(), k.in(0).dtype(), a.how); });
      })
      .gradient({},
                [](const ReduceAttrs& a, const Gradient& g) -> Tensors {
                  if (a.how != Reduce::sum && a.how != Reduce::mean)
                    raise<UserError>("the {} over ranks has no gradient; sum and mean have", kHowNames[static_cast<int>(a.how)]);
                  return {call("_distributed_all_reduce", {g.head()}, {{"how", kHowNames[static_cast<int>(a.how)]}})};
                })
      .sample({{3, 4}})
      .sample({{2, 3}}, {.how = Reduce::mean})
      .sample_without_gradient({{5}}, {.how = Reduce::sum});
}

GLUINO_OP(_distributed_all_gather, NoAttrs) {
  collective(op, "The values of all ranks one after the other along axis 0, on every rank.")
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        require_rows(in);
        Shape out = in[0];
        out[0] *= size();
        return out;
      })
      .kernel([](const NoAttrs&, KernelContext& k) {
        run_collective(k, "all_gather",
                       [&](Engine& engine, const char* from, char* to) { all_gather_now(engine, from, to, k.in(0).nbytes()); });
      })
      .gradient({}, [](const Gradient& g) -> Tensors { return {call("_distributed_reduce_scatter", {g.head()})}; })
      .sample({{3, 4}});
}

GLUINO_OP(_distributed_reduce_scatter, NoAttrs) {
  collective(op, "Of the sum over all ranks, this rank's part along axis 0; 16-bit floats are added up in float32.")
      .dtypes(DTypeSet::numeric)
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        require_rows(in);
        if (in[0][0] % size() != 0)
          raise<ShapeError>("the input has shape {}: {} rows cannot be dealt out evenly to {} ranks", in[0], in[0][0], size());
        Shape out = in[0];
        out[0] /= size();
        return out;
      })
      .kernel([](const NoAttrs&, KernelContext& k) {
        run_collective(k, "reduce_scatter", [&](Engine& engine, const char* from, char* to) {
          reduce_scatter_now(engine, from, to, k.in(0).size(), k.in(0).dtype(), Reduce::sum);
        });
      })
      .gradient({}, [](const Gradient& g) -> Tensors { return {call("_distributed_all_gather", {g.head()})}; })
      .sample({{3, 4}});
}

GLUINO_OP(_distributed_broadcast, RootAttrs) {
  collective(op, "The value of rank root, on every rank.")
      .same_shape()
      .dtypes(DTypeSet::any)
      .refuses_values()  // the number of ranks is known when they run
      .kernel([](const RootAttrs& a, KernelContext& k) {
        const int root = root_of(a);
        run_collective(k, fmt::format("broadcast (from rank {})", root), [&](Engine& engine, const char* from, char* to) {
          if (engine.rank() == root && from != to) std::memcpy(to, from, static_cast<size_t>(k.in(0).nbytes()));
          if (engine.size() > 1) broadcast_now(engine, to, k.in(0).nbytes(), root);
        });
      })
      .gradient({},
                [](const RootAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_distributed_reduce", {g.head()}, {{"root", a.root}})};
                })
      .sample({{3, 4}});
}

GLUINO_OP(_distributed_reduce, RootAttrs) {
  collective(op, "The sum over all ranks on rank root, zeros on the others; 16-bit floats are added up in float32.")
      .same_shape()
      .dtypes(DTypeSet::numeric)
      .refuses_values()  // the number of ranks is known when they run
      .kernel([](const RootAttrs& a, KernelContext& k) {
        const int root = root_of(a);
        run_collective(k, fmt::format("reduce (to rank {})", root), [&](Engine& engine, const char* from, char* to) {
          all_reduce_now(engine, from, to, k.in(0).size(), k.in(0).dtype(), Reduce::sum);
          if (engine.rank() != root) std::memset(to, 0, static_cast<size_t>(k.in(0).nbytes()));
        });
      })
      .gradient({},
                [](const RootAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_distributed_broadcast", {g.head()}, {{"root", a.root}})};
                })
      .sample({{3, 4}});
}

}  // namespace
}  // namespace gluino::distributed
