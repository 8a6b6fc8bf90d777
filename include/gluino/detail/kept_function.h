// How definitions keep the functions that they are made of. There are thousands, each kept once, so that what counts is how long they take
// to compile: a lambda without captures is kept as a pointer, and all of one signature share the inside of std::function.
#pragma once
#include <functional>
#include <type_traits>
#include <utility>

// Code that runs once, when the library starts: it is made small and is not inlined.
#define GLUINO_ONCE [[gnu::cold, gnu::noinline]]

namespace gluino::detail {

template <class R, class... Given>
GLUINO_ONCE void keep_pointer(std::function<R(Given...)>& to, R (*f)(Given...)) {
  to = f;
}

// adapter(f, given...), where the adapter is a lambda without captures.
template <class R, class... Given, class F, class Adapter>
GLUINO_ONCE void keep(std::function<R(Given...)>& to, F f, Adapter) {
  if constexpr (std::is_empty_v<F> && std::is_default_constructible_v<F>)
    keep_pointer(
        to, +[](Given... given) -> R { return Adapter{}(F{}, std::forward<Given>(given)...); });
  else
    to = [f](Given... given) -> R { return Adapter{}(f, std::forward<Given>(given)...); };
}

}  // namespace gluino::detail
