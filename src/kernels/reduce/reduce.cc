#include "kernels/reduce/reduce.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "kernels/isa/primitives.h"
#define GLUINO_ISA portable
#include "program/reduce_formulas.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(ReduceTable, kReduceTable, reduce_table)

namespace {

using portable::finished;
using portable::identity;

constexpr int64_t kChunk = 1024;           // outputs accumulated at a time
constexpr int64_t kRowsSideBySide = 16;    // of an array, so that what they read stays near
constexpr int64_t kSplitElements = 65536;  // least work of one part when a reduction itself is split

template <class T>
using Accumulator = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

// Overflow of integers wraps: computed unsigned.
template <class A>
A combine(ReduceOp op, A a, A x) {
  using U = std::conditional_t<std::is_integral_v<A>, uint64_t, A>;
  switch (op) {
    case ReduceOp::prod:
    case ReduceOp::nanprod: return static_cast<A>(static_cast<U>(a) * static_cast<U>(x));
    case ReduceOp::max: return x > a || x != x ? x : a;
    case ReduceOp::min: return x < a || x != x ? x : a;
    default: return static_cast<A>(static_cast<U>(a) + static_cast<U>(x));
  }
}

// Whole numbers of fewer than 32 bits, which there are no loops for, are widened block by block.
template <class T, class F>
void for_wide_blocks(const T* x, int64_t n, F&& f) {
  alignas(64) int32_t block[kWidenedBlock];
  for (int64_t i = 0; i < n; i += kWidenedBlock) {
    const int64_t count = std::min(kWidenedBlock, n - i);
    convert(x + i, dtype_of<T>, block, DType::int32, count);
    f(block, i, count);
  }
}
template <class T>
constexpr bool is_narrow = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
constexpr int kNarrow = std::is_same_v<T, float16> ? 0 : 1;  // in tables
// Each of some rows of n elements, `step` apart, into a number of its own.
template <class T>
void reduce_each_row(ReduceOp op, const T* x, int64_t n, int64_t rows, int64_t step, Accumulator<T>* acc) {
  const auto f = static_cast<size_t>(op);
  if constexpr (std::is_same_v<T, float>)
    reduce_table().each_f32[f](x, n, rows, step, acc);
  else if constexpr (std::is_same_v<T, double>)
    reduce_table().each_f64[f](x, n, rows, step, acc);
  else if constexpr (is_narrow<T>)
    reduce_table().each_narrow[kNarrow<T>][f](reinterpret_cast<const uint16_t*>(x), n, rows, step, acc);
  else if constexpr (std::is_same_v<T, int32_t>)
    reduce_table().each_i32[f](x, n, rows, step, acc);
  else if constexpr (std::is_same_v<T, int64_t>)
    reduce_table().each_i64[f](x, n, rows, step, acc);
  else
    for (int64_t r = 0; r < rows; ++r)
      for_wide_blocks(x + r * step, n, [&](const auto* b, int64_t, int64_t count) { reduce_each_row(op, b, count, 1, 0, acc + r); });
}
template <class T>
Accumulator<T> reduce_row(ReduceOp op, const T* x, int64_t n, Accumulator<T> acc) {
  reduce_each_row(op, x, n, 1, 0, &acc);
  return acc;
}
// Rows of n elements, `step` apart, into n numbers.
template <class T>
void reduce_rows(ReduceOp op, const T* x, int64_t n, int64_t rows, int64_t step, Accumulator<T>* acc) {
  const auto f = static_cast<size_t>(op);
  if constexpr (std::is_same_v<T, float>)
    reduce_table().together_f32[f](x, n, rows, step, acc);
  else if constexpr (std::is_same_v<T, double>)
    reduce_table().together_f64[f](x, n, rows, step, acc);
  else if constexpr (is_narrow<T>)
    reduce_table().together_narrow[kNarrow<T>][f](reinterpret_cast<const uint16_t*>(x), n, rows, step, acc);
  else if constexpr (std::is_same_v<T, int32_t>)
    reduce_table().together_i32[f](x, n, rows, step, acc);
  else if constexpr (std::is_same_v<T, int64_t>)
    reduce_table().together_i64[f](x, n, rows, step, acc);
  else
    for (int64_t r = 0; r < rows; ++r)
      for_wide_blocks(x + r * step, n, [&](const auto* b, int64_t at, int64_t count) { reduce_rows(op, b, count, 1, 0, acc + at); });
}

// Neighbouring axes of the same kind are one group; kinds alternate.
struct Group {
  int64_t extent, stride;
};
struct Groups {
  std::vector<Group> kept, reduced;
  bool last_reduced = true;
  int64_t outputs = 1, per_output = 1;
  Groups(const Shape& shape, const bool* is_reduced) {
    int64_t stride = 1;
    bool previous = false, any = false;
    for (int i = shape.ndim() - 1; i >= 0; --i) {
      if (shape[i] == 1) continue;
      auto& list = is_reduced[i] ? reduced : kept;
      if (!any) last_reduced = is_reduced[i];
      if (any && previous == is_reduced[i])
        list.back().extent *= shape[i];
      else
        list.push_back({shape[i], stride});
      any = true;
      previous = is_reduced[i];
      stride *= shape[i];
      (is_reduced[i] ? per_output : outputs) *= shape[i];
    }
    if (per_output == 0) reduced = {{0, 1}};         // nothing, however many other axes there are
    if (reduced.empty()) reduced.push_back({1, 1});  // so that "the outermost reduced group" exists
    if (kept.empty()) kept.push_back({1, 1});
  }
};

// Where the elements come from: an array, or something that computes them, which is asked for several rows at a time.
template <class T>
class Array {
 public:
  explicit Array(const T* data) : data_(data) {}
  static constexpr int64_t kMost = INT64_MAX;  // elements to ask for at once
  static constexpr bool combines() { return false; }
  void combine(std::span<const int64_t>, int64_t, Accumulator<T>*) {}
  const T* get(int64_t begin, int64_t) { return data_ + begin; }

 private:
  const T* data_;
};
template <class T, int64_t most = kReduceBlock>
class Computed {
 public:
  explicit Computed(const ComputedElements& elements) : elements_(elements) {}
  static constexpr int64_t kMost = most;
  const T* get(int64_t begin, int64_t n) {
    elements_.read(begin, begin + n, block_.data());
    return block_.data();
  }
  // Whether rows need not be written down to be combined.
  bool combines() const { return std::is_floating_point_v<T> && elements_.combine; }
  void combine(std::span<const int64_t> rows, int64_t n, Accumulator<T>* acc) {
    if constexpr (std::is_floating_point_v<T>) elements_.combine(rows, n, acc);
  }

 private:
  const ComputedElements& elements_;
  alignas(64) std::array<T, kMost> block_;
};

template <class T, class Source>
class Reducer {
 public:
  using A = Accumulator<T>;
  Reducer(ReduceOp op, const Groups& g, Source source) : op_(op), g_(g), source_(std::move(source)) {}

  // acc[o - begin] for the outputs [begin, end), taking only [from, to) of the outermost reduced group.
  void run(int64_t begin, int64_t end, int64_t from, int64_t to, A* acc) {
    std::fill(acc, acc + (end - begin), identity<A>(op_));
    if (g_.last_reduced)
      reduce_each(begin, end, from, to, acc);
    else
      reduce_together(begin, end, from, to, acc);
  }

 private:
  // Where the kept groups from `first` on put output number o.
  int64_t offset(int64_t o, size_t first) const {
    int64_t at = 0;
    for (size_t i = first; i < g_.kept.size(); ++i) {
      if (i + 1 == g_.kept.size()) return at + o * g_.kept[i].stride;
      at += o % g_.kept[i].extent * g_.kept[i].stride;
      o /= g_.kept[i].extent;
    }
    return at;
  }

  // The last axes are reduced: a few outputs side by side, as far as their rows are at the same distance.
  void reduce_each(int64_t begin, int64_t end, int64_t from, int64_t to, A* acc) {
    const bool one_group = g_.reduced.size() == 1;
    const int64_t length = one_group ? to - from : g_.reduced[0].extent, step = g_.kept[0].stride;
    const bool rows_touch = one_group && step == length;
    const int64_t most = length == 0                  ? 1
                         : Source::kMost == INT64_MAX ? kRowsSideBySide
                         : rows_touch                 ? std::max<int64_t>(1, Source::kMost / length)
                                                      : 1;
    for (int64_t o = begin; o < end;) {
      const int64_t rows = std::min({most, end - o, g_.kept[0].extent - o % g_.kept[0].extent}), at = offset(o, 0);
      if (one_group)
        reduce_runs(at + from, length, rows, step, acc + (o - begin));
      else
        visit_reduced(1, from, to, [&](int64_t place) { reduce_runs(at + place, length, rows, step, acc + (o - begin)); });
      o += rows;
    }
  }
  void reduce_runs(int64_t at, int64_t length, int64_t rows, int64_t step, A* acc) {
    if (rows > 1) return reduce_each_row(op_, source_.get(at, rows * length), length, rows, step, acc);
    for (int64_t i = 0; i < length; i += std::min(Source::kMost, length - i)) {
      const int64_t n = std::min(Source::kMost, length - i);
      *acc = reduce_row(op_, source_.get(at + i, n), n, *acc);
    }
  }

  // The last axes stay: whole runs of outputs at a time.
  void reduce_together(int64_t begin, int64_t end, int64_t from, int64_t to, A* acc) {
    const int64_t n = g_.kept[0].extent, step = g_.reduced[0].stride;
    for (int64_t o = begin; o < end;) {
      const int64_t column = o % n, count = std::min({n - column, end - o, Source::kMost});
      const int64_t base = offset(o / n, 1) + column;
      A* here = acc + (o - begin);
      if (source_.combines())
        combine_rows(base, count, from, to, here);
      else if (g_.reduced.size() == 1)
        reduce_stack(base + from * step, count, to - from, step, here);
      else
        visit_reduced(1, from, to, [&](int64_t at) { reduce_stack(base + at, count, g_.reduced[0].extent, step, here); });
      o += count;
    }
  }
  void reduce_stack(int64_t at, int64_t n, int64_t rows, int64_t step, A* acc) {
    const int64_t most = Source::kMost == INT64_MAX ? rows : n == step ? std::max<int64_t>(1, Source::kMost / n) : 1;
    for (int64_t r = 0; r < rows; r += std::min(most, rows - r)) {
      const int64_t here = std::min(most, rows - r);
      reduce_rows(op_, source_.get(at + r * step, here * n), n, here, step, acc);
    }
  }
  // Not inlined: with it among the other loops, and the block not aligned, 16384 rows of 64 elements took 1.2 times as long in those.
  __attribute__((noinline)) void combine_rows(int64_t base, int64_t count, int64_t from, int64_t to, A* acc) {
    std::array<int64_t, 64> rows;
    size_t waiting = 0;
    const auto combine_waiting = [&] { source_.combine({rows.data(), std::exchange(waiting, 0)}, count, acc); };
    visit_reduced(0, from, to, [&](int64_t at) {
      rows[waiting++] = base + at;
      if (waiting == rows.size()) combine_waiting();
    });
    if (waiting) combine_waiting();
  }
  // Calls f(offset) for every combination of the reduced groups from `first` on, the outermost restricted to [from, to).
  template <class F>
  void visit_reduced(size_t first, int64_t from, int64_t to, F&& f) const {
    const Group& outer = g_.reduced.back();
    int64_t inner = 1;
    for (size_t i = first; i + 1 < g_.reduced.size(); ++i) inner *= g_.reduced[i].extent;
    for (int64_t r = from; r < to; ++r)
      for (int64_t j = 0; j < inner; ++j) {
        int64_t at = r * outer.stride, rest = j;
        for (size_t i = first; i + 1 < g_.reduced.size(); ++i) {
          at += rest % g_.reduced[i].extent * g_.reduced[i].stride;
          rest /= g_.reduced[i].extent;
        }
        f(at);
      }
  }
  ReduceOp op_;
  const Groups& g_;
  Source source_;
};

template <class A>
void finish_into(ReduceFinish finish, int64_t per_output, A* acc, int64_t n, void* out, DType out_type, int64_t at) {
  char* target = static_cast<char*>(out) + at * dtype_bytes(out_type);
  if (finish == ReduceFinish::none) return convert(acc, dtype_of<A>, target, out_type, n);
  std::vector<double> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = finished(finish, static_cast<double>(acc[i]), static_cast<double>(per_output));
  convert(values.data(), DType::float64, target, out_type, n);
}

// How many parts the outermost reduced group is split into: depends on shapes only.
int64_t split_parts(const Groups& g) {
  if (g.outputs > (g.last_reduced ? 32 : 2048)) return 1;
  const int64_t parts = g.outputs * g.per_output / kSplitElements;
  return std::max<int64_t>(1, std::min({parts, g.reduced.back().extent, int64_t{64}}));
}

int64_t parts_of_rows(int64_t rows, int64_t length) {
  constexpr bool kIsReduced[] = {false, true};
  return split_parts(Groups({rows, length}, kIsReduced));
}

template <class T, class Source>
void reduce_typed(ReduceOp op, ReduceFinish finish, const Source& source, const Groups& g, void* out, DType out_type) {
  using A = Accumulator<T>;
  const int64_t extent = g.reduced.back().extent, parts = split_parts(g), outputs = g.outputs;
  if (parts == 1) {
    parallel_for(outputs, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, g.per_output)), [&](int64_t begin, int64_t end) {
      std::array<A, kChunk> acc;
      Reducer<T, Source> reducer(op, g, source);
      for (int64_t o = begin; o < end; o += kChunk) {
        const int64_t stop = std::min(end, o + kChunk);
        reducer.run(o, stop, 0, extent, acc.data());
        finish_into(finish, g.per_output, acc.data(), stop - o, out, out_type, o);
      }
    });
    return;
  }
  std::vector<A> partial(parts * outputs);
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    Reducer<T, Source> reducer(op, g, source);
    for (int64_t p = begin; p < end; ++p)
      reducer.run(0, outputs, extent * p / parts, extent * (p + 1) / parts, partial.data() + p * outputs);
  });
  for (int64_t p = 1; p < parts; ++p)
    for (int64_t o = 0; o < outputs; ++o) partial[o] = combine(op, partial[o], partial[p * outputs + o]);
  finish_into(finish, g.per_output, partial.data(), outputs, out, out_type, 0);
}

}  // namespace

void reduce(ReduceOp op, ReduceFinish finish, const void* in, DType in_type, const Shape& shape, const bool* reduced, void* out,
            DType out_type) {
  const Groups groups(shape, reduced);
  if (groups.outputs == 0) return;
  visit_dtype(in_type, [&]<class T>(T*) { reduce_typed<T>(op, finish, Array<T>(static_cast<const T*>(in)), groups, out, out_type); });
}

void reduce_computed(ReduceOp op, ReduceFinish finish, const ComputedElements& elements, DType type, const Shape& shape,
                     const bool* reduced, void* out, DType out_type) {
  const Groups groups(shape, reduced);
  if (groups.outputs == 0) return;
  const auto run = [&]<class T, int64_t most>(const Computed<T, most>& source) {
    reduce_typed<T>(op, finish, source, groups, out, out_type);
  };
  switch (type) {
    case DType::float64: return run(Computed<double>(elements));
    case DType::float32: return run(Computed<float>(elements));
    case DType::int32: return run(Computed<int32_t>(elements));
    case DType::int64: return run(Computed<int64_t>(elements));
    default: return run(Computed<float, kWidenedBlock>(elements));
  }
}

int64_t elements_side_by_side(const Shape& shape, const bool* reduced) {
  const Groups groups(shape, reduced);
  return groups.last_reduced ? 0 : groups.kept[0].extent;
}

bool splits_neighbours(int64_t rows, int64_t length) { return parts_of_rows(rows, length) > 1; }

void reduce_neighbours(ReduceOp op, ReduceFinish finish, const void* in, DType type, int64_t rows, int64_t length, int64_t all_rows,
                       void* out) {
  const int64_t parts = parts_of_rows(all_rows, length);
  const bool is_widened = type != DType::float32 && type != DType::float64;
  std::vector<double> totals(rows);
  const auto run = [&]<class T>(const T* x) {
    // Arrays of 16-bit floats are added up in shorter blocks.
    const int64_t block = is_widened ? kWidenedBlock : length;
    for (int64_t r = 0; r < rows; ++r) {
      const auto part = [&](int64_t p) {
        const int64_t from = length * p / parts, to = length * (p + 1) / parts;
        double acc = identity<double>(op);
        for (int64_t i = from; i < to; i += block) acc = reduce_row(op, x + r * length + i, std::min(block, to - i), acc);
        return acc;
      };
      double& total = totals[r];
      total = part(0);
      for (int64_t p = 1; p < parts; ++p) total = combine(op, total, part(p));
    }
  };
  if (type == DType::float64)
    run(static_cast<const double*>(in));
  else
    run(static_cast<const float*>(in));
  if (!is_widened) return finish_into(finish, length, totals.data(), rows, out, type, 0);
  std::vector<uint16_t> narrow(rows);
  finish_into(finish, length, totals.data(), rows, narrow.data(), type, 0);
  convert(narrow.data(), type, out, DType::float32, rows);
}

}  // namespace gluino::kernels
