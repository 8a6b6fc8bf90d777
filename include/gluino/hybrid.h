// hybrid(): turns a function over Tensors into a compiled one, as hybridize() does with a block.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>

#include "gluino/symbol.h"
#include "gluino/tensor.h"

namespace gluino {

struct HybridOptions {
  bool static_alloc = false;    // keep the arena between calls instead of giving it back to the pool
  bool static_shape = false;    // promise that shapes never change: a second set of shapes is refused
  int inline_limit = 2;         // accepted for MXNet's sake; calls are always inlined into one graph
  int forward_bulk_size = 15;   // accepted for MXNet's sake; a plan is always one bulk
  int backward_bulk_size = 15;  // accepted for MXNet's sake
  bool verify = false;          // run both ways, compare, and name the first operator that differs
  bool strict = false;          // refuse to read a value while tracing instead of splitting the program
  int max_plans = 32;           // plans kept for different shapes; the least recently used goes first
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
  using Function = std::function<Tensors(const Tensors&)>;
  // `name_of` names captured tensors (parameters) in graphs; it may return "".
  using NameOf = std::function<std::string(const Tensor&)>;
  explicit HybridCache(HybridOptions options = {}, NameOf name_of = {});
  ~HybridCache();
  HybridCache(HybridCache&&) noexcept;
  HybridCache& operator=(HybridCache&&) noexcept;

  // Runs `function` on `inputs` (null tensors stand for absent ones): traced at the first call for a signature,
  // compiled afterwards. `structure` says what else the function depends on (scalars, nesting).
  Tensors call(const Function& function, const Tensors& inputs, const std::string& structure = "");
  void clear();
  const HybridOptions& options() const;
  HybridStats stats() const;

  // The whole program as one graph; raises UserError when it reads values and so is several.
  Symbol symbol() const;
  std::string explain() const;                     // graphs before and after, guards, memory, time of each stage
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

// Flattens arguments and results of any structure into Tensors and back.
template <class T>
struct Structure;
template <>
struct Structure<Tensor> {
  static void flatten(const Tensor& t, Tensors& out, std::string& key) {
    key += t.defined() ? 't' : 'n';
    out.push_back(t);
  }
  static Tensor restore(const Tensors& flat, size_t& at, const Tensor&) { return flat[at++]; }
};
template <class T>
struct Structure<std::vector<T>> {
  static void flatten(const std::vector<T>& v, Tensors& out, std::string& key) {
    key += '[';
    for (const T& e : v) Structure<T>::flatten(e, out, key);
    key += ']';
  }
  static std::vector<T> restore(const Tensors& flat, size_t& at, const std::vector<T>& like) {
    std::vector<T> v;
    for (const T& e : like) v.push_back(Structure<T>::restore(flat, at, e));
    return v;
  }
};
template <class... T>
struct Structure<std::tuple<T...>> {
  static void flatten(const std::tuple<T...>& v, Tensors& out, std::string& key) {
    key += '(';
    std::apply([&](const T&... e) { (Structure<T>::flatten(e, out, key), ...); }, v);
    key += ')';
  }
  static std::tuple<T...> restore(const Tensors& flat, size_t& at, const std::tuple<T...>& like) {
    return std::apply([&](const T&... e) { return std::tuple<T...>{Structure<T>::restore(flat, at, e)...}; }, like);
  }
};
template <class A, class B>
struct Structure<std::pair<A, B>> {
  static void flatten(const std::pair<A, B>& v, Tensors& out, std::string& key) {
    key += '(';
    Structure<A>::flatten(v.first, out, key);
    Structure<B>::flatten(v.second, out, key);
    key += ')';
  }
  static std::pair<A, B> restore(const Tensors& flat, size_t& at, const std::pair<A, B>& like) {
    A a = Structure<A>::restore(flat, at, like.first);
    return {std::move(a), Structure<B>::restore(flat, at, like.second)};
  }
};
// Numbers and texts are part of the signature: another value is another program.
template <class T>
requires std::is_arithmetic_v<T>
struct Structure<T> {
  static void flatten(const T& v, Tensors&, std::string& key) { key += '#' + std::to_string(v) + ';'; }
  static T restore(const Tensors&, size_t&, const T& like) { return like; }
};
template <>
struct Structure<std::string> {
  static void flatten(const std::string& v, Tensors&, std::string& key) { key += '"' + v + '"'; }
  static std::string restore(const Tensors&, size_t&, const std::string& like) { return like; }
};
template <class T>
struct Structure<std::optional<T>> {
  static void flatten(const std::optional<T>& v, Tensors& out, std::string& key) {
    key += v ? '?' : '-';
    if (v) Structure<T>::flatten(*v, out, key);
  }
  static std::optional<T> restore(const Tensors& flat, size_t& at, const std::optional<T>& like) {
    return like ? std::optional<T>(Structure<T>::restore(flat, at, *like)) : std::nullopt;
  }
};

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> {
  using Result = R;
  using Arguments = std::tuple<std::decay_t<A>...>;
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (C::*)(A...) const> {};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  using Arguments = std::tuple<std::decay_t<A>...>;
};

}  // namespace detail

template <class F>
class HybridFunction {
 public:
  using Arguments = typename detail::Signature<F>::Arguments;
  using Returned = std::decay_t<typename detail::Signature<F>::Result>;
  using Result = std::conditional_t<std::is_base_of_v<Tensor, Returned>, Tensor, Returned>;  // x[i] is a Tensor too

  HybridFunction(F f, HybridOptions options) : f_(std::move(f)), state_(std::make_shared<State>(options)) {}

  template <class... A>
  Result operator()(A&&... args) const {
    const Arguments arguments(std::forward<A>(args)...);
    Tensors flat;
    std::string key;
    detail::Structure<Arguments>::flatten(arguments, flat, key);
    const Tensors results = state_->cache.call(
        [&](const Tensors& traced) {
          size_t at = 0;
          const Arguments restored = detail::Structure<Arguments>::restore(traced, at, arguments);
          const Result result = std::apply(f_, restored);
          Tensors out;
          std::string result_key;
          detail::Structure<Result>::flatten(result, out, result_key);
          state_->remember(key, result);
          return out;
        },
        flat, key);
    size_t at = 0;
    return detail::Structure<Result>::restore(results, at, state_->result_like(key));
  }
  HybridCache& cache() const { return state_->cache; }
  std::string explain() const { return state_->cache.explain(); }

 private:
  // The shape of the result's nesting per argument structure, learnt when the function ran.
  struct State {
    explicit State(HybridOptions o) : cache(o) {}
    void remember(const std::string& key, const Result& r) {
      const std::lock_guard lock(mutex);
      results.insert_or_assign(key, r);
    }
    Result result_like(const std::string& key) {
      const std::lock_guard lock(mutex);
      return results.at(key);
    }
    HybridCache cache;
    std::mutex mutex;
    std::map<std::string, Result> results;
  };
  F f_;
  std::shared_ptr<State> state_;
};

// auto f = hybrid([](const Tensor& a, const Tensor& b) { return a * b + 1; });
template <class F>
HybridFunction<std::decay_t<F>> hybrid(F&& f, HybridOptions options = {}) {
  return {std::forward<F>(f), options};
}

}  // namespace gluino
