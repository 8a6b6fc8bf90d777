#include "kernels/elementwise/access.h"

#include <algorithm>
#include <cstring>

#include "kernels/elementwise/fill_blocks.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {
namespace {

// Merges axes that every operand walks in the same way, and finds out how each operand is read.
void collapse(Loop& loop, const Shape& shape) {
  const size_t count = loop.operands.size();
  loop.access.resize(count);
  std::vector<std::array<int64_t, Shape::kMaxAxes>> strides(count);
  for (size_t k = 0; k < count; ++k) {
    const Shape& s = *loop.operands[k].shape;
    loop.access[k].kind = s == shape ? Access::same : s.elements() == 1 ? Access::scalar : Access::strided;
    int64_t step = 1;
    for (int i = shape.ndim() - 1, j = s.ndim() - 1; i >= 0; --i, --j) {
      const int64_t extent = j >= 0 ? s[j] : 1;
      strides[k][i] = extent == 1 ? 0 : step;
      step *= extent;
    }
  }
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] == 1) continue;
    bool merge = loop.axes > 0;
    for (size_t k = 0; merge && k < count; ++k) {
      const int64_t outer = loop.access[k].strides[loop.axes - 1];
      merge = outer == strides[k][i] * shape[i];
    }
    if (!merge) {
      loop.extents[loop.axes++] = 1;
    }
    const auto axis = static_cast<size_t>(loop.axes - 1);
    loop.extents[axis] *= shape[i];
    for (size_t k = 0; k < count; ++k) loop.access[k].strides[axis] = strides[k][i];
  }
}

}  // namespace

Loop make_loop(const Program& program, std::span<const Operand> operands, const Shape& shape) {
  Loop loop{.program = program,
            .operands = operands,
            .access = {},
            .extents = {},
            .type = storage_of(program.type()),
            .width = dtype_bytes(storage_of(program.type()))};
  collapse(loop, shape);
  return loop;
}

int64_t offset_of(const Loop& loop, const Access& a, int64_t at) {
  if (a.kind == Access::same) return at;
  if (a.kind == Access::scalar) return 0;
  int64_t offset = 0;
  for (int i = loop.axes - 1; i > 0; --i) {
    const auto k = static_cast<size_t>(i);
    offset += at % loop.extents[k] * a.strides[k];
    at /= loop.extents[k];
  }
  return offset + at * a.strides[0];
}
const char* address_of(const Loop& loop, size_t operand, int64_t at) {
  const Operand& o = loop.operands[operand];
  int64_t offset = offset_of(loop, loop.access[operand], at);
  if (o.first) offset -= offset_of(loop, loop.access[operand], o.first);
  return static_cast<const char*>(o.data) + offset * dtype_bytes(o.dtype);
}

namespace {

// Writes out `n` elements of a broadcast operand, starting at output position `begin`, whose element is `data`.
template <class T>
void gather_typed(const Loop& loop, const Access& a, const T* data, int64_t begin, int64_t n, T* dst) {
  std::array<int64_t, Shape::kMaxAxes> position{};
  int64_t offset = 0, rest = begin;
  for (int i = loop.axes - 1; i >= 0; --i) {
    const auto k = static_cast<size_t>(i);
    position[k] = rest % loop.extents[k];
    rest /= loop.extents[k];
  }
  const auto last = static_cast<size_t>(loop.axes - 1);
  const bool rows_repeat = last > 0 && a.strides[last] == 1 && a.strides[last - 1] == 0;
  while (n > 0) {
    int64_t run = std::min(n, loop.extents[last] - position[last]);
    if (rows_repeat && run < n) {
      const int64_t extent = loop.extents[last], rows = loop.extents[last - 1] - position[last - 1];
      run = std::min(n, rows * extent - position[last]);
      repeat_row(data + offset - position[last], extent, position[last], run, dst);
      // The place behind it, in the row that was written last.
      const int64_t more_rows = (position[last] + run - 1) / extent;
      position[last - 1] += more_rows;
      position[last] -= more_rows * extent;
      offset -= more_rows * extent;
    } else if (a.strides[last] == 1) {
      std::memcpy(dst, data + offset, run * sizeof(T));
    } else if (a.strides[last] == 0) {
      std::fill(dst, dst + run, data[offset]);
    } else {
      for (int64_t i = 0; i < run; ++i) dst[i] = data[offset + i * a.strides[last]];
    }
    dst += run;
    n -= run;
    position[last] += run;
    offset += run * a.strides[last];
    for (size_t k = last; k > 0 && position[k] == loop.extents[k]; --k) {
      offset += a.strides[k - 1] - position[k] * a.strides[k];
      position[k] = 0;
      ++position[k - 1];
    }
  }
}

void gather(const Loop& loop, size_t operand, int64_t begin, int64_t n, void* dst) {
  const Access& a = loop.access[operand];
  const char* data = address_of(loop, operand, begin);
  switch (dtype_bytes(loop.operands[operand].dtype)) {
    case 1: return gather_typed(loop, a, reinterpret_cast<const uint8_t*>(data), begin, n, static_cast<uint8_t*>(dst));
    case 2: return gather_typed(loop, a, reinterpret_cast<const uint16_t*>(data), begin, n, static_cast<uint16_t*>(dst));
    case 4: return gather_typed(loop, a, reinterpret_cast<const uint32_t*>(data), begin, n, static_cast<uint32_t*>(dst));
    default: return gather_typed(loop, a, reinterpret_cast<const uint64_t*>(data), begin, n, static_cast<uint64_t*>(dst));
  }
}

// Blocks of rows that are shorter cost more than they save.
constexpr int64_t kShortRun = 64;

}  // namespace

int64_t length_of_rows(const Loop& loop) {
  const bool strided = std::any_of(loop.access.begin(), loop.access.end(), [](const Access& a) { return a.kind == Access::strided; });
  return strided && loop.extents[loop.axes - 1] >= kShortRun ? loop.extents[loop.axes - 1] : 0;
}
bool is_repeated_in_rows(const Loop& loop, size_t operand) {
  const Access& a = loop.access[operand];
  return a.kind == Access::strided && a.strides[loop.axes - 1] == 0;
}

const void* load(const Loop& loop, size_t operand, int64_t at, int64_t n, bool in_row, void* block, bool write_always) {
  const DType dtype = loop.operands[operand].dtype;
  const bool is_run = loop.access[operand].kind != Access::strided || (in_row && !is_repeated_in_rows(loop, operand));
  if (is_run && dtype == loop.type && !write_always) return address_of(loop, operand, at);
  if (is_run) {
    convert(address_of(loop, operand, at), dtype, block, loop.type, n);
  } else if (dtype == loop.type) {
    gather(loop, operand, at, n, block);
  } else {
    alignas(64) char gathered[kElementBlock * 8];
    gather(loop, operand, at, n, gathered);
    convert(gathered, dtype, block, loop.type, n);
  }
  return block;
}

}  // namespace gluino::kernels
