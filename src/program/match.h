// Recognising what a scalar program computes by its structure, whatever operator it came from.
#pragma once
#include <optional>
#include <vector>

#include "gluino/expr.h"

namespace gluino {

// An expression written as an operator's is, in which constants may be left open:
//   const Pattern scaled([](Pattern& p) { return p.input(0) * p.any_number(); });
class Pattern {
 public:
  template <class F>
  explicit Pattern(F write) {
    root_ = write(*this).position();
  }
  Expr input(int number) { return Expr::input(program_, number); }
  Expr any_number();  // any constant; used twice, the same one

 private:
  friend std::optional<std::vector<double>> match(const Program& program, const Pattern& pattern);
  bool fits(int part, const Program& program, int position, std::vector<std::optional<double>>& numbers) const;

  Program program_{ComputeType::f32};  // of which only the structure counts
  std::vector<int> open_;              // the positions of open constants
  int root_ = 0;
};

// The numbers in the places that the pattern left open, in the order in which it asked for them; null where the program computes
// something else, more than one result, or the same in another way: nothing is rearranged.
std::optional<std::vector<double>> match(const Program& program, const Pattern& pattern);

}  // namespace gluino
