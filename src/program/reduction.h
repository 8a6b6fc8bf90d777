// The kinds of reductions, as operators, row programs and compiled loops name them.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// How elements are mapped and combined, and what is done to the result; divide: by the number of elements reduced. The one list of both.
#define GLUINO_REDUCE_OPS(X) X(sum) X(sum_abs) X(sum_square) X(nansum) X(prod) X(nanprod) X(max) X(min)
#define GLUINO_REDUCE_FINISHES(X) X(none) X(divide) X(sqrt)
#define GLUINO_X(name) name,
enum class ReduceOp : uint8_t { GLUINO_REDUCE_OPS(GLUINO_X) };
enum class ReduceFinish : uint8_t { GLUINO_REDUCE_FINISHES(GLUINO_X) };
#undef GLUINO_X
#define GLUINO_X(name) #name,
inline constexpr const char* kReduceNames[] = {GLUINO_REDUCE_OPS(GLUINO_X)};
inline constexpr const char* kFinishNames[] = {GLUINO_REDUCE_FINISHES(GLUINO_X)};
#undef GLUINO_X
inline const char* name(ReduceOp op) { return kReduceNames[static_cast<int>(op)]; }
inline const char* name(ReduceFinish finish) { return kFinishNames[static_cast<int>(finish)]; }
inline constexpr int kReduceOps = sizeof(kReduceNames) / sizeof(*kReduceNames);
inline constexpr int64_t kReduceBlock = 2048;  // sums are carried on in double after so many elements
inline constexpr int64_t kWidenedBlock = 512;  // the same for arrays of 16-bit floats, which are widened block by block

}  // namespace gluino::kernels
