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
struct FunctionInfo {
  std::string_view name;
  size_t arguments = 0;
  int gives = 1;
};
constexpr FunctionInfo kFunctions[] = {
    {"map"}, {"reduce"}, {"softmax", 1}, {"log_softmax", 1}, {"softmax_grad", 2}, {"log_softmax_grad", 2}, {"layer_norm", 3, 3}};
const FunctionInfo& info_of(RowFunction f) { return kFunctions[static_cast<size_t>(f)]; }

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
  if (index_of(kReduceNames, name) >= 0) {
    if (arguments.size() != 1) damaged(text);
    return reduction_stage(name, rest, arguments[0]);
  }
  if (name != info_of(RowFunction::map).name) return function_stage(name, std::move(arguments), parse_number<double>(text, rest));
  const Program program = parse_program(std::string(rest));
  check_program(program, arguments.size());
  return map_stage(program, std::move(arguments));
}

std::string stage_text(const RowStage& s) {
  const std::string_view name =
      s.function == RowFunction::reduce ? std::string_view(kReduceNames[static_cast<size_t>(s.how)]) : info_of(s.function).name;
  const std::string rest = s.function == RowFunction::map      ? program_text(s.loops->program())
                           : s.function == RowFunction::reduce ? kFinishNames[static_cast<size_t>(s.finish)]
                                                               : fmt::format("{}", s.number);
  return fmt::format("{}({}) {}", name, fmt::join(s.arguments, ","), rest);
}

}  // namespace

RowStage map_stage(const Program& program, std::vector<int> arguments) {
  RowStage stage{.function = RowFunction::map, .arguments = std::move(arguments), .loops = CompiledLoops::of(program)};
  return stage;
}
RowStage reduction_stage(std::string_view how, std::string_view finish, int argument) {
  const int h = index_of(kReduceNames, how), f = index_of(kFinishNames, finish);
  if (h < 0 || f < 0) raise<AttrError>("there is no reduction {} {} of rows", how, finish);
  return {.function = RowFunction::reduce,
          .arguments = {argument},
          .loops = {},
          .how = static_cast<ReduceOp>(h),
          .finish = static_cast<ReduceFinish>(f)};
}
RowStage function_stage(std::string_view name, std::vector<int> arguments, double number) {
  const auto* info = std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const FunctionInfo& f) { return f.name == name; });
  if (info == std::end(kFunctions) || info->arguments == 0) raise<AttrError>("there is no function {} of rows", name);
  const auto function = static_cast<RowFunction>(info - std::begin(kFunctions));
  if (arguments.size() != info->arguments) raise<AttrError>("{} of rows reads another number of values", name);
  RowStage stage{.function = function, .arguments = std::move(arguments)};
  stage.number = number;
  return stage;
}

int RowStage::gives() const { return function == RowFunction::map ? loops->program().num_results() : info_of(function).gives; }

DType RowProgram::result_dtype(int result, int inputs) const {
  int value = results[static_cast<size_t>(result)] - inputs;
  for (const RowStage& s : stages) {
    if (value >= 0 && value < s.gives() && s.function == RowFunction::map)
      return dtype_of_value(s.loops->program(), s.loops->program().result(value));
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
    }
    if ((end == std::string_view::npos) != !program.results.empty()) damaged(text);
    if (end != std::string_view::npos) rest.remove_prefix(end + 2);
  }
  if (program.stages.empty() || program.results.size() > Program::kMaxResults) damaged(text);
  return program;
}

RowKernel::RowKernel(const RowProgram& program, std::span<const Shape> inputs, int axes)
    : program_(program), inputs_(static_cast<int>(inputs.size())), whole_(broadcast_shapes(inputs)), narrow_(whole_) {
  if (axes < 1 || axes > whole_.ndim()) raise<ShapeError>("shape {} has no row of {} axes", whole_, axes);
  rows_ = whole_.elements(0, whole_.ndim() - axes);
  length_ = whole_.elements(whole_.ndim() - axes, whole_.ndim());
  if (length_ == 0) raise<ShapeError>("the rows of shape {} are empty", whole_);
  for (int i = whole_.ndim() - axes; i < whole_.ndim(); ++i) narrow_[i] = 1;
  for (const Shape& s : inputs) {
    bool narrow = true;
    for (int i = 0; i < std::min(axes, s.ndim()); ++i) narrow &= s[s.ndim() - 1 - i] == 1;
    is_narrow_.push_back(narrow);
  }
  for (const RowStage& stage : program.stages) {
    bool all_narrow = true;
    for (int a : stage.arguments) {
      if (a >= static_cast<int>(is_narrow_.size())) raise<AttrError>("a stage reads value {}, but there are {}", a, is_narrow_.size());
      all_narrow &= is_narrow_[static_cast<size_t>(a)];
      const bool is_map = stage.function == RowFunction::map, is_input = a < inputs_;
      if (!is_map && !is_input && is_narrow_[static_cast<size_t>(a)]) raise<AttrError>("value {} has one number per row, not a row", a);
      if (is_map || !is_input || inputs[static_cast<size_t>(a)] == whole_) continue;
      if (stage.function != RowFunction::layer_norm || a == stage.arguments[0] || inputs[static_cast<size_t>(a)].elements() != length_)
        raise<ShapeError>("value {} of shape {} is not made of rows of {} elements", a, inputs[static_cast<size_t>(a)], length_);
    }
    for (int k = 0; k < stage.gives(); ++k)
      is_narrow_.push_back(stage.function == RowFunction::map ? all_narrow : stage.function == RowFunction::reduce || k > 0);
  }
  for (int v : program.results)
    if (v < inputs_ || v >= static_cast<int>(is_narrow_.size())) raise<AttrError>("no stage gives value {}", v);
}

const Shape& RowKernel::result_shape(int result) const {
  return is_narrow_[static_cast<size_t>(program_.results[static_cast<size_t>(result)])] ? narrow_ : whole_;
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
    for (size_t v = inputs.size(); v < k.is_narrow_.size(); ++v) {
      offsets.push_back(bytes);
      bytes += (elements(v, at_once) * width + 63) / 64 * 64;
    }
    memory.resize(static_cast<size_t>(bytes + k.length_ * width + 64));
    char* base = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    exps = base + bytes;
    for (size_t v = inputs.size(); v < k.is_narrow_.size(); ++v)
      values.push_back({base + offsets[v - inputs.size()], type, k.is_narrow_[v] ? &k.narrow_ : &k.whole_});
    size_t map = 0;
    for (const RowStage& s : k.program_.stages) {
      arguments.emplace_back();
      for (int a : s.arguments) arguments.back().push_back(values[static_cast<size_t>(a)]);
      if (s.function == RowFunction::map) bound.push_back(maps[map++].rebound(arguments.back()));
    }
  }
  int64_t elements(size_t value, int64_t rows) const { return k.is_narrow_[value] ? rows : rows * k.length_; }
  void* place(size_t value) const { return const_cast<void*>(values[value].data); }

  void rows(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += at_once) block(r, std::min(end, r + at_once));
  }
  void block(int64_t begin, int64_t end) {
    aim_last_stage(begin);
    size_t value = static_cast<size_t>(k.inputs_), map = 0;
    for (size_t s = 0; s < k.program_.stages.size(); ++s) {
      const RowStage& stage = k.program_.stages[s];
      if (stage.function == RowFunction::map)
        run_map(bound[map++], stage, s, value, begin, end);
      else if (stage.function == RowFunction::reduce)
        reduce_neighbours(stage.how, stage.finish, row(stage.arguments[0], begin, begin), type, end - begin, k.length_, k.rows_,
                          place(value));
      else if (type == DType::float64)
        run_function<double>(stage, value, begin, end);
      else
        run_function<float>(stage, value, begin, end);
      value += static_cast<size_t>(stage.gives());
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto v = static_cast<size_t>(k.program_.results[i]);
      if (void* to = output(i, begin); to != values[v].data) convert(values[v].data, type, to, outputs[i].dtype, elements(v, end - begin));
    }
  }
  void* output(size_t i, int64_t row) const {
    const int64_t at = elements(static_cast<size_t>(k.program_.results[i]), row);
    return static_cast<char*>(outputs[i].data) + at * dtype_bytes(outputs[i].dtype);
  }
  // The last stage writes its results where they belong; others are copied when it is done, since an output may be an input.
  void aim_last_stage(int64_t begin) {
    const size_t first = values.size() - static_cast<size_t>(k.program_.stages.back().gives());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (const auto v = static_cast<size_t>(k.program_.results[i]); v >= first && outputs[i].dtype == type)
        values[v].data = output(i, begin);
  }
  void run_map(const ElementwiseRange& range, const RowStage& stage, size_t number, size_t value, int64_t begin, int64_t end) {
    const int64_t per_row = k.is_narrow_[value] ? 1 : k.length_;
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
  template <class T>
  void run_function(const RowStage& stage, size_t value, int64_t begin, int64_t end) {
    const int64_t n = k.length_;
    for (int64_t r = begin; r < end; ++r) {
      const auto argument = [&](size_t a) { return static_cast<const T*>(row(stage.arguments[a], r, begin)); };
      T *out = static_cast<T*>(place(value)) + (r - begin) * n, *buffer = reinterpret_cast<T*>(exps);
      const T number = static_cast<T>(stage.number);
      switch (stage.function) {
        case RowFunction::softmax_grad: softmax_grad_row(argument(0), argument(1), n, out, number); break;
        case RowFunction::log_softmax_grad: log_softmax_grad_row(argument(0), argument(1), n, out, number, buffer); break;
        case RowFunction::layer_norm: {
          T *mean = static_cast<T*>(place(value + 1)), *std = static_cast<T*>(place(value + 2));
          layer_norm_row(argument(0), n, number, argument(1), argument(2), out, mean + (r - begin), std + (r - begin));
          break;
        }
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
  std::vector<char> memory;
  char* exps;
  std::vector<std::vector<Operand>> arguments;  // of each stage
  std::vector<ElementwiseRange> bound;          // of each map
};

void RowKernel::run(std::span<const Operand> inputs, std::span<const Result> results) const {
  if (whole_.elements() == 0) return;
  for (const RowStage& s : program_.stages)
    for (int a : s.arguments)
      if (s.function != RowFunction::map && a < inputs_ && inputs[static_cast<size_t>(a)].dtype != storage_of(program_.type))
        raise<DTypeError>("value {} is not of the type that rows are computed in", a);
  std::vector<Operand> values(inputs.begin(), inputs.end());
  for (size_t v = inputs.size(); v < is_narrow_.size(); ++v)
    values.push_back({nullptr, storage_of(program_.type), is_narrow_[v] ? &narrow_ : &whole_});
  std::vector<ElementwiseRange> maps;
  std::vector<Operand> arguments;
  auto value = static_cast<size_t>(inputs_);
  for (const RowStage& s : program_.stages) {
    if (s.function == RowFunction::map) {
      arguments.clear();
      for (int a : s.arguments) arguments.push_back(values[static_cast<size_t>(a)]);
      maps.emplace_back(s.loops->program(), arguments, is_narrow_[value] ? narrow_ : whole_, s.loops.get());
    }
    value += static_cast<size_t>(s.gives());
  }
  parallel_for(rows_, row_grain(length_), [&](int64_t begin, int64_t end) { Run(*this, inputs, results, maps).rows(begin, end); });
}

}  // namespace gluino::kernels
