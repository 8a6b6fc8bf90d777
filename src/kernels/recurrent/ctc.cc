#include "kernels/recurrent/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/isa/primitives.h"
#include "kernels/rows/softmax.h"

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

// The same as probabilities, those of each time divided by their largest: a product for each step where logarithms need their functions.
// Backwards, the path is the reversed one, and so are the times.
class ScaledWays {
 public:
  ScaledWays(const Path& path, int64_t time) : path_(path), n_(path.length()), cells_(time * n_) {}
  const double* at(int64_t t) const { return cells_.data() + t * n_; }
  double log_scale() const { return log_scale_; }  // of what was divided by
  // Last cells, in which all ways end.
  double ends(int64_t t) const { return at(t)[n_ - 1] + (n_ > 1 ? at(t)[n_ - 2] : 0); }

  // False where something that is possible is too small beside something else to be told from 0.
  bool walk(const double* probs, int64_t time, int64_t classes, bool is_backwards) {
    constexpr double kLeast = 1e-200, kLeastFactor = 1e-100;
    std::vector<double> before(n_ + 2), can_be(n_ + 2), skip(n_), now_can_be(n_);
    // Cell s stands at s + 2. A way begins with the first symbol or with the second: both follow what stands before them.
    for (int64_t s = 0; s < n_; ++s) skip[s] = s == 1 || path_.skip[s] == 0 ? 1 : 0;
    before[1] = can_be[1] = 1;
    for (int64_t step = 0; step < time; ++step) {
      const int64_t t = is_backwards ? time - 1 - step : step;
      const double* p = probs + t * classes;
      double *to = cells_.data() + t * n_, largest = 0, least = 1, least_factor = 1;
      for (int64_t s = 0; s < n_; ++s) to[s] = p[path_.symbols[s]];
      for (int64_t s = 0; s < n_; ++s) {
        least_factor = std::min(least_factor, to[s]);
        to[s] *= before[s + 2] + before[s + 1] + skip[s] * before[s];
        now_can_be[s] = std::min(1.0, can_be[s + 2] + can_be[s + 1] + skip[s] * can_be[s]);
        largest = std::max(largest, to[s]);
      }
      if (!(least_factor >= kLeastFactor)) return false;
      before[1] = can_be[1] = 0;
      const double scale = 1 / largest;
      for (int64_t s = 0; s < n_; ++s) {
        to[s] *= scale;
        least = std::min(least, to[s] + (1 - now_can_be[s]));
      }
      if (!(least >= kLeast)) return false;
      log_scale_ += std::log(largest);
      std::copy_n(to, n_, before.data() + 2);
      std::copy_n(now_can_be.data(), n_, can_be.data() + 2);
    }
    return true;
  }

 private:
  const Path& path_;
  int64_t n_;
  std::vector<double> cells_;
  double log_scale_ = 0;
};

// gradient = probs - the share of all ways that pass a symbol at a time.
std::optional<double> scaled_loss(const double* probs, int64_t time, int64_t classes, const Path& path, double* gradient) {
  const Path back = path.reversed();
  const int64_t n = path.length();
  ScaledWays forward(path, time), backward(back, time);
  if (!forward.walk(probs, time, classes, false) || !backward.walk(probs, time, classes, true)) return {};
  const double end = forward.ends(time - 1);
  constexpr double kLeast = 1e-250;
  if (!(end >= kLeast)) return {};
  std::vector<double> share(n);
  for (int64_t t = 0; t < time; ++t) {
    const double *p = probs + t * classes, *ahead = forward.at(t), *behind = backward.at(t);
    double all = 0;
    for (int64_t s = 0; s < n; ++s) all += share[s] = ahead[s] * behind[n - 1 - s] / p[path.symbols[s]];
    if (!(all >= kLeast)) return {};
    double *to = gradient + t * classes, scale = 1 / all;
    std::copy_n(p, classes, to);
    for (int64_t s = 0; s < n; ++s) to[path.symbols[s]] -= share[s] * scale;
  }
  return -(std::log(end) + forward.log_scale());
}

// The same with logarithms, which may be as small as they like.
double log_loss(const double* log_probs, int64_t time, int64_t classes, const Path& path, double* gradient) {
  const Path back = path.reversed();
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

}  // namespace

double ctc_loss(const double* activations, int64_t time, int64_t classes, std::span<const int64_t> labels, int64_t blank,
                double* gradient) {
  int64_t repeats = 0;
  for (size_t i = 1; i < labels.size(); ++i) repeats += labels[i] == labels[i - 1];
  if (time == 0 || static_cast<int64_t>(labels.size()) + repeats > time) {
    std::fill_n(gradient, time * classes, 0.0);
    return 0;
  }
  const Path path(labels, blank);
  std::vector<double> probs(time * classes);
  const auto set_probs = [&](bool logarithm) { softmax<double>({time, classes, 1}, activations, probs.data(), 1, logarithm, nullptr); };
  set_probs(false);
  if (const auto loss = scaled_loss(probs.data(), time, classes, path, gradient)) return *loss;
  set_probs(true);
  return log_loss(probs.data(), time, classes, path, gradient);
}

}  // namespace gluino::kernels
