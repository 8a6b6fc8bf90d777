// hybrid(): turns a function over Tensors into a compiled one, as hybridize() does with a block.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "gluino/detail/structure.h"
#include "gluino/symbol.h"

namespace gluino {

struct HybridOptions {
  bool static_alloc = false;    // keep the arena between calls instead of giving it back to the pool
  bool static_shape = false;    // promise that shapes never change: a second set of shapes is refused
  int inline_limit = 2;         // accepted for MXNet's sake; calls are always inlined into one graph
  int forward_bulk_size = 15;   // accepted for MXNet's sake; a plan is always one bulk
  int backward_bulk_size = 15;  // accepted for MXNet's sake
  bool verify = false;          // run both ways, compare, and name the first operator that differs
  bool strict = false;          // refuse to read a value while tracing instead of splitting the program
  int max_plans = 0;            // plans kept for different shapes; the least recently used goes first. 0: as many as 256 MB hold
};

// What a HybridCache has done so far.
struct HybridStats {
  int64_t calls = 0;
  int64_t traces = 0;  // times the user's function ran to be recorded
  int64_t plans = 0;   // plans made, one per set of shapes
  int64_t segments = 0;
};

class HybridCache {
 public:
  // What a run of the function gave. `rest` is all that is no tensor (numbers, nesting, labels); every call that a trace answers gets the
  // `rest` of that trace, so it must hold no tensors.
  struct Result {
    Tensors tensors;
    std::shared_ptr<const void> rest;
  };
  using Function = std::function<Result(const Tensors&)>;
  // `name_of` names captured tensors (parameters) in graphs; it may return "".
  using NameOf = std::function<std::string(const Tensor&)>;
  explicit HybridCache(HybridOptions options = {}, NameOf name_of = {});
  ~HybridCache();
  HybridCache(HybridCache&&) noexcept;
  HybridCache& operator=(HybridCache&&) noexcept;

  // Runs `function` on `inputs` (null tensors stand for absent ones): traced at the first call for a signature,
  // compiled afterwards. `structure` says what else the function depends on (scalars, nesting). `destinations`: tensors whose memory a
  // compiled program may use for its results, in their order, null where it may not; it does where a result has memory of its own that
  // fits. They share no memory with each other, the inputs, or anything else the function reads.
  Result call(const Function& function, const Tensors& inputs, const std::string& structure = "",
              std::span<const Tensor> destinations = {});
  void clear();
  const HybridOptions& options() const;
  HybridStats stats() const;

  // The whole program as one graph, and the tensors that it captured, by their names; raises UserError when it reads values and so is
  // several. Nothing where nothing is compiled.
  struct Traced {
    Symbol symbol;
    std::vector<std::pair<std::string, Tensor>> captured;
  };
  std::optional<Traced> traced() const;
  Symbol symbol() const;  // that graph; raises UserError where there is none
  // Graphs before and after, guards, memory, time of each stage. `html`: a file to write the same to as a page for a browser, which shows
  // what became of each operator; then the program must be one graph.
  std::string explain(const std::string& html = "", const std::string& title = "") const;
  std::string memory_plan() const;                 // of the most recent plan
  Tensor captured(const std::string& name) const;  // a tensor that the traced program read, by its name; null if none
  Symbol graph_before() const;
  Symbol graph_after() const;
  std::string svg_before() const;  // pictures of the two, with shapes
  std::string svg_after() const;
  struct Memory {
    int64_t planned, unplanned;  // bytes of intermediate values, with and without sharing
  };
  Memory memory() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// ---- plain functions

namespace detail {
// f(arguments...), run by call(function, tensors, structure): as HybridCache runs functions over tensors.
template <class R, class Arguments, class F, class Call>
KeptResult<R> call_structured(const Arguments& arguments, F& f, Call&& call) {
  using Kept = KeptResult<R>;
  Tensors flat;
  std::string key;
  Structure<Arguments>::flatten(arguments, flat, key);
  const HybridCache::Result result = call(
      [&](const Tensors& traced) {
        size_t at = 0;
        Kept made;
        if constexpr (std::is_void_v<R>)
          std::apply(f, Structure<Arguments>::restore(traced, at, arguments));
        else
          made = std::apply(f, Structure<Arguments>::restore(traced, at, arguments));
        HybridCache::Result out;
        std::string ignored;
        Structure<Kept>::flatten(made, out.tensors, ignored);
        at = 0;
        out.rest = std::make_shared<const Kept>(Structure<Kept>::restore(Tensors(out.tensors.size()), at, made));
        return out;
      },
      flat, key);
  size_t at = 0;
  return Structure<Kept>::restore(result.tensors, at, *static_cast<const Kept*>(result.rest.get()));
}
}  // namespace detail

template <class F>
class HybridFunction {
 public:
  using Arguments = typename detail::Signature<F>::Arguments;
  using Returned = typename detail::Signature<F>::Result;
  using Result = std::conditional_t<std::is_void_v<Returned>, void, detail::KeptResult<Returned>>;
  static_assert(detail::takes_values<F, Arguments>,
                "the function of hybrid() takes a reference that it could change: let it take a value or a const reference");
  static_assert(detail::have_structure<Arguments> && detail::have_structure<std::tuple<detail::KeptResult<Returned>>>);

  HybridFunction(F f, HybridOptions options) : f_(std::move(f)), cache_(std::make_shared<HybridCache>(options)) {}

  template <class... A>
  Result operator()(A&&... args) const {
    const auto call = [this](const auto& function, const Tensors& inputs, const std::string& structure) {
      return cache_->call(function, inputs, structure);
    };
    return static_cast<Result>(detail::call_structured<Returned>(Arguments(std::forward<A>(args)...), f_, call));
  }
  HybridCache& cache() const { return *cache_; }
  std::string explain(const std::string& html = "") const { return cache_->explain(html); }

 private:
  mutable F f_;  // a lambda with state is called as it is
  std::shared_ptr<HybridCache> cache_;
};

// auto f = hybrid([](const Tensor& a, const Tensor& b) { return a * b + 1; });
template <class F>
HybridFunction<std::decay_t<F>> hybrid(F&& f, HybridOptions options = {}) {
  return {std::forward<F>(f), options};
}

}  // namespace gluino
