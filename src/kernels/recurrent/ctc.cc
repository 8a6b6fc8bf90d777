#include "kernels/recurrent/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace gluino::kernels {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kImpossible ? a : a + std::log1p(std::exp(b - a));
}

// The labels with blanks between and around them, and where a path may skip a blank.
struct Path {
  std::vector<int64_t> symbols;
  int64_t length() const { return static_cast<int64_t>(symbols.size()); }
  int64_t at(int64_t s) const { return symbols[s]; }
  bool can_skip_to(int64_t s, int64_t blank) const { return s >= 2 && at(s) != blank && at(s) != at(s - 2); }
};

}  // namespace

double ctc_loss(const double* log_probs, int64_t time, int64_t classes, std::span<const int64_t> labels, int64_t blank, double* gradient) {
  std::fill_n(gradient, time * classes, 0.0);
  Path path;
  int64_t repeats = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    path.symbols.push_back(blank);
    path.symbols.push_back(labels[i]);
    repeats += i > 0 && labels[i] == labels[i - 1];
  }
  path.symbols.push_back(blank);
  const int64_t n = path.length();
  if (time == 0 || static_cast<int64_t>(labels.size()) + repeats > time) return 0;

  const auto log_p = [&](int64_t t, int64_t s) { return log_probs[t * classes + path.at(s)]; };
  std::vector<double> alpha(time * n, kImpossible), beta(alpha);  // both include the probability at t
  const auto cell = [n](std::vector<double>& v, int64_t t, int64_t s) -> double& { return v[t * n + s]; };
  for (int64_t s = 0; s < std::min<int64_t>(n, 2); ++s) cell(alpha, 0, s) = log_p(0, s);
  for (int64_t t = 1; t < time; ++t)
    for (int64_t s = 0; s < n; ++s) {
      double sum = cell(alpha, t - 1, s);
      if (s >= 1) sum = log_add(sum, cell(alpha, t - 1, s - 1));
      if (path.can_skip_to(s, blank)) sum = log_add(sum, cell(alpha, t - 1, s - 2));
      cell(alpha, t, s) = sum + log_p(t, s);
    }
  for (int64_t s = std::max<int64_t>(n - 2, 0); s < n; ++s) cell(beta, time - 1, s) = log_p(time - 1, s);
  for (int64_t t = time - 2; t >= 0; --t)
    for (int64_t s = 0; s < n; ++s) {
      double sum = cell(beta, t + 1, s);
      if (s + 1 < n) sum = log_add(sum, cell(beta, t + 1, s + 1));
      if (s + 2 < n && path.can_skip_to(s + 2, blank)) sum = log_add(sum, cell(beta, t + 1, s + 2));
      cell(beta, t, s) = sum + log_p(t, s);
    }
  const double total = n > 1 ? log_add(cell(alpha, time - 1, n - 1), cell(alpha, time - 1, n - 2)) : cell(alpha, time - 1, 0);
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t c = 0; c < classes; ++c) gradient[t * classes + c] = std::exp(log_probs[t * classes + c]);
    for (int64_t s = 0; s < n; ++s)
      gradient[t * classes + path.at(s)] -= std::exp(cell(alpha, t, s) + cell(beta, t, s) - log_p(t, s) - total);
  }
  return -total;
}

}  // namespace gluino::kernels
