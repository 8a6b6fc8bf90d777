#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace gluino::serve {

std::vector<double> Histogram::seconds() {
  return {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
}
std::vector<double> Histogram::rows() { return {1, 2, 4, 8, 16, 32, 64, 128, 256}; }

void Histogram::add(double value) {
  const size_t place = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
  counts_[place].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::string Histogram::text(const std::string& name, const std::string& labels) const {
  std::string out;
  int64_t total = 0;
  const std::string before = labels.empty() ? "" : labels + ",", alone = labels.empty() ? "" : "{" + labels + "}";
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i].load(std::memory_order_relaxed);
    out += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, before, i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf", total);
  }
  return out + fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, alone, sum_.load(std::memory_order_relaxed), name, alone, total);
}

void HttpMetrics::count(int status, double seconds) {
  by_status_[static_cast<size_t>(std::clamp(status, kFirst, kLast) - kFirst)].fetch_add(1, std::memory_order_relaxed);
  seconds_.add(seconds);
}
std::string HttpMetrics::text() const {
  std::string out = metric_head("gluino_http_responses_total", "counter", "Responses by status.");
  for (size_t i = 0; i < by_status_.size(); ++i)
    if (const int64_t count = by_status_[i].load(std::memory_order_relaxed))
      out += fmt::format("gluino_http_responses_total{{code=\"{}\"}} {}\n", static_cast<int>(i) + kFirst, count);
  out += metric_head("gluino_http_request_seconds", "histogram", "From the first byte of a request to its answer.");
  return out + seconds_.text("gluino_http_request_seconds", "");
}

std::string metric_head(const std::string& name, const std::string& type, const std::string& help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}
std::string escaped_label(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace gluino::serve
