#include "program/row_program.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "kernels/isa/primitives.h"
#include "program/compiled_rows.h"
#include "program/program_text.h"

namespace gluino::kernels {
namespace {

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
  if (name != row_signature(RowFunction::map).name) {
    const size_t space = rest.find(' ');
    const std::string_view first = rest.substr(0, space);
    const DType dtype = space == std::string_view::npos ? DType::float32 : parse_dtype(rest.substr(space + 1));
    const int how = index_of(kReduceNames, name), finish = index_of(kFinishNames, first);
    if (how < 0) return function_stage(function_named(name), std::move(arguments), parse_number<double>(text, first), dtype);
    if (arguments.size() != 1) damaged(text);
    if (finish < 0) raise<AttrError>("there is no reduction {} {} of rows", name, first);
    return reduction_stage(static_cast<ReduceOp>(how), static_cast<ReduceFinish>(finish), arguments[0], dtype);
  }
  const Program program = parse_program(std::string(rest));
  check_program(program, arguments.size());
  return map_stage(program, std::move(arguments));
}

std::string stage_text(const RowStage& s) {
  const std::string_view function = s.function == RowFunction::reduce ? name(s.how) : row_signature(s.function).name;
  std::string rest = s.function == RowFunction::map      ? program_text(s.loops->program())
                     : s.function == RowFunction::reduce ? name(s.finish)
                                                         : fmt::format("{}", s.number);
  if (s.dtype) rest += fmt::format(" {}", dtype_name(*s.dtype));
  return fmt::format("{}({}) {}", function, fmt::join(s.arguments, ","), rest);
}

}  // namespace

RowStage map_stage(const Program& program, std::vector<int> arguments) {
  RowStage stage{.function = RowFunction::map, .arguments = std::move(arguments), .loops = CompiledLoops::of(program)};
  return stage;
}
static std::optional<DType> if_narrow(DType dtype) { return dtype_bytes(dtype) == 2 ? std::optional(dtype) : std::nullopt; }
RowStage reduction_stage(ReduceOp how, ReduceFinish finish, int argument, DType dtype) {
  return {.function = RowFunction::reduce, .arguments = {argument}, .loops = {}, .how = how, .finish = finish, .dtype = if_narrow(dtype)};
}
RowStage function_stage(RowFunction function, std::vector<int> arguments, double number, DType dtype) {
  const RowSignature& signature = row_signature(function);
  if (arguments.size() != signature.arguments.size()) raise<AttrError>("{} of rows reads another number of values", signature.name);
  RowStage stage{.function = function, .arguments = std::move(arguments)};
  stage.number = number;
  stage.dtype = if_narrow(dtype);
  return stage;
}

int RowStage::gives() const {
  return function == RowFunction::map ? loops->program().num_results() : static_cast<int>(row_signature(function).results.size());
}

const RowSignature& row_signature(RowFunction function) { return signatures()[static_cast<size_t>(function)]; }

bool RowProgram::is_read_per_row(int value) const {
  return std::any_of(stages.begin(), stages.end(), [&](const RowStage& s) {
    const auto& kinds = row_signature(s.function).arguments;
    for (size_t a = 0; a < kinds.size(); ++a)
      if ((kinds[a] == RowValue::index || kinds[a] == RowValue::number) && s.arguments[a] == value) return true;
    return false;
  });
}

DType RowProgram::result_dtype(int result, int inputs) const {
  int value = results[result] - inputs;
  for (const RowStage& s : stages) {
    if (value >= 0 && value < s.gives() && s.function == RowFunction::map)
      return dtype_of_value(s.loops->program(), s.loops->program().result(value));
    if (value >= 0 && value < s.gives() && s.dtype) {
      const RowValue kind = row_signature(s.function).results[value];
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
  program.compiled = CompiledRows::of(text);
  return program;
}

}  // namespace gluino::kernels
