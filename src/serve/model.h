// One version of a model that is loaded, and requests that run on it, alone or joined.
#pragma once
#include <deque>
#include <mutex>
#include <unordered_map>

#include "serve/http/exchange.h"
#include "serve/metrics.h"
#include "serve/options.h"
#include "serve/tensors.h"

namespace gluino::serve {

class ServedModel;

// An inference request that waits or runs.
struct Job {
  ExchangePtr exchange;
  std::shared_ptr<ServedModel> model;
  InferRequest request;
  std::vector<const InferInput*> inputs;  // in the model's order
  std::vector<size_t> outputs;            // that are wanted
  int64_t rows = 0;                       // extents along the batch axis, the first one; 0: inputs differ in it, so there is none
  int64_t length = 0;                     // extents along the second axis, where another input says how many of them count; else 0
  std::string kind;                       // types and the other extents: requests of one kind may be joined
  Clock::time_point arrived = Clock::now();
};
using JobPtr = std::unique_ptr<Job>;

// Requests of one kind for one model, in the order in which they came; the scheduler's lock guards it.
struct Lane {
  std::deque<JobPtr> jobs;
  int64_t rows = 0;
};

// An input that says for each row how many steps of the other inputs' second axis count ("valid_length"). Sequences of different lengths
// are filled up to one of the buckets when they are joined.
struct LengthOptions {
  std::string input;             // "": there is none
  std::vector<int64_t> buckets;  // rising; none: powers of two
};

class ServedModel {
 public:
  ServedModel(std::string name, std::string version, LoadedNet net, std::shared_ptr<ModelMetrics> metrics, const LengthOptions& lengths);

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const ModelDescription& description() const { return net_.description; }
  ModelMetrics& metrics() const { return *metrics_; }

  // Checks the names against the model's. Raises HttpError.
  JobPtr make_job(const ExchangePtr& exchange, InferRequest request, std::shared_ptr<ServedModel> self) const;

  // Whether rows of one kind answer the same beside other rows. Found out once, by a trial.
  enum class Joins { unknown, in_trial, yes, no };
  Joins joins(const std::string& kind) const;
  bool start_trial(const std::string& kind);  // false: another thread is at it, or it is known
  void try_joining(const Job& job, const Job& other);

  // Runs and answers; requests that are of one kind and known to join as one call.
  void run(const std::vector<JobPtr>& jobs, bool may_join);

  std::unordered_map<std::string, Lane> lanes;  // guarded by the scheduler's lock

 private:
  // What is known of a kind. The outputs that have a second axis of the inputs' length are `grows`.
  struct Verdict {
    Joins joins = Joins::in_trial;
    std::vector<bool> grows;
  };
  // What one request gives to a call.
  struct Part {
    std::vector<Rows> inputs;
    int64_t rows, length;
  };
  static Part part_of(const Job& job);
  static Part part_of(const Tensors& inputs);  // of one row
  Tensors call(const Tensors& inputs) const;
  Tensors joined(const std::vector<Part>& parts, int64_t length) const;
  void run_alone(const Job& job);
  void count_call(int64_t rows);
  bool run_joined(const std::vector<JobPtr>& jobs);  // false: the rows cannot be told apart in the outputs
  // With its rows from the first one on; `grows`: outputs of which only the request's own length counts.
  void answer(const Job& job, const Tensors& outputs, int64_t first_row, int64_t rows, const std::vector<bool>& grows = {}) const;
  void warm_up();
  Verdict judge(const Part& one, const Part& other) const;
  static std::string kind_of(const Tensors& inputs);
  void add_missing_lengths(InferRequest& request) const;
  bool is_sequence(size_t input, const Shape& shape, int64_t length) const;
  int64_t bucket(int64_t length) const;

  const std::string name_, version_;
  const LoadedNet net_;
  const std::shared_ptr<ModelMetrics> metrics_;
  const LengthOptions lengths_;
  std::optional<size_t> length_input_;  // where the model has it
  mutable std::mutex mutex_;            // guards what follows
  std::unordered_map<std::string, Verdict> verdicts_;
};

}  // namespace gluino::serve
