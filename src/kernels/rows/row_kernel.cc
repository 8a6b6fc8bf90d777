#include "kernels/rows/row_kernel.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/parallel.h"
#include "kernels/isa/primitives.h"
#include "kernels/rows/rows.h"

namespace gluino::kernels {

constexpr int64_t kElementsAtOnce = 4096;  // of each value; a longer row is taken by itself

RowKernel::RowKernel(const RowProgram& program, std::span<const Shape> inputs, int axes)
    : program_(program), inputs_(static_cast<int>(inputs.size())) {
  std::vector<Shape> broadcasting;
  for (int i = 0; i < inputs_; ++i)
    if (!program.is_read_per_row(i)) broadcasting.push_back(inputs[i]);
  if (broadcasting.empty()) raise<ShapeError>("nothing says what the rows are");
  whole_ = narrow_ = broadcast_shapes(broadcasting);
  if (axes < 1 || axes > whole_.ndim()) raise<ShapeError>("shape {} has no row of {} axes", whole_, axes);
  rows_ = whole_.elements(0, whole_.ndim() - axes);
  length_ = whole_.elements(whole_.ndim() - axes, whole_.ndim());
  if (length_ == 0) raise<ShapeError>("the rows of shape {} are empty", whole_);
  for (int i = whole_.ndim() - axes; i < whole_.ndim(); ++i) {
    narrow_[i] = 1;
    sum_.push_back(whole_[i]);
  }
  for (int k = 0; k < inputs_; ++k) {
    const Shape& s = inputs[k];
    bool narrow = true;
    for (int i = 0; i < std::min(axes, s.ndim()); ++i) narrow &= s[s.ndim() - 1 - i] == 1;
    kinds_.push_back(narrow || program.is_read_per_row(k) ? RowValue::number : RowValue::row);
  }
  for (const RowStage& stage : program.stages) {
    check_stage(stage, inputs);
    const bool all_narrow =
        std::all_of(stage.arguments.begin(), stage.arguments.end(), [&](int a) { return kinds_[a] == RowValue::number; });
    for (int k = 0; k < stage.gives(); ++k)
      kinds_.push_back(stage.function != RowFunction::map ? row_signature(stage.function).results[k]
                       : all_narrow                       ? RowValue::number
                                                          : RowValue::row);
  }
  for (int v : program.results)
    if (v < inputs_ || v >= static_cast<int>(kinds_.size())) raise<AttrError>("no stage gives value {}", v);
}

void RowKernel::check_stage(const RowStage& stage, std::span<const Shape> inputs) const {
  for (size_t k = 0; k < stage.arguments.size(); ++k) {
    const int a = stage.arguments[k];
    if (a >= static_cast<int>(kinds_.size())) raise<AttrError>("a stage reads value {}, but there are {}", a, kinds_.size());
    const bool is_map = stage.function == RowFunction::map;
    const RowValue kind = kinds_[a], needed = is_map ? kind : row_signature(stage.function).arguments[k];
    const bool needs_row = needed == RowValue::row || needed == RowValue::shared;
    if (kind == RowValue::sum) raise<AttrError>("value {} is not known before all rows are done", a);
    if (a >= inputs_) {
      if (needs_row && kind == RowValue::number) raise<AttrError>("value {} has one number per row, not a row", a);
      if (!needs_row && kind == RowValue::row) raise<AttrError>("value {} is a row, not one number per row", a);
      continue;
    }
    const Shape& shape = inputs[a];
    if (is_map) {
      if (program_.is_read_per_row(a) && !(shape == narrow_)) raise<ShapeError>("value {} of shape {} does not broadcast", a, shape);
    } else if (needed == RowValue::index || needed == RowValue::number) {
      if (shape.elements() != rows_) raise<ShapeError>("value {} of shape {} has not one number for each of {} rows", a, shape, rows_);
    } else if (!(shape == whole_) && !(needed == RowValue::shared && shape.elements() == length_)) {
      raise<ShapeError>("value {} of shape {} is not made of rows of {} elements", a, shape, length_);
    }
  }
}

const Shape& RowKernel::shape_of(size_t value) const {
  switch (kinds_[value]) {
    case RowValue::number: return narrow_;
    case RowValue::sum: return sum_;
    default: return whole_;
  }
}

// What one thread needs: memory for the values of a few rows, and the maps bound to it.
struct RowKernel::Run {
  Run(const RowKernel& kernel, std::span<const Operand> inputs, std::span<const Result> results, const std::vector<ElementwiseRange>& maps)
      : k(kernel),
        at_once(std::clamp<int64_t>(kElementsAtOnce / std::max<int64_t>(k.length_, 1), 1, std::max<int64_t>(k.rows_, 1))),
        type(storage_of(k.program_.type)),
        width(dtype_bytes(type)),
        values(inputs.begin(), inputs.end()),
        outputs(results) {
    int64_t bytes = 0;
    std::vector<int64_t> offsets;
    for (size_t v = inputs.size(); v < k.kinds_.size(); ++v) {
      offsets.push_back(bytes);
      if (k.kinds_[v] != RowValue::sum) bytes += (elements(v, at_once) * width + 63) / 64 * 64;
    }
    memory.resize(bytes + k.length_ * width + 64);
    char* base = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    exps = base + bytes;
    for (size_t v = inputs.size(); v < k.kinds_.size(); ++v) values.push_back({base + offsets[v - inputs.size()], type, &k.shape_of(v)});
    for (size_t i = 0; i < outputs.size(); ++i) is_direct.push_back(can_write_directly(i));
    indices.resize(at_once);
    size_t map = 0;
    for (const RowStage& s : k.program_.stages) {
      arguments.emplace_back();
      for (int a : s.arguments) arguments.back().push_back(values[a]);
      if (s.function == RowFunction::map) bound.push_back(maps[map++].rebound(arguments.back()));
    }
  }
  int64_t elements(size_t value, int64_t rows) const { return k.kinds_[value] == RowValue::number ? rows : rows * k.length_; }
  void* place(size_t value) const { return const_cast<void*>(values[value].data); }

  // Values that all rows are added up in are kept here, one after the other.
  void add_to(char* sums) {
    for (size_t v = 0; v < values.size(); ++v)
      if (k.kinds_[v] == RowValue::sum) {
        values[v].data = sums;
        sums += k.length_ * width;
      }
  }
  void rows(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += at_once) block(r, std::min(end, r + at_once));
  }
  void block(int64_t begin, int64_t end) {
    aim(begin);
    size_t value = static_cast<size_t>(k.inputs_), map = 0;
    for (size_t s = 0; s < k.program_.stages.size(); ++s) {
      const RowStage& stage = k.program_.stages[s];
      if (stage.function == RowFunction::map)
        run_map(bound[map++], stage, s, value, begin, end);
      else if (stage.function == RowFunction::reduce)
        reduce_neighbours(stage.how, stage.finish, row(stage.arguments[0], begin, begin), stage.dtype.value_or(type), end - begin,
                          k.length_, k.rows_, place(value));
      else if (type == DType::float64)
        run_function<double>(stage, value, begin, end);
      else
        run_function<float>(stage, value, begin, end);
      value += static_cast<size_t>(stage.gives());
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto v = static_cast<size_t>(k.program_.results[i]);
      if (k.kinds_[v] == RowValue::sum) continue;
      if (void* to = output(i, begin); to != values[v].data) convert(values[v].data, type, to, outputs[i].dtype, elements(v, end - begin));
    }
  }
  void* output(size_t i, int64_t row) const {
    const int64_t at = elements(static_cast<size_t>(k.program_.results[i]), row);
    return static_cast<char*>(outputs[i].data) + at * dtype_bytes(outputs[i].dtype);
  }
  // Stages write their results where they belong, unless that is an input's memory, which later stages may read: then only the last
  // stage does. Others are copied when all stages are done.
  void aim(int64_t begin) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (is_direct[i]) values[k.program_.results[i]].data = output(i, begin);
  }
  bool can_write_directly(size_t i) const {
    const auto v = static_cast<size_t>(k.program_.results[i]);
    if (k.kinds_[v] == RowValue::sum || outputs[i].dtype != type) return false;
    if (v >= values.size() - static_cast<size_t>(k.program_.stages.back().gives())) return true;
    const auto* first = static_cast<const char*>(outputs[i].data);
    const auto* last = first + elements(v, k.rows_) * width;
    return std::none_of(values.begin(), values.begin() + k.inputs_, [&](const Operand& o) {
      const auto* data = static_cast<const char*>(o.data);
      return data < last && first < data + o.shape->elements() * dtype_bytes(o.dtype);
    });
  }
  void run_map(const ElementwiseRange& range, const RowStage& stage, size_t number, size_t value, int64_t begin, int64_t end) {
    const int64_t per_row = elements(value, 1);
    for (size_t a = 0; a < stage.arguments.size(); ++a)
      if (stage.arguments[a] >= k.inputs_) {
        arguments[number][a].data = values[stage.arguments[a]].data;
        arguments[number][a].first = begin * per_row;
      }
    std::array<Result, Program::kMaxResults> results;
    const auto count = static_cast<size_t>(stage.gives());
    for (size_t r = 0; r < count; ++r) results[r] = {place(value + r), type};
    range.run(begin * per_row, end * per_row, {results.data(), count});
  }
  // Row r of a value that is made of rows; of an input that has one row for all: that one.
  const void* row(int value, int64_t r, int64_t block_begin) const {
    const Operand& o = values[value];
    const int64_t at = value >= k.inputs_ ? r - block_begin : *o.shape == k.whole_ ? r : 0;
    return static_cast<const char*>(o.data) + at * k.length_ * width;
  }
  // One number per row, from row `begin` on.
  const char* numbers(int value, int64_t begin) const {
    const Operand& o = values[value];
    return static_cast<const char*>(o.data) + (value < k.inputs_ ? begin * dtype_bytes(o.dtype) : 0);
  }
  // The places that the numbers name in rows.
  void read_indices(int value, int64_t begin, int64_t end) {
    convert(numbers(value, begin), values[value].dtype, indices.data(), DType::int64, end - begin);
    for (int64_t r = 0; r < end - begin; ++r) indices[r] = std::clamp<int64_t>(indices[r], 0, k.length_ - 1);
  }
  template <class T>
  void run_function(const RowStage& stage, size_t value, int64_t begin, int64_t end) {
    const int64_t n = k.length_;
    const bool picks = stage.function == RowFunction::pick || stage.function == RowFunction::pick_grad;
    if (picks) read_indices(stage.arguments[1], begin, end);
    for (int64_t r = begin; r < end; ++r) {
      const auto argument = [&](size_t a) { return static_cast<const T*>(row(stage.arguments[a], r, begin)); };
      const auto number_of = [&](size_t a) { return reinterpret_cast<const T*>(numbers(stage.arguments[a], begin))[r - begin]; };
      const auto given = [&](size_t result) { return static_cast<T*>(place(value + result)); };
      T *out = static_cast<T*>(place(value)) + (r - begin) * n, *buffer = reinterpret_cast<T*>(exps);
      const T number = static_cast<T>(stage.number);
      const RowFunctions<T>& functions = row_functions<T>();
      switch (stage.function) {
        case RowFunction::softmax_grad:
        case RowFunction::log_softmax_grad:
          functions.softmax_grad(argument(0), argument(1), n, number, stage.function == RowFunction::log_softmax_grad, out);
          break;
        case RowFunction::layer_norm:
          functions.layer_norm(argument(0), n, number, argument(1), argument(2), out, given(1) + (r - begin), given(2) + (r - begin));
          break;
        case RowFunction::layer_norm_grad:
          functions.layer_norm_grad(argument(0), argument(1), n, argument(2), number_of(3), number_of(4), out, given(1), given(2));
          break;
        case RowFunction::pick: given(0)[r - begin] = argument(0)[indices[r - begin]]; break;
        case RowFunction::pick_grad:
          std::fill_n(out, n, T(0));
          out[indices[r - begin]] = number_of(0);
          break;
        default:
          if (argument(0) != out) std::copy_n(argument(0), n, out);
          functions.softmax(out, n, number, stage.function == RowFunction::log_softmax, buffer);
      }
    }
  }

  const RowKernel& k;
  const int64_t at_once;
  const DType type;
  const int64_t width;
  std::vector<Operand> values;  // the inputs, then what stages give for the rows at hand
  std::span<const Result> outputs;
  std::vector<bool> is_direct;  // by output
  std::vector<char> memory;
  char* exps;
  std::vector<int64_t> indices;                 // of the rows at hand
  std::vector<std::vector<Operand>> arguments;  // of each stage
  std::vector<ElementwiseRange> bound;          // of each map
};

void RowKernel::check_types(std::span<const Operand> inputs) const {
  for (const RowStage& s : program_.stages)
    for (size_t a = 0; a < s.arguments.size(); ++a) {
      const int v = s.arguments[a];
      if (s.function == RowFunction::map || row_signature(s.function).arguments[a] == RowValue::index) continue;
      if (v < inputs_ && inputs[v].dtype != storage_of(program_.type))
        raise<DTypeError>("value {} is not of the type that rows are computed in", v);
    }
}

void RowKernel::run_stages(std::span<const Operand> inputs, std::span<const Result> results, bool with_loops) const {
  std::vector<Operand> values(inputs.begin(), inputs.end());
  for (size_t v = inputs.size(); v < kinds_.size(); ++v) values.push_back({nullptr, storage_of(program_.type), &shape_of(v)});
  std::vector<ElementwiseRange> maps;
  std::vector<Operand> arguments;
  auto value = static_cast<size_t>(inputs_);
  for (const RowStage& s : program_.stages) {
    if (s.function == RowFunction::map) {
      arguments.clear();
      for (int a : s.arguments) arguments.push_back(values[a]);
      maps.emplace_back(s.loops->program(), arguments, shape_of(value), with_loops ? s.loops.get() : nullptr);
    }
    value += static_cast<size_t>(s.gives());
  }
  over_rows(results, [&] {
    return [run = std::make_unique<Run>(*this, inputs, results, maps)](int64_t begin, int64_t end, char* sums) {
      if (sums) run->add_to(sums);
      run->rows(begin, end);
    };
  });
}

size_t RowKernel::sums_before(size_t value) const {
  return static_cast<size_t>(std::count(kinds_.begin(), kinds_.begin() + static_cast<int64_t>(value), RowValue::sum));
}

void RowKernel::clear_sums(std::span<const Result> results) const {
  for (size_t i = 0; i < results.size(); ++i)
    if (kinds_[program_.results[i]] == RowValue::sum)
      std::fill_n(static_cast<char*>(results[i].data), length_ * dtype_bytes(results[i].dtype), char(0));
}

template <class MakeWorker>
void RowKernel::over_rows(std::span<const Result> results, MakeWorker&& make_worker) const {
  const auto sums = static_cast<int64_t>(sums_before(kinds_.size()));
  if (sums == 0) return parallel_for(rows_, row_grain(length_), [&](int64_t begin, int64_t end) { make_worker()(begin, end, nullptr); });
  const DType type = storage_of(program_.type);
  const RowParts parts(rows_);
  const int64_t width = dtype_bytes(type), bytes = sums * length_ * width;
  std::vector<char> memory(parts.count * bytes);
  parallel_for(parts.count, parts.grain(length_), [&](int64_t begin, int64_t end) {
    auto worker = make_worker();
    for (int64_t p = begin; p < end; ++p) worker(parts.begin(p), parts.end(p), memory.data() + p * bytes);
  });
  for (size_t i = 0; i < results.size(); ++i) {
    const auto v = static_cast<size_t>(program_.results[i]);
    if (kinds_[v] != RowValue::sum) continue;
    const char* first = memory.data() + static_cast<int64_t>(sums_before(v)) * length_ * width;
    const auto add = [&]<class T>(std::vector<T> total) {
      parts.add(reinterpret_cast<const T*>(first), sums * length_, length_, total.data());
      convert(total.data(), type, results[i].data, results[i].dtype, length_);
    };
    if (type == DType::float64)
      add(std::vector<double>(length_));
    else
      add(std::vector<float>(length_));
  }
}

// Rows with the same step from each to the next follow one another in runs.
struct RowKernel::Access {
  std::vector<RowInput> inputs;
  std::vector<RowOutput> outputs;
  std::vector<std::array<int64_t, Shape::kMaxAxes>> strides;  // of each input, by the axes before the row
  std::vector<int64_t> steps;                                 // from row to row within a run
  int64_t run = 1;                                            // rows in one
  std::vector<size_t> over_inputs;                            // outputs that lie where an input does

  // Whatever an input is needed for must be done when a row is written over it.
  bool fits(const RowSweeps& plan) const {
    return std::all_of(over_inputs.begin(), over_inputs.end(), [&](size_t r) {
      return plan.outputs[r].kind == RowOutput::Kind::number || plan.outputs[r].sweep == plan.sweeps - 1;
    });
  }
  void find_runs(const Shape& whole, int leading) {
    steps.assign(inputs.size(), 0);
    for (int i = leading - 1; i >= 0; --i) {
      if (whole[i] == 1) continue;
      const auto axis = static_cast<size_t>(i);
      for (size_t k = 0; k < strides.size(); ++k) {
        if (run == 1) steps[k] = strides[k][axis];
        if (strides[k][axis] != steps[k] * run) return;
      }
      run *= whole[i];
    }
  }
  int64_t offset(size_t k, const Shape& whole, int leading, int64_t row) const {
    int64_t at = 0;
    for (int i = leading - 1; i >= 0; --i) {
      at += row % whole[i] * strides[k][i];
      row /= whole[i];
    }
    return at;
  }
};

std::optional<RowKernel::Access> RowKernel::find_access(std::span<const Operand> inputs, std::span<const Result> results) const {
  const bool has_reduction =
      std::any_of(program_.stages.begin(), program_.stages.end(), [](const RowStage& s) { return s.function == RowFunction::reduce; });
  if (!program_.compiled || length_ > INT32_MAX || (has_reduction && splits_neighbours(rows_, length_))) return std::nullopt;
  Access access;
  const int leading = whole_.ndim() - static_cast<int>(sum_.ndim());
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Shape& s = *inputs[k].shape;
    const bool is_row = kinds_[k] == RowValue::row;
    const int64_t per_row = is_row ? length_ : 1;
    access.inputs.push_back({inputs[k].dtype, is_row});
    auto& strides = access.strides.emplace_back();
    const bool is_per_row = program_.is_read_per_row(static_cast<int>(k));
    // Axes within the row that an input has not are no matter of whole rows.
    if (is_row && s.elements(std::max(0, s.ndim() - sum_.ndim()), s.ndim()) != length_) return std::nullopt;
    int64_t step = per_row;
    for (int i = leading - 1; i >= 0; --i) {
      const int own = i - (whole_.ndim() - s.ndim());
      const int64_t extent = is_per_row ? whole_[i] : own >= 0 ? s[own] : 1;
      strides[i] = extent == 1 ? 0 : step;
      step *= extent;
    }
  }
  access.find_runs(whole_, leading);
  for (size_t r = 0; r < results.size(); ++r) {
    const RowValue kind = kinds_[program_.results[r]];
    access.outputs.push_back({kind == RowValue::sum      ? RowOutput::Kind::sum
                              : kind == RowValue::number ? RowOutput::Kind::number
                                                         : RowOutput::Kind::row,
                              kind == RowValue::sum ? storage_of(program_.type) : results[r].dtype, 0, 0});
    if (kind == RowValue::sum) continue;
    // A result may lie where an input does, row for row.
    const auto* first = static_cast<const char*>(results[r].data);
    const auto* last = first + shape_of(static_cast<size_t>(program_.results[r])).elements() * dtype_bytes(results[r].dtype);
    for (const Operand& o : inputs) {
      const auto* data = static_cast<const char*>(o.data);
      if (data >= last || first >= data + o.shape->elements() * dtype_bytes(o.dtype)) continue;
      if (data != first || o.dtype != results[r].dtype || !(*o.shape == result_shape(static_cast<int>(r)))) return std::nullopt;
      access.over_inputs.push_back(r);
    }
  }
  return access;
}

void RowKernel::run_compiled(const RowsVariant& code, const Access& access, std::span<const Operand> inputs,
                             std::span<const Result> results) const {
  const RowSweeps& plan = *code.plan;
  const int64_t width = dtype_bytes(storage_of(program_.type));
  const int leading = whole_.ndim() - static_cast<int>(sum_.ndim());
  std::vector<std::vector<int64_t>> indices;
  for (int v : plan.indices) {
    auto& places = indices.emplace_back(static_cast<size_t>(rows_));
    const Operand& o = inputs[v];
    convert(o.data, o.dtype, places.data(), DType::int64, rows_);
    for (int64_t& place : places) place = std::clamp<int64_t>(place, 0, length_ - 1);
  }
  over_rows(results, [&] {
    return [&, scratch = std::vector<char>(plan.slots * length_ * width + 64), from = std::vector<const void*>(plan.inputs.size()),
            steps = access.steps, to = std::vector<void*>(results.size())](int64_t begin, int64_t end, char* sums) mutable {
      steps.resize(from.size(), 1);  // indices follow the inputs
      char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
      for (int64_t row = begin; row < end;) {
        const int64_t count = std::min(end - row, access.run - row % access.run);
        for (size_t k = 0; k < inputs.size(); ++k)
          from[k] = static_cast<const char*>(inputs[k].data) + access.offset(k, whole_, leading, row) * dtype_bytes(inputs[k].dtype);
        for (size_t k = 0; k < indices.size(); ++k) from[inputs.size() + k] = indices[k].data() + row;
        for (size_t r = 0; r < results.size(); ++r) {
          const auto v = static_cast<size_t>(program_.results[r]);
          const int64_t per_row = kinds_[v] == RowValue::number ? 1 : length_;
          to[r] = kinds_[v] == RowValue::sum ? sums + static_cast<int64_t>(sums_before(v)) * length_ * width
                                             : static_cast<char*>(results[r].data) + row * per_row * dtype_bytes(results[r].dtype);
        }
        code.kernel()(from.data(), steps.data(), to.data(), aligned, count, length_);
        row += count;
      }
    };
  });
}

RowKernel::Outcome RowKernel::run_code(std::span<const Operand> inputs, std::span<const Result> results) const {
  const auto access = find_access(inputs, results);
  if (!access) return Outcome::never;
  const RowsVariant& code = program_.compiled->find(program_, access->inputs, access->outputs, rows_ * length_);
  if (!code.is_awaited() || !access->fits(*code.plan)) return Outcome::never;
  if (!code.kernel()) return Outcome::awaited;
  run_compiled(code, *access, inputs, results);
  return Outcome::done;
}

void RowKernel::run(std::span<const Operand> inputs, std::span<const Result> results) const {
  check_types(inputs);
  if (rows_ == 0) return clear_sums(results);
  const Outcome code = run_code(inputs, results);
  if (code != Outcome::done) run_stages(inputs, results, program_.compiled && code == Outcome::never);
}

}  // namespace gluino::kernels
