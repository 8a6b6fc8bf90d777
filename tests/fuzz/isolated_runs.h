// Runs numbered cases in child processes: a crash or a hang ends the child, is written down for its case, and the next child goes on.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gluino::fuzz {

struct Failure {
  std::string subject;
  int64_t number;
  std::string what, call;  // `call`: as the case described itself
};

// Seconds of processor time that may pass from one describe() to the next.
inline constexpr int kCaseSeconds = 5;

class IsolatedRuns {
 public:
  IsolatedRuns();
  // Cases [first, last) of a subject. run(number) may call describe() and fail().
  void run(const std::string& subject, int64_t first, int64_t last, const std::function<void(int64_t number)>& run);
  // Inside a case: what it is about to do, for the report if it does not come back in time.
  void describe(const std::string& call);
  void fail(const std::string& what);
  void count_result();  // a call that raised no error: most of what is fuzzed must get as far as the kernels
  int64_t results() const;
  const std::vector<Failure>& failures() const { return failures_; }

 private:
  struct Shared;
  int64_t run_in_child(int64_t first, int64_t last, const std::function<void(int64_t)>& run, std::string& death);
  void collect(const std::string& subject);
  Shared* shared_;
  std::vector<Failure> failures_;
};

}  // namespace gluino::fuzz
