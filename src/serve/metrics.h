// What the server counts, in the form that Prometheus reads.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gluino::serve {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  std::string text(const std::string& name, const std::string& labels) const;  // labels: a="b", or ""
  static std::vector<double> seconds();
  static std::vector<double> rows();

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<int64_t>> counts_;
  std::atomic<double> sum_{0};
};

// Of one version of a model; it outlives reloads.
struct ModelMetrics {
  std::atomic<int64_t> done{0}, failed{0}, refused{0}, late{0};  // requests
  std::atomic<int64_t> rows{0}, batches{0};
  Histogram batch_rows{Histogram::rows()};
  Histogram queue_seconds{Histogram::seconds()}, compute_seconds{Histogram::seconds()};
};

// Of all responses.
class HttpMetrics {
 public:
  void count(int status, double seconds);
  std::string text() const;

 private:
  static constexpr int kFirst = 100, kLast = 599;
  std::vector<std::atomic<int64_t>> by_status_ = std::vector<std::atomic<int64_t>>(kLast - kFirst + 1);
  Histogram seconds_{Histogram::seconds()};
};

std::string metric_head(const std::string& name, const std::string& type, const std::string& help);
std::string escaped_label(const std::string& value);

}  // namespace gluino::serve
