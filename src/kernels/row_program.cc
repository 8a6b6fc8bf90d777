#include "kernels/row_program.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "base/parallel.h"
#include "kernels/normalization.h"
#include "kernels/primitives.h"
#include "kernels/program_text.h"
#include "kernels/rows.h"
#include "kernels/softmax.h"

namespace gluino::kernels {
namespace {

constexpr int64_t kElementsAtOnce = 4096;  // of each value; a longer row is taken by itself
// In the order of RowFunction. Maps and reductions have names and results of their own.
const std::vector<RowSignature>& signatures() {
  constexpr RowValue row = RowValue::row, shared = RowValue::shared, number = RowValue::number, index = RowValue::index,
                     sum = RowValue::sum;
  static const std::vector<RowSignature> all{{"map", {}, {}},
                                             {"reduce", {row}, {number}},
                                             {"softmax", {row}, {row}},
                                             {"log_softmax", {row}, {row}},
                                             {"softmax_grad", {row, row}, {row}},
                                             {"log_softmax_grad", {row, row}, {row}},
                                             {"layer_norm", {row, shared, shared}, {row, number, number}},
                                             {"layer_norm_grad", {row, row, shared, number, number}, {row, sum, sum}},
                                             {"pick", {row, index}, {number}},
                                             {"pick_grad", {number, index}, {row}}};
  return all;
}
const RowSignature& signature_of(RowFunction f) { return signatures()[static_cast<size_t>(f)]; }
RowFunction function_named(std::string_view name) {
  for (size_t f = 2; f < signatures().size(); ++f)
    if (signatures()[f].name == name) return static_cast<RowFunction>(f);
  raise<AttrError>("there is no function {} of rows", name);
}

[[noreturn]] void damaged(const std::string& text) { raise<AttrError>("'{}' is not a row program", text); }

template <class T>
T parse_number(const std::string& text, std::string_view digits) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) damaged(text);
  return value;
}
std::vector<int> parse_values(const std::string& text, std::string_view list) {
  std::vector<int> values;
  for (;;) {
    const size_t comma = list.find(',');
    values.push_back(parse_number<int>(text, list.substr(0, comma)));
    if (values.back() < 0 || values.back() > 255) damaged(text);
    if (comma == std::string_view::npos) return values;
    list.remove_prefix(comma + 1);
  }
}

template <class Names>
int index_of(const Names& names, std::string_view name) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  return found == std::end(names) ? -1 : static_cast<int>(found - std::begin(names));
}

RowStage parse_stage(const std::string& text, std::string_view words) {
  const size_t open = words.find('('), close = words.find(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) damaged(text);
  const std::string_view name = words.substr(0, open), rest = words.substr(close + 2);
  std::vector<int> arguments = parse_values(text, words.substr(open + 1, close - open - 1));
  if (name != signature_of(RowFunction::map).name) {
    const size_t space = rest.find(' ');
    const std::string_view first = rest.substr(0, space);
    const DType dtype = space == std::string_view::npos ? DType::float32 : parse_dtype(rest.substr(space + 1));
    if (index_of(kReduceNames, name) < 0) return function_stage(name, std::move(arguments), parse_number<double>(text, first), dtype);
    if (arguments.size() != 1) damaged(text);
    return reduction_stage(name, first, arguments[0], dtype);
  }
  const Program program = parse_program(std::string(rest));
  check_program(program, arguments.size());
  return map_stage(program, std::move(arguments));
}

std::string stage_text(const RowStage& s) {
  const std::string_view name =
      s.function == RowFunction::reduce ? std::string_view(kReduceNames[static_cast<size_t>(s.how)]) : signature_of(s.function).name;
  std::string rest = s.function == RowFunction::map      ? program_text(s.loops->program())
                     : s.function == RowFunction::reduce ? kFinishNames[static_cast<size_t>(s.finish)]
                                                         : fmt::format("{}", s.number);
  if (s.dtype) rest += fmt::format(" {}", dtype_name(*s.dtype));
  return fmt::format("{}({}) {}", name, fmt::join(s.arguments, ","), rest);
}

}  // namespace

RowStage map_stage(const Program& program, std::vector<int> arguments) {
  RowStage stage{.function = RowFunction::map, .arguments = std::move(arguments), .loops = CompiledLoops::of(program)};
  return stage;
}
static std::optional<DType> if_narrow(DType dtype) { return dtype_bytes(dtype) == 2 ? std::optional(dtype) : std::nullopt; }
RowStage reduction_stage(std::string_view how, std::string_view finish, int argument, DType dtype) {
  const int h = index_of(kReduceNames, how), f = index_of(kFinishNames, finish);
  if (h < 0 || f < 0) raise<AttrError>("there is no reduction {} {} of rows", how, finish);
  return {.function = RowFunction::reduce,
          .arguments = {argument},
          .loops = {},
          .how = static_cast<ReduceOp>(h),
          .finish = static_cast<ReduceFinish>(f),
          .dtype = if_narrow(dtype)};
}
RowStage function_stage(std::string_view name, std::vector<int> arguments, double number, DType dtype) {
  const RowFunction function = function_named(name);
  if (arguments.size() != signature_of(function).arguments.size()) raise<AttrError>("{} of rows reads another number of values", name);
  RowStage stage{.function = function, .arguments = std::move(arguments)};
  stage.number = number;
  stage.dtype = if_narrow(dtype);
  return stage;
}

int RowStage::gives() const {
  return function == RowFunction::map ? loops->program().num_results() : static_cast<int>(signature_of(function).results.size());
}

const RowSignature& row_signature(std::string_view name) { return signature_of(function_named(name)); }

bool RowProgram::is_read_per_row(int value) const {
  return std::any_of(stages.begin(), stages.end(), [&](const RowStage& s) {
    const auto& kinds = signature_of(s.function).arguments;
    for (size_t a = 0; a < kinds.size(); ++a)
      if ((kinds[a] == RowValue::index || kinds[a] == RowValue::number) && s.arguments[a] == value) return true;
    return false;
  });
}

DType RowProgram::result_dtype(int result, int inputs) const {
  int value = results[static_cast<size_t>(result)] - inputs;
  for (const RowStage& s : stages) {
    if (value >= 0 && value < s.gives() && s.function == RowFunction::map)
      return dtype_of_value(s.loops->program(), s.loops->program().result(value));
    if (value >= 0 && value < s.gives() && s.dtype) {
      const RowValue kind = signature_of(s.function).results[static_cast<size_t>(value)];
      if (s.function == RowFunction::reduce || kind == RowValue::sum) return *s.dtype;
    }
    value -= s.gives();
  }
  return storage_of(type);
}

std::string row_program_text(const RowProgram& program) {
  std::string text = program.type == ComputeType::f64 ? "f64" : "f32";
  for (const RowStage& s : program.stages) text += "; " + stage_text(s);
  return text + fmt::format("; -> {}", fmt::join(program.results, ","));
}

RowProgram parse_row_program(const std::string& text) {
  RowProgram program;
  std::string_view rest = text;
  for (bool first = true; program.results.empty(); first = false) {
    const size_t end = rest.find("; ");
    const std::string_view words = rest.substr(0, end);
    if (first) {
      if (words != "f32" && words != "f64") damaged(text);
      program.type = words == "f64" ? ComputeType::f64 : ComputeType::f32;
    } else if (words.starts_with("-> ")) {
      program.results = parse_values(text, words.substr(3));
    } else {
      program.stages.push_back(parse_stage(text, words));
      const RowStage& s = program.stages.back();
      if (s.loops && s.loops->program().type() != program.type) damaged(text);
      if (s.dtype && program.type != ComputeType::f32) damaged(text);
    }
    if ((end == std::string_view::npos) != !program.results.empty()) damaged(text);
    if (end != std::string_view::npos) rest.remove_prefix(end + 2);
  }
  if (program.stages.empty() || program.results.size() > Program::kMaxResults) damaged(text);
  return program;
}

RowKernel::RowKernel(const RowProgram& program, std::span<const Shape> inputs, int axes)
    : program_(program), inputs_(static_cast<int>(inputs.size())) {
  std::vector<Shape> broadcasting;
  for (int i = 0; i < inputs_; ++i)
    if (!program.is_read_per_row(i)) broadcasting.push_back(inputs[static_cast<size_t>(i)]);
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
    const Shape& s = inputs[static_cast<size_t>(k)];
    bool narrow = true;
    for (int i = 0; i < std::min(axes, s.ndim()); ++i) narrow &= s[s.ndim() - 1 - i] == 1;
    kinds_.push_back(narrow || program.is_read_per_row(k) ? RowValue::number : RowValue::row);
  }
  for (const RowStage& stage : program.stages) {
    check_stage(stage, inputs);
    const bool all_narrow = std::all_of(stage.arguments.begin(), stage.arguments.end(),
                                        [&](int a) { return kinds_[static_cast<size_t>(a)] == RowValue::number; });
    for (int k = 0; k < stage.gives(); ++k)
      kinds_.push_back(stage.function != RowFunction::map ? signature_of(stage.function).results[static_cast<size_t>(k)]
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
    const RowValue kind = kinds_[static_cast<size_t>(a)], needed = is_map ? kind : signature_of(stage.function).arguments[k];
    const bool needs_row = needed == RowValue::row || needed == RowValue::shared;
    if (kind == RowValue::sum) raise<AttrError>("value {} is not known before all rows are done", a);
    if (a >= inputs_) {
      if (needs_row && kind == RowValue::number) raise<AttrError>("value {} has one number per row, not a row", a);
      if (!needs_row && kind == RowValue::row) raise<AttrError>("value {} is a row, not one number per row", a);
      continue;
    }
    const Shape& shape = inputs[static_cast<size_t>(a)];
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
    memory.resize(static_cast<size_t>(bytes + k.length_ * width + 64));
    char* base = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    exps = base + bytes;
    for (size_t v = inputs.size(); v < k.kinds_.size(); ++v) values.push_back({base + offsets[v - inputs.size()], type, &k.shape_of(v)});
    for (size_t i = 0; i < outputs.size(); ++i) is_direct.push_back(can_write_directly(i));
    indices.resize(static_cast<size_t>(at_once));
    size_t map = 0;
    for (const RowStage& s : k.program_.stages) {
      arguments.emplace_back();
      for (int a : s.arguments) arguments.back().push_back(values[static_cast<size_t>(a)]);
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
      if (is_direct[i]) values[static_cast<size_t>(k.program_.results[i])].data = output(i, begin);
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
        arguments[number][a].data = values[static_cast<size_t>(stage.arguments[a])].data;
        arguments[number][a].first = begin * per_row;
      }
    std::array<Result, Program::kMaxResults> results;
    const auto count = static_cast<size_t>(stage.gives());
    for (size_t r = 0; r < count; ++r) results[r] = {place(value + r), type};
    range.run(begin * per_row, end * per_row, {results.data(), count});
  }
  // Row r of a value that is made of rows; of an input that has one row for all: that one.
  const void* row(int value, int64_t r, int64_t block_begin) const {
    const Operand& o = values[static_cast<size_t>(value)];
    const int64_t at = value >= k.inputs_ ? r - block_begin : *o.shape == k.whole_ ? r : 0;
    return static_cast<const char*>(o.data) + at * k.length_ * width;
  }
  // One number per row, from row `begin` on.
  const char* numbers(int value, int64_t begin) const {
    const Operand& o = values[static_cast<size_t>(value)];
    return static_cast<const char*>(o.data) + (value < k.inputs_ ? begin * dtype_bytes(o.dtype) : 0);
  }
  // The places that the numbers name in rows.
  void read_indices(int value, int64_t begin, int64_t end) {
    convert(numbers(value, begin), values[static_cast<size_t>(value)].dtype, indices.data(), DType::int64, end - begin);
    for (int64_t r = 0; r < end - begin; ++r)
      indices[static_cast<size_t>(r)] = std::clamp<int64_t>(indices[static_cast<size_t>(r)], 0, k.length_ - 1);
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
      switch (stage.function) {
        case RowFunction::softmax_grad: softmax_grad_row(argument(0), argument(1), n, out, number); break;
        case RowFunction::log_softmax_grad: log_softmax_grad_row(argument(0), argument(1), n, out, number, buffer); break;
        case RowFunction::layer_norm:
          layer_norm_row(argument(0), n, number, argument(1), argument(2), out, given(1) + (r - begin), given(2) + (r - begin));
          break;
        case RowFunction::layer_norm_grad:
          layer_norm_grad_row(argument(0), argument(1), n, argument(2), number_of(3), number_of(4), out, given(1), given(2));
          break;
        case RowFunction::pick: given(0)[r - begin] = argument(0)[indices[static_cast<size_t>(r - begin)]]; break;
        case RowFunction::pick_grad:
          std::fill_n(out, n, T(0));
          out[indices[static_cast<size_t>(r - begin)]] = number_of(0);
          break;
        default:
          if (argument(0) != out) std::copy_n(argument(0), n, out);
          row_functions<T>().softmax(out, n, number, stage.function == RowFunction::log_softmax, buffer);
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

void RowKernel::run(std::span<const Operand> inputs, std::span<const Result> results) const {
  const DType type = storage_of(program_.type);
  for (const RowStage& s : program_.stages)
    for (size_t a = 0; a < s.arguments.size(); ++a) {
      const int v = s.arguments[a];
      if (s.function == RowFunction::map || signature_of(s.function).arguments[a] == RowValue::index) continue;
      if (v < inputs_ && inputs[static_cast<size_t>(v)].dtype != type)
        raise<DTypeError>("value {} is not of the type that rows are computed in", v);
    }
  if (rows_ == 0) return clear_sums(results);
  std::vector<Operand> values(inputs.begin(), inputs.end());
  for (size_t v = inputs.size(); v < kinds_.size(); ++v) values.push_back({nullptr, type, &shape_of(v)});
  std::vector<ElementwiseRange> maps;
  std::vector<Operand> arguments;
  auto value = static_cast<size_t>(inputs_);
  for (const RowStage& s : program_.stages) {
    if (s.function == RowFunction::map) {
      arguments.clear();
      for (int a : s.arguments) arguments.push_back(values[static_cast<size_t>(a)]);
      maps.emplace_back(s.loops->program(), arguments, shape_of(value), s.loops.get());
    }
    value += static_cast<size_t>(s.gives());
  }
  if (const auto sums = std::count(kinds_.begin(), kinds_.end(), RowValue::sum))
    run_with_sums(inputs, results, maps, sums);
  else
    parallel_for(rows_, row_grain(length_), [&](int64_t begin, int64_t end) { Run(*this, inputs, results, maps).rows(begin, end); });
}

void RowKernel::clear_sums(std::span<const Result> results) const {
  for (size_t i = 0; i < results.size(); ++i)
    if (kinds_[static_cast<size_t>(program_.results[i])] == RowValue::sum)
      std::fill_n(static_cast<char*>(results[i].data), length_ * dtype_bytes(results[i].dtype), char(0));
}

void RowKernel::run_with_sums(std::span<const Operand> inputs, std::span<const Result> results, const std::vector<ElementwiseRange>& maps,
                              int64_t sums) const {
  const DType type = storage_of(program_.type);
  const RowParts parts(rows_);
  const int64_t width = dtype_bytes(type), bytes = sums * length_ * width;
  std::vector<char> memory(static_cast<size_t>(parts.count * bytes));
  parallel_for(parts.count, parts.grain(length_), [&](int64_t begin, int64_t end) {
    Run run(*this, inputs, results, maps);
    for (int64_t p = begin; p < end; ++p) {
      run.add_to(memory.data() + p * bytes);
      run.rows(parts.begin(p), parts.end(p));
    }
  });
  for (size_t i = 0; i < results.size(); ++i) {
    const auto v = program_.results[i];
    if (kinds_[static_cast<size_t>(v)] != RowValue::sum) continue;
    const char* first = memory.data() + std::count(kinds_.begin(), kinds_.begin() + v, RowValue::sum) * length_ * width;
    const auto add = [&]<class T>(std::vector<T> total) {
      parts.add(reinterpret_cast<const T*>(first), sums * length_, length_, total.data());
      convert(total.data(), type, results[i].data, results[i].dtype, length_);
    };
    if (type == DType::float64)
      add(std::vector<double>(static_cast<size_t>(length_)));
    else
      add(std::vector<float>(static_cast<size_t>(length_)));
  }
}

}  // namespace gluino::kernels
