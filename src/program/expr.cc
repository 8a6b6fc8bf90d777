#include "gluino/expr.h"

#include <vector>

#include "base/format.h"

namespace gluino {

int arity(ScalarFn fn) {
  static constexpr int kArity[] = {
#define GLUINO_X(name, arity) arity,
      GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef GLUINO_X
  };
  return kArity[static_cast<int>(fn)];
}

const char* name(ScalarFn fn) {
  static constexpr const char* kNames[] = {
#define GLUINO_X(name, arity) #name,
      GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef GLUINO_X
  };
  return kNames[static_cast<int>(fn)];
}

int Program::append(const Instruction& instruction) {
  if (size_ == kMaxInstructions) throw InternalError("a scalar expression has too many instructions");
  code_[size_] = instruction;
  return size_++;
}

bool Program::is_result(int position) const {
  for (int i = 0; i < num_results(); ++i)
    if (result(i) == position) return true;
  return false;
}

void Program::add_result(int position) {
  if (named_results_ == kMaxResults) throw InternalError("a scalar program has too many results");
  results_[named_results_++] = static_cast<uint8_t>(position);
}

std::string Program::str() const {
  std::vector<std::string> text;
  for (int i = 0; i < size_; ++i) {
    const Instruction& in = (*this)[i];
    if (in.fn == ScalarFn::input) {
      text.push_back(fmt::format("x{}", in.args[0]));
    } else if (in.fn == ScalarFn::constant) {
      text.push_back(fmt::format("{}", in.value));
    } else {
      std::string call = std::string(name(in.fn)) + "(";
      for (int k = 0; k < arity(in.fn); ++k) call += (k ? ", " : "") + text[in.args[k]];
      text.push_back(call + ")");
    }
  }
  std::string results;
  for (int i = 0; i < num_results() && !text.empty(); ++i) results += (i ? ", " : "") + text[result(i)];
  return results;
}

Expr Expr::input(Program& p, int number) { return {p, p.append({ScalarFn::input, {static_cast<uint8_t>(number), 0, 0}, 0})}; }
Expr Expr::constant(Program& p, double value) { return {p, p.append({ScalarFn::constant, {0, 0, 0}, value})}; }
Expr Expr::call(ScalarFn fn, Expr a) { return {a.program(), a.program().append({fn, {static_cast<uint8_t>(a.position_), 0, 0}, 0})}; }
Expr Expr::call(ScalarFn fn, Expr a, Expr b) {
  return {a.program(), a.program().append({fn, {static_cast<uint8_t>(a.position_), static_cast<uint8_t>(b.position_), 0}, 0})};
}
Expr Expr::call(ScalarFn fn, Expr a, Expr b, Expr c) {
  return {a.program(),
          a.program().append(
              {fn, {static_cast<uint8_t>(a.position_), static_cast<uint8_t>(b.position_), static_cast<uint8_t>(c.position_)}, 0})};
}

}  // namespace gluino
