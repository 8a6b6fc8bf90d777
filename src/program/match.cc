#include "program/match.h"

#include <algorithm>
#include <cmath>

namespace gluino {
namespace {

// 0 and -0 are different numbers, and nan is one.
bool same_number(double a, double b) { return (a == b && std::signbit(a) == std::signbit(b)) || (std::isnan(a) && std::isnan(b)); }

}  // namespace

Expr Pattern::any_number() {
  const Expr number = Expr::constant(program_, 0);
  open_.push_back(number.position());
  return number;
}

// Whether the program computes at `position` what the pattern does at `part`.
bool Pattern::fits(int part, const Program& program, int position, std::vector<std::optional<double>>& numbers) const {
  const Instruction &wanted = program_[part], &found = program[position];
  if (wanted.fn != found.fn) return false;
  if (wanted.fn == ScalarFn::input) return wanted.args[0] == found.args[0];
  if (wanted.fn == ScalarFn::constant) {
    const auto open = std::find(open_.begin(), open_.end(), part);
    if (open == open_.end()) return same_number(wanted.value, found.value);
    std::optional<double>& number = numbers[open - open_.begin()];
    if (!number) number = found.value;
    return same_number(*number, found.value);
  }
  for (int k = 0; k < arity(wanted.fn); ++k)
    if (!fits(wanted.args[k], program, found.args[k], numbers)) return false;
  return true;
}

std::optional<std::vector<double>> match(const Program& program, const Pattern& pattern) {
  std::vector<std::optional<double>> numbers(pattern.open_.size());
  if (program.size() == 0 || program.num_results() != 1 || !pattern.fits(pattern.root_, program, program.result(0), numbers)) return {};
  std::vector<double> found;
  for (const std::optional<double>& n : numbers) found.push_back(n.value_or(0));  // without one: asked for and not used
  return found;
}

}  // namespace gluino
