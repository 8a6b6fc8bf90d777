// LAPACK for a template's element type T: LAPACK(potrf, ...) is LAPACKE_spotrf or LAPACKE_dpotrf. It has locks of its own.
#pragma once
#include <lapacke.h>

#include <cstdint>
#include <type_traits>

#include "base/fork.h"

#define LAPACK(name, ...)                   \
  [&] {                                     \
    const NoForkScope no_fork;              \
    if constexpr (std::is_same_v<T, float>) \
      return LAPACKE_s##name(__VA_ARGS__);  \
    else                                    \
      return LAPACKE_d##name(__VA_ARGS__);  \
  }()

namespace gluino::ops {

inline lapack_int as_int(int64_t n) { return static_cast<lapack_int>(n); }

}  // namespace gluino::ops
