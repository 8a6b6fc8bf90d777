#include "program/program_text.h"

#include <charconv>
#include <map>
#include <string_view>

#include "base/format.h"
#include "kernels/isa/primitives.h"

namespace gluino {
namespace {

constexpr std::string_view kTypes[] = {"f32", "f64", "i32", "i64"};

[[noreturn]] void damaged(const std::string& text) { raise<AttrError>("'{}' is not a program", text); }

int parse_number(const std::string& text, std::string_view digits, int below) {
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0 || value >= below) damaged(text);
  return value;
}

const std::map<std::string_view, ScalarFn>& functions() {
  static const std::map<std::string_view, ScalarFn> all = [] {
    std::map<std::string_view, ScalarFn> m;
    for (int i = 0; i < kScalarFunctions; ++i) m[name(static_cast<ScalarFn>(i))] = static_cast<ScalarFn>(i);
    return m;
  }();
  return all;
}

Instruction parse_call(const std::string& text, std::string_view word, int size) {
  const size_t open = word.find('(');
  const auto fn = functions().find(word.substr(0, open));
  if (fn == functions().end() || word.back() != ')' || arity(fn->second) == 0) damaged(text);
  Instruction in{fn->second, {0, 0, 0}, 0};
  std::string_view rest = word.substr(open + 1, word.size() - open - 2);
  for (int k = 0; k < arity(in.fn); ++k) {
    const size_t comma = rest.find(',');
    if ((comma == std::string_view::npos) != (k + 1 == arity(in.fn))) damaged(text);
    in.args[k] = static_cast<uint8_t>(parse_number(text, rest.substr(0, comma), size));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return in;
}

void parse_results(const std::string& text, std::string_view list, Program& program) {
  for (;;) {
    const size_t comma = list.find(',');
    if (program.num_results() == Program::kMaxResults) damaged(text);
    program.add_result(parse_number(text, list.substr(0, comma), program.size()));
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string program_text(const Program& program) {
  std::string text(kTypes[static_cast<size_t>(program.type())]);
  for (int i = 0; i < program.size(); ++i) {
    const Instruction& in = program[i];
    if (in.fn == ScalarFn::input) {
      text += fmt::format(" x{}", in.args[0]);
    } else if (in.fn == ScalarFn::constant) {
      text += fmt::format(" {}", in.value);
    } else {
      text += fmt::format(" {}(", name(in.fn));
      for (int k = 0; k < arity(in.fn); ++k) text += fmt::format("{}{}", k ? "," : "", in.args[k]);
      text += ")";
    }
  }
  if (program.num_results() == 1 && program.result(0) == program.size() - 1) return text;
  for (int i = 0; i < program.num_results(); ++i) text += fmt::format("{}{}", i ? "," : " -> ", program.result(i));
  return text;
}

Program parse_program(const std::string& text) {
  std::string_view rest = text;
  const auto next = [&] {
    const size_t space = rest.find(' ');
    const std::string_view word = rest.substr(0, space);
    rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
    return word;
  };
  const std::string_view type = next();
  const auto* found = std::find(std::begin(kTypes), std::end(kTypes), type);
  if (found == std::end(kTypes)) damaged(text);
  Program program(static_cast<ComputeType>(found - kTypes));
  while (!rest.empty()) {
    const std::string_view word = next();
    if (word == "->") {
      parse_results(text, next(), program);
      if (!rest.empty()) damaged(text);
      break;
    }
    if (word.empty() || program.size() == Program::kMaxInstructions) damaged(text);
    if (word[0] == 'x') {
      program.append({ScalarFn::input, {static_cast<uint8_t>(parse_number(text, word.substr(1), 256)), 0, 0}, 0});
    } else if (word.find('(') != std::string_view::npos) {
      program.append(parse_call(text, word, program.size()));
    } else {
      double value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size()) damaged(text);
      program.append({ScalarFn::constant, {0, 0, 0}, value});
    }
  }
  return program;
}

void check_program(const Program& p, size_t inputs) {
  if (p.size() == 0) raise<AttrError>("the program is empty");
  for (int i = 0; i < p.size(); ++i) {
    if (p[i].fn == ScalarFn::input && p[i].args[0] >= inputs)
      raise<AttrError>("the program reads input {}, but there are {}", p[i].args[0], inputs);
    if (arity(p[i].fn) > 0 && !kernels::primitives().scalar[static_cast<int>(p[i].fn)][static_cast<size_t>(p.type())])
      raise<AttrError>("the program calls {}, which is not defined in its type", name(p[i].fn));
  }
}

DType kernels::dtype_of_value(const Program& program, int position) {
  switch (program[position].fn) {
    case ScalarFn::to_float16: return DType::float16;
    case ScalarFn::to_bfloat16: return DType::bfloat16;
    case ScalarFn::to_bool: return DType::boolean;
    default: return storage_of(program.type());
  }
}

}  // namespace gluino
