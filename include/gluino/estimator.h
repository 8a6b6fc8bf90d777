// Estimator: the training loop, with handlers that watch it: progress, log, checkpoints, early stopping, a table of metrics.
#pragma once
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gluino/block.h"
#include "gluino/data.h"
#include "gluino/loss.h"
#include "gluino/metric.h"
#include "gluino/trainer.h"

namespace gluino::estimator {

class Estimator;

class Handler {
 public:
  virtual ~Handler() = default;
  virtual void train_begin(Estimator&) {}
  virtual void epoch_begin(Estimator&) {}
  virtual void batch_end(Estimator&) {}
  virtual void epoch_end(Estimator&) {}
  virtual void train_end(Estimator&) {}
};
using HandlerPtr = std::shared_ptr<Handler>;
using Values = std::vector<std::pair<std::string, double>>;

struct EstimatorOptions {
  std::vector<metric::MetricPtr> metrics = {};  // accuracy when empty
  optimizer::OptimizerPtr optimizer = {};       // Adam when absent
  std::vector<Device> devices = {};             // more than one: batches are split over them
  // With kvstore "dist_sync" every rank fits the part of the data that its loader gives it, all as many batches of the same size
  // (data::rank_sampler); rank 0 alone writes checkpoints, tables and progress, and decides when to stop.
  TrainerOptions trainer = {};
};
struct FitOptions {
  data::DataLoader* val_data = nullptr;
  int64_t epochs = 1;
  std::vector<HandlerPtr> handlers = {};
  std::optional<uint64_t> seed = {};  // seeds dropout and the like before each epoch: a resumed run repeats an uninterrupted one exactly
};

// A batch is the network's inputs and, last, the label.
class Estimator {
 public:
  Estimator(Block& net, std::shared_ptr<loss::Loss> loss, EstimatorOptions options = {});
  void fit(data::DataLoader& train_data, FitOptions options = {});
  Values evaluate(data::DataLoader& data);
  void stop() { is_stopped_ = true; }  // after the batch that is running

  // What handlers look at.
  Block& net() { return net_; }
  Trainer& trainer() { return *trainer_; }
  int64_t epoch() const { return epoch_; }  // the one that runs, from 0 on
  int64_t epochs() const { return epochs_; }
  int64_t batch() const { return batch_; }      // batches done in this epoch
  int64_t batches() const { return batches_; }  // of an epoch
  int64_t samples() const { return samples_; }  // done in this epoch
  double epoch_seconds() const { return seconds_; }
  Values train_values() const;                              // "loss" and the metrics, of this epoch so far
  const Values& val_values() const { return val_values_; }  // of the last evaluation; "val_" before the names
  double value(const std::string& name) const;              // one of these; raises UserError with the nearest name
  void set_epoch(int64_t epoch) { epoch_ = epoch; }         // where fit() goes on: for handlers in train_begin
  bool is_distributed() const;
  bool is_first_rank() const;            // the one that writes; true where there is one process
  double of_first_rank(double v) const;  // what rank 0 gives; all ranks must ask

 private:
  void run_batch(const Tensors& batch);
  Block& net_;
  std::shared_ptr<loss::Loss> loss_;
  EstimatorOptions options_;
  std::unique_ptr<Trainer> trainer_;
  metric::Loss loss_value_;
  Values val_values_;
  int64_t epoch_ = 0, epochs_ = 0, batch_ = 0, batches_ = 0, samples_ = 0;
  double seconds_ = 0;
  bool is_stopped_ = false;
};

// A bar that moves on a terminal, one line per epoch otherwise. Writes to standard error.
HandlerPtr progress_bar();
// A line after every `interval` batches (0: after every epoch).
HandlerPtr logging(std::ostream& out, int64_t interval = 0);
// A table: one line per epoch, rewritten as a whole, so that it is never half a line.
HandlerPtr csv_log(std::string path);

struct CheckpointOptions {
  std::string prefix = "model";
  int64_t epoch_period = 1;
  int64_t max_checkpoints = 5;  // older ones are deleted
  bool resume = true;           // go on from the last checkpoint, if there is one
  std::string monitor = {};     // a value, "val_accuracy" for instance: the best network is kept as prefix-best.params
  bool lower_is_better = false;
};
// folder/prefix-0007.params and .states. folder/prefix-latest names the last complete pair: it is replaced by renaming, so that
// a process killed at any moment leaves the checkpoint before.
HandlerPtr checkpoint(std::string folder, CheckpointOptions options = {});

struct EarlyStoppingOptions {
  int64_t patience = 0;  // epochs without improvement that are borne
  double min_delta = 0;
  bool lower_is_better = false;
};
HandlerPtr early_stopping(std::string monitor, EarlyStoppingOptions options = {});

}  // namespace gluino::estimator
