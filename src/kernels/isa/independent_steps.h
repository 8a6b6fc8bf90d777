// What a compiler cannot see of a loop: no step reads what another writes. It may be vector code even where the result is one of the
// operands.
#pragma once

#if defined(__clang__)
#define GLUINO_INDEPENDENT_STEPS _Pragma("clang loop vectorize(assume_safety)")
#else
#define GLUINO_INDEPENDENT_STEPS _Pragma("GCC ivdep")
#endif
