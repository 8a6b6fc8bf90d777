#include "kernels/recurrent/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/isa/primitives.h"

namespace gluino::kernels {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

void apply_to(ScalarFn fn, double* x, int64_t n) {
  primitives().scalar[static_cast<int>(fn)][static_cast<int>(ComputeType::f64)](x, nullptr, nullptr, x, n);
}

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kImpossible ? a : a + std::log1p(std::exp(b - a));
}

// The labels with blanks between and around them. From each symbol a path goes on to the same one, to the next, and past a blank between
// two different labels.
struct Path {
  std::vector<int64_t> symbols;
  std::vector<double> skip;  // 0 where a path may come from two symbols before, else the logarithm of 0
  int64_t length() const { return static_cast<int64_t>(symbols.size()); }

  Path(std::span<const int64_t> labels, int64_t blank) {
    for (int64_t label : labels) {
      symbols.push_back(blank);
      symbols.push_back(label);
    }
    symbols.push_back(blank);
    for (size_t s = 0; s < symbols.size(); ++s)
      skip.push_back(s >= 2 && symbols[s] != blank && symbols[s] != symbols[s - 2] ? 0 : kImpossible);
  }
  // The same path from its end.
  Path reversed() const {
    Path r = *this;
    std::ranges::reverse(r.symbols);
    for (int64_t s = 2; s < length(); ++s) r.skip[s] = skip[length() + 1 - s];
    return r;
  }
};

// Logarithms of the probabilities of all ways to each symbol at each time, the time itself included. The steps of a time are taken
// together, as vectors.
class Ways {
 public:
  Ways(const Path& path, int64_t time)
      : path_(path), n_(path.length()), cells_(time * n_, kImpossible), before_(n_ + 2, kImpossible), parts_(2 * n_), most_(n_) {}
  double* at(int64_t t) { return cells_.data() + t * n_; }
  // From the row of `from` to that of `t`, where the symbols have these probabilities.
  void step(int64_t from, int64_t t, const double* log_probs) {
    std::copy_n(at(from), n_, before_.data() + 2);
    // Of the three summands the largest becomes 1, and only the others are computed.
    double *less = parts_.data(), *least = less + n_, *to = at(t);
    for (int64_t s = 0; s < n_; ++s) {
      const double stay = before_[s + 2], next = before_[s + 1], past = before_[s] + path_.skip[s];
      const double high = std::max(stay, next), low = std::min(stay, next), most = std::max(high, past);
      most_[s] = most == kImpossible ? 0 : most;  // what is subtracted from it stays impossible
      less[s] = std::max(low, std::min(high, past)) - most_[s];
      least[s] = std::min(low, past) - most_[s];
      to[s] = most == kImpossible ? 0 : 1;
    }
    apply_to(ScalarFn::exp, less, 2 * n_);
    for (int64_t s = 0; s < n_; ++s) to[s] += less[s] + least[s];
    apply_to(ScalarFn::log, to, n_);
    for (int64_t s = 0; s < n_; ++s) to[s] += most_[s] + log_probs[path_.symbols[s]];
  }
  void start(int64_t t, const double* log_probs) {
    for (int64_t s = 0; s < std::min<int64_t>(n_, 2); ++s) at(t)[s] = log_probs[path_.symbols[s]];
  }

 private:
  const Path& path_;
  int64_t n_;
  std::vector<double> cells_, before_, parts_, most_;
};

}  // namespace

double ctc_loss(const double* log_probs, int64_t time, int64_t classes, std::span<const int64_t> labels, int64_t blank, double* gradient) {
  std::fill_n(gradient, time * classes, 0.0);
  int64_t repeats = 0;
  for (size_t i = 1; i < labels.size(); ++i) repeats += labels[i] == labels[i - 1];
  if (time == 0 || static_cast<int64_t>(labels.size()) + repeats > time) return 0;
  const Path path(labels, blank), back = path.reversed();
  const int64_t n = path.length();
  Ways forward(path, time), backward(back, time);
  forward.start(0, log_probs);
  for (int64_t t = 1; t < time; ++t) forward.step(t - 1, t, log_probs + t * classes);
  backward.start(time - 1, log_probs + (time - 1) * classes);
  for (int64_t t = time - 2; t >= 0; --t) backward.step(t + 1, t, log_probs + t * classes);
  const double* end = forward.at(time - 1);
  const double total = n > 1 ? log_add(end[n - 1], end[n - 2]) : end[0];
  std::vector<double> share(n);
  for (int64_t t = 0; t < time; ++t) {
    double* to = gradient + t * classes;
    const double *log_p = log_probs + t * classes, *ahead = forward.at(t), *behind = backward.at(t);
    std::copy_n(log_p, classes, to);
    apply_to(ScalarFn::exp, to, classes);
    for (int64_t s = 0; s < n; ++s) share[s] = ahead[s] + behind[n - 1 - s] - log_p[path.symbols[s]] - total;
    apply_to(ScalarFn::exp, share.data(), n);
    for (int64_t s = 0; s < n; ++s) to[path.symbols[s]] -= share[s];
  }
  return -total;
}

}  // namespace gluino::kernels
