// Structure: how hybrid() takes arguments and results apart into tensors and the rest, and puts them together again.
#pragma once
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "gluino/tensor.h"

namespace gluino::detail {

// flatten: appends the tensors of a value to `out`, and to `key` all that is no tensor, such that two values have equal keys exactly when
// they differ in their tensors alone. restore: the value `like` with its tensors taken from `flat`.
template <class T, class Enable = void>
struct Structure {
  static_assert(!sizeof(T*),
                "hybrid() takes and returns tensors, numbers, texts, enumerations, and pairs, tuples, arrays, vectors, maps, optionals and "
                "variants of them; a struct of yours lists its members: auto members() { return std::tie(a, b); }");
};

// Bytes of a fixed or announced length, so that no two keys can run into each other.
inline void append_bytes(std::string& key, const void* data, size_t size) { key.append(static_cast<const char*>(data), size); }
inline void append_size(std::string& key, size_t size) { append_bytes(key, &size, sizeof size); }

template <>
struct Structure<Tensor> {
  static void flatten(const Tensor& t, Tensors& out, std::string& key) {
    key += t.defined() ? 't' : 'n';
    out.push_back(t);
  }
  static Tensor restore(const Tensors& flat, size_t& at, const Tensor&) { return flat[at++]; }
};
// Numbers are part of the signature, bit by bit: another value is another program. A number that changes at every call is better a Tensor.
template <class T>
struct Structure<T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>> {
  static void flatten(const T& v, Tensors&, std::string& key) {
    if constexpr (std::is_same_v<T, long double>) {  // its bytes hold padding
      const double high = static_cast<double>(v), low = static_cast<double>(v - high);
      append_bytes(key, &high, sizeof high);
      append_bytes(key, &low, sizeof low);
    } else {
      append_bytes(key, &v, sizeof v);
    }
  }
  static T restore(const Tensors&, size_t&, const T& like) { return like; }
};
template <>
struct Structure<std::string> {
  static void flatten(const std::string& v, Tensors&, std::string& key) {
    append_size(key, v.size());
    key += v;
  }
  static std::string restore(const Tensors&, size_t&, const std::string& like) { return like; }
};
template <>
struct Structure<Shape> {
  static void flatten(const Shape& v, Tensors&, std::string& key) {
    append_size(key, static_cast<size_t>(v.ndim()));
    for (int64_t extent : v) append_bytes(key, &extent, sizeof extent);
  }
  static Shape restore(const Tensors&, size_t&, const Shape& like) { return like; }
};

template <class T>
struct Structure<std::vector<T>> {
  static void flatten(const std::vector<T>& v, Tensors& out, std::string& key) {
    append_size(key, v.size());
    for (const T& e : v) Structure<T>::flatten(e, out, key);
  }
  static std::vector<T> restore(const Tensors& flat, size_t& at, const std::vector<T>& like) {
    std::vector<T> v;
    for (const T& e : like) v.push_back(Structure<T>::restore(flat, at, e));
    return v;
  }
};
template <class T, size_t N>
struct Structure<std::array<T, N>> {
  static void flatten(const std::array<T, N>& v, Tensors& out, std::string& key) {
    for (const T& e : v) Structure<T>::flatten(e, out, key);
  }
  static std::array<T, N> restore(const Tensors& flat, size_t& at, const std::array<T, N>& like) {
    std::array<T, N> v;
    for (size_t i = 0; i < N; ++i) v[i] = Structure<T>::restore(flat, at, like[i]);
    return v;
  }
};
template <class K, class V>
struct Structure<std::map<K, V>> {
  static void flatten(const std::map<K, V>& v, Tensors& out, std::string& key) {
    append_size(key, v.size());
    for (const auto& [name, value] : v) {
      Structure<K>::flatten(name, out, key);
      Structure<V>::flatten(value, out, key);
    }
  }
  static std::map<K, V> restore(const Tensors& flat, size_t& at, const std::map<K, V>& like) {
    std::map<K, V> v;
    for (const auto& [name, value] : like) v.emplace(Structure<K>::restore(flat, at, name), Structure<V>::restore(flat, at, value));
    return v;
  }
};
template <class... T>
struct Structure<std::tuple<T...>> {
  static void flatten(const std::tuple<T...>& v, Tensors& out, std::string& key) {
    std::apply([&](const T&... e) { (Structure<T>::flatten(e, out, key), ...); }, v);
  }
  static std::tuple<T...> restore(const Tensors& flat, size_t& at, const std::tuple<T...>& like) {
    return std::apply([&](const T&... e) { return std::tuple<T...>{Structure<T>::restore(flat, at, e)...}; }, like);
  }
};
template <class A, class B>
struct Structure<std::pair<A, B>> {
  static void flatten(const std::pair<A, B>& v, Tensors& out, std::string& key) {
    Structure<A>::flatten(v.first, out, key);
    Structure<B>::flatten(v.second, out, key);
  }
  static std::pair<A, B> restore(const Tensors& flat, size_t& at, const std::pair<A, B>& like) {
    A a = Structure<A>::restore(flat, at, like.first);
    return {std::move(a), Structure<B>::restore(flat, at, like.second)};
  }
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
template <class... T>
struct Structure<std::variant<T...>> {
  static void flatten(const std::variant<T...>& v, Tensors& out, std::string& key) {
    append_size(key, v.index());
    std::visit([&](const auto& e) { Structure<std::decay_t<decltype(e)>>::flatten(e, out, key); }, v);
  }
  static std::variant<T...> restore(const Tensors& flat, size_t& at, const std::variant<T...>& like) {
    return std::visit([&](const auto& e) -> std::variant<T...> { return Structure<std::decay_t<decltype(e)>>::restore(flat, at, e); },
                      like);
  }
};

// A struct or class that lists its members.
template <class T>
struct Structure<T, std::void_t<decltype(std::declval<T&>().members())>> {
  static void flatten(const T& v, Tensors& out, std::string& key) {
    std::apply([&](auto&... m) { (Structure<std::decay_t<decltype(m)>>::flatten(m, out, key), ...); }, const_cast<T&>(v).members());
  }
  static T restore(const Tensors& flat, size_t& at, const T& like) {
    T made = like;
    std::apply([&](auto&... m) { ((m = Structure<std::decay_t<decltype(m)>>::restore(flat, at, m)), ...); }, made.members());
    return made;
  }
};

// Result and arguments of one function, whatever it is a member of.
template <class F>
struct PlainSignature;
#define GLUINO_SIGNATURE(Function)                    \
  template <class C, class R, class... A>             \
  struct PlainSignature<Function> {                   \
    using Result = R;                                 \
    using Arguments = std::tuple<std::decay_t<A>...>; \
  };
GLUINO_SIGNATURE(R (C::*)(A...))
GLUINO_SIGNATURE(R (C::*)(A...) const)
GLUINO_SIGNATURE(R (C::*)(A...) noexcept)
GLUINO_SIGNATURE(R (C::*)(A...) const noexcept)
#undef GLUINO_SIGNATURE

// Of what hybrid() is given.
template <class F, class Enable = void>
struct Signature {
  static_assert(!std::is_member_pointer_v<F>, "hybrid() of a method needs its object: hybrid([&](const Tensor& x) { return net.run(x); })");
  static_assert(std::is_class_v<F> || std::is_member_pointer_v<F>, "hybrid() is for functions, lambdas and objects that can be called");
  static_assert(
      !std::is_class_v<F>,
      "hybrid() must know the types of the arguments: write them out where a lambda has auto, and give it one operator() to call");
  using Result = Tensor;  // the sentences above are enough: what follows is not to fail too
  using Arguments = std::tuple<Tensor>;
};
template <class F>
struct Signature<F, std::void_t<decltype(&F::operator())>> : PlainSignature<decltype(&F::operator())> {};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  using Arguments = std::tuple<std::decay_t<A>...>;
};
template <class R, class... A>
struct Signature<R (*)(A...) noexcept> : Signature<R (*)(A...)> {};

// Whether a function can be called with values of these types, which are nobody else's.
template <class F, class Arguments>
inline constexpr bool takes_values = false;
template <class F, class... A>
inline constexpr bool takes_values<F, std::tuple<A...>> = std::is_invocable_v<F&, A...>;

// Whether all of these can be taken apart: asked where a function is declared, so that the compiler's answer names the place.
template <class Arguments>
inline constexpr bool have_structure = false;
template <class... A>
inline constexpr bool have_structure<std::tuple<A...>> = ((sizeof(Structure<A>) > 0) && ...);

// Results as they are kept between calls: x[i] is a Tensor too, and nothing is a tuple of nothing.
template <class R>
using KeptResult = std::conditional_t<std::is_void_v<R>, std::tuple<>,
                                      std::conditional_t<std::is_base_of_v<Tensor, std::decay_t<R>>, Tensor, std::decay_t<R>>>;

}  // namespace gluino::detail
