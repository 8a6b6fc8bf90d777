// The handlers of an estimator.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/file.h"
#include "base/format.h"
#include "gluino/estimator.h"

namespace fs = std::filesystem;

namespace gluino::estimator {
namespace {

std::string joined(const Values& values) {
  std::string text;
  for (const auto& [name, v] : values) text += fmt::format("  {} {:.4f}", name, v);
  return text;
}
Values all_values(const Estimator& e) {
  Values values = e.train_values();
  values.insert(values.end(), e.val_values().begin(), e.val_values().end());
  return values;
}
std::string epoch_line(const Estimator& e) {
  return fmt::format("epoch {}/{}{}  {:.2f} s", e.epoch() + 1, e.epochs(), joined(all_values(e)), e.epoch_seconds());
}

class Progress final : public Handler {
 public:
  void batch_end(Estimator& e) override {
    if (!is_terminal_ || !e.is_first_rank()) return;
    constexpr int64_t kWidth = 24;
    const int64_t done = e.batches() > 0 ? std::min(kWidth, kWidth * e.batch() / e.batches()) : kWidth;
    const double rate = e.epoch_seconds() > 0 ? static_cast<double>(e.samples()) / e.epoch_seconds() : 0;
    show(fmt::format("epoch {}/{} [{:=<{}}{: <{}}] {}/{}{}  {:.0f} samples/s", e.epoch() + 1, e.epochs(), "", done, "", kWidth - done,
                     e.batch(), e.batches(), joined(e.train_values()), rate));
  }
  void epoch_end(Estimator& e) override {
    if (!e.is_first_rank()) return;
    if (is_terminal_) show(epoch_line(e));
    fmt::print(stderr, "{}\n", is_terminal_ ? "" : epoch_line(e));
  }

 private:
  void show(const std::string& line) {
    // What was longer before is blanked.
    fmt::print(stderr, "\r{}{: <{}}", line, "", length_ > line.size() ? length_ - line.size() : 0);
    std::fflush(stderr);
    length_ = line.size();
  }
  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  size_t length_ = 0;
};

class Logging final : public Handler {
 public:
  Logging(std::ostream& out, int64_t interval) : out_(out), interval_(interval) {}
  void train_begin(Estimator& e) override { out_ << "training begins at epoch " << e.epoch() + 1 << " of " << e.epochs() << "\n"; }
  void batch_end(Estimator& e) override {
    if (interval_ > 0 && e.batch() % interval_ == 0)
      out_ << fmt::format("epoch {} batch {}/{}{}\n", e.epoch() + 1, e.batch(), e.batches(), joined(e.train_values()));
  }
  void epoch_end(Estimator& e) override { out_ << epoch_line(e) << "\n"; }

 private:
  std::ostream& out_;
  int64_t interval_;
};

class CsvLog final : public Handler {
 public:
  explicit CsvLog(std::string path) : path_(std::move(path)) {}
  // A resumed run keeps the lines of the epochs before.
  void train_begin(Estimator& e) override {
    text_.clear();
    if (e.epoch() == 0 || !fs::exists(path_)) return;
    std::istringstream old(read_file(path_));
    std::string line;
    for (int64_t n = -1; n < e.epoch() && std::getline(old, line); ++n) text_ += line + "\n";
  }
  void epoch_end(Estimator& e) override {
    const Values values = all_values(e);
    if (text_.empty()) {
      text_ = "epoch,seconds";
      for (const auto& [name, v] : values) text_ += "," + name;
      text_ += "\n";
    }
    text_ += fmt::format("{},{:.3f}", e.epoch() + 1, e.epoch_seconds());
    for (const auto& [name, v] : values) text_ += fmt::format(",{:.6f}", v);
    text_ += "\n";
    if (e.is_first_rank()) write_file(path_, text_);
  }

 private:
  std::string path_, text_;
};

// Tells whether a value is better than all before.
class Best {
 public:
  Best(bool lower_is_better, double min_delta) : sign_(lower_is_better ? -1 : 1), min_delta_(min_delta) {}
  bool improves(double value) {
    if (!(sign_ * value > best_ + min_delta_)) return false;
    best_ = sign_ * value;
    return true;
  }

 private:
  double sign_, min_delta_, best_ = -std::numeric_limits<double>::infinity();
};

class Checkpoint final : public Handler {
 public:
  Checkpoint(std::string folder, CheckpointOptions o)
      : folder_(std::move(folder)), options_(std::move(o)), best_(options_.lower_is_better, 0) {
    if (options_.epoch_period < 1) raise<UserError>("checkpoint: epoch_period is {}, at least 1 is needed", options_.epoch_period);
    if (options_.max_checkpoints < 1) raise<UserError>("checkpoint: max_checkpoints is {}, at least 1 is needed", options_.max_checkpoints);
    fs::create_directories(folder_);
  }
  void train_begin(Estimator& e) override {
    if (!options_.resume) return;
    const auto epoch = static_cast<int64_t>(e.of_first_rank(e.is_first_rank() ? static_cast<double>(latest()) : 0));
    if (epoch == 0) return;
    if (epoch < 0) raise<SystemError>("'{}' is damaged: it must name an epoch", path("-latest"));
    e.net().load_parameters(numbered(epoch, ".params"));
    e.trainer().load_states(numbered(epoch, ".states"));
    e.set_epoch(epoch);
  }
  void epoch_end(Estimator& e) override {
    const int64_t done = e.epoch() + 1;
    const bool writes = e.is_first_rank();
    if (writes && !options_.monitor.empty() && best_.improves(e.value(options_.monitor))) e.net().save_parameters(path("-best.params"));
    if (done % options_.epoch_period != 0 && done != e.epochs()) return;
    if (writes) e.net().save_parameters(numbered(done, ".params"));
    // States that are dealt out are gathered from all ranks.
    if (writes || e.trainer().options().shard_states) e.trainer().save_states(numbered(done, ".states"));
    if (!writes) return;
    write_file(path("-latest"), std::to_string(done) + "\n");  // from here on the new checkpoint counts
    kept_.push_back(done);
    if (static_cast<int64_t>(kept_.size()) <= options_.max_checkpoints) return;
    for (const char* ending : {".params", ".states"}) fs::remove(numbered(kept_.front(), ending));
    kept_.erase(kept_.begin());
  }

 private:
  // The epoch of the last complete checkpoint; 0: there is none, -1: the file that names it is damaged.
  int64_t latest() const {
    int64_t epoch = 0;
    if (!fs::exists(path("-latest"))) return 0;
    return std::istringstream(read_file(path("-latest"))) >> epoch && epoch >= 1 ? epoch : -1;
  }
  std::string path(const std::string& ending) const { return folder_ + "/" + options_.prefix + ending; }
  std::string numbered(int64_t epoch, const char* ending) const { return path(fmt::format("-{:04}{}", epoch, ending)); }
  std::string folder_;
  CheckpointOptions options_;
  Best best_;
  std::vector<int64_t> kept_;
};

class EarlyStopping final : public Handler {
 public:
  EarlyStopping(std::string monitor, EarlyStoppingOptions o)
      : monitor_(std::move(monitor)), patience_(o.patience), best_(o.lower_is_better, o.min_delta) {}
  void epoch_end(Estimator& e) override {
    waited_ = best_.improves(e.of_first_rank(e.value(monitor_))) ? 0 : waited_ + 1;
    if (waited_ > patience_) e.stop();
  }

 private:
  std::string monitor_;
  int64_t patience_, waited_ = 0;
  Best best_;
};

}  // namespace

HandlerPtr progress_bar() { return std::make_shared<Progress>(); }
HandlerPtr logging(std::ostream& out, int64_t interval) { return std::make_shared<Logging>(out, interval); }
HandlerPtr csv_log(std::string path) { return std::make_shared<CsvLog>(std::move(path)); }
HandlerPtr checkpoint(std::string folder, CheckpointOptions o) { return std::make_shared<Checkpoint>(std::move(folder), std::move(o)); }
HandlerPtr early_stopping(std::string monitor, EarlyStoppingOptions o) { return std::make_shared<EarlyStopping>(std::move(monitor), o); }

}  // namespace gluino::estimator
