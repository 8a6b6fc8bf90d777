// One version of a model that is loaded, and requests that run on it, alone or joined.
#pragma once
#include <deque>
#include <mutex>
#include <unordered_map>

#include "serve/http/exchange.h"
#include "serve/metrics.h"
#include "serve/options.h"
#include "serve/protocol/infer.h"

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
  std::string kind;                       // types and the other extents: requests of one kind may be joined
  Clock::time_point arrived = Clock::now();
};
using JobPtr = std::unique_ptr<Job>;

// Requests of one kind for one model, in the order in which they came; the scheduler's lock guards it.
struct Lane {
  std::deque<JobPtr> jobs;
  int64_t rows = 0;
};

class ServedModel {
 public:
  ServedModel(std::string name, std::string version, LoadedNet net, std::shared_ptr<ModelMetrics> metrics);

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
  Tensors call(const Tensors& inputs) const;
  void run_alone(const Job& job);
  bool run_joined(const std::vector<JobPtr>& jobs);  // false: the rows cannot be told apart in the outputs
  void answer(const Job& job, const Tensors& outputs, int64_t first_row, int64_t rows) const;
  void warm_up();
  bool rows_stay_apart(const Tensors& one, const Tensors& other) const;
  static std::string kind_of(const Tensors& inputs);

  const std::string name_, version_;
  const LoadedNet net_;
  const std::shared_ptr<ModelMetrics> metrics_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string, Joins> joins_;
};

}  // namespace gluino::serve
