// How the operands of an elementwise program are read: axes that all of them walk in the same way are one.
#pragma once
#include <array>
#include <vector>

#include "kernels/elementwise/elementwise.h"

namespace gluino::kernels {

inline constexpr int64_t kElementBlock = 512;  // elements a register holds: stays in the first-level cache

// How an operand is read: `same` element for element, `scalar` one value for all, else through `strides`.
struct Access {
  enum Kind : uint8_t { same, scalar, strided } kind;
  std::array<int64_t, Shape::kMaxAxes> strides;  // in elements, per axis of the collapsed output
};

// Everything that does not depend on the part of the output being computed.
struct Loop {
  const Program& program;
  std::span<const Operand> operands;
  std::vector<Access> access;
  std::array<int64_t, Shape::kMaxAxes> extents;  // of the collapsed output
  int axes = 0;
  DType type;     // storage type of the program's compute type
  int64_t width;  // bytes of a computed element
};

Loop make_loop(const Program& program, std::span<const Operand> operands, const Shape& shape);

// Where an operand's element for output position `at` is, had it all of them.
int64_t offset_of(const Loop& loop, const Access& a, int64_t at);
const char* address_of(const Loop& loop, size_t operand, int64_t at);

// How many elements lie side by side in every broadcast operand; 0: too few, or there is none.
int64_t length_of_rows(const Loop& loop);
bool is_repeated_in_rows(const Loop& loop, size_t operand);

// At most kElementBlock elements of an operand in the computed type: its own memory where that holds them, else written to `block`.
const void* load(const Loop& loop, size_t operand, int64_t at, int64_t n, bool in_row, void* block, bool write_always = false);

}  // namespace gluino::kernels
