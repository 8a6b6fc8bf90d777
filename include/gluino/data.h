// Data: sets of samples, the order to take them in, and a loader that makes batches of them with worker threads.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gluino/tensor.h"

namespace gluino::data {

// A table of numbers, comma separated, gzipped or not: float32 of shape (lines, columns).
Tensor load_csv(const std::string& path);

// ---- data sets

// A sample is a list of tensors: image and label, for instance. get() is called by many threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Tensors get(int64_t index) const = 0;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

// Rows of tensors that have the same number of rows.
class ArrayDataset : public Dataset {
 public:
  explicit ArrayDataset(Tensors arrays);
  int64_t size() const override { return arrays_[0].extent(0); }
  Tensors get(int64_t index) const override;

 private:
  Tensors arrays_;
};
DatasetPtr array_dataset(Tensors arrays);

// Applies a function to each sample when it is asked for; transform_first to its first tensor only.
DatasetPtr transform(DatasetPtr dataset, std::function<Tensors(const Tensors&)> f);
DatasetPtr transform_first(DatasetPtr dataset, std::function<Tensor(const Tensor&)> f);
DatasetPtr subset(DatasetPtr dataset, std::vector<int64_t> indices);
DatasetPtr filter(const DatasetPtr& dataset, const std::function<bool(const Tensors&)>& keep);
DatasetPtr take(const DatasetPtr& dataset, int64_t count);

// The 1797 digits of 8 x 8 pixels that come with gluino: float32 images (1, 8, 8) of 0 to 1 and labels. Every fifth is a test digit.
DatasetPtr digits(bool train = true);
// Where bundled files are: GLUINO_DATA, the installed share/gluino, or the source tree. Raises SystemError that lists the places.
std::string find_data(const std::string& name);

// Random numbers for transforms: inside a DataLoader they depend only on its seed, the epoch and the sample, not on the threads.
std::mt19937_64& random_engine();
double random_uniform(double low, double high);
namespace detail {
void seed_sample(uint64_t seed, uint64_t epoch, uint64_t sample);  // of this thread
}

// ---- orders

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::vector<int64_t> order(uint64_t epoch) = 0;
};
using SamplerPtr = std::shared_ptr<Sampler>;
SamplerPtr sequential_sampler(int64_t length, int64_t start = 0);
SamplerPtr random_sampler(int64_t length, uint64_t seed);  // another order in each epoch
SamplerPtr filter_sampler(const DatasetPtr& dataset, const std::function<bool(const Tensors&)>& keep);
SamplerPtr interval_sampler(int64_t length, int64_t interval, bool rollover = true);  // 0, i, 2i, ..., then 1, 1 + i, ...
// Part `part` of `parts` of another sampler's order, which must be the same wherever a part of it is taken: all parts together are the
// whole, none overlap. even: all are as long as the longest one, the beginning of the order fills up the end.
SamplerPtr split_sampler(SamplerPtr whole, int64_t parts, int64_t part, bool even = true);
SamplerPtr rank_sampler(int64_t length, bool shuffle, uint64_t seed);  // this rank's part of a common order

// Groups an order into batches. last_batch: "keep" a shorter one, "discard" it, or "rollover" it into the next epoch.
class BatchSampler {
 public:
  BatchSampler(SamplerPtr sampler, int64_t batch_size, std::string last_batch = "keep");
  std::vector<std::vector<int64_t>> batches(uint64_t epoch);

 private:
  SamplerPtr sampler_;
  int64_t batch_size_;
  std::string last_batch_;
  std::vector<int64_t> left_over_;
};

// ---- batches

// Makes one batch of samples.
using Batchify = std::function<Tensors(const std::vector<Tensors>& samples)>;
Batchify stack();                // all samples have the same shapes
Batchify pad(double value = 0);  // shorter samples are filled up at the end of each axis

struct DataLoaderOptions {
  bool shuffle = false;
  SamplerPtr sampler = {};          // instead of shuffle
  std::string last_batch = "keep";  // or "discard", "rollover"
  Batchify batchify_fn = stack();
  int num_workers = 0;               // threads that prepare batches; 0: the caller does
  std::optional<int> prefetch = {};  // batches prepared ahead; twice the workers when absent
  uint64_t seed = 0;                 // of the order and of random transforms
};

class DataLoader {
 public:
  DataLoader(DatasetPtr dataset, int64_t batch_size, DataLoaderOptions options = {});
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;

  // One epoch: for (const Tensors& batch : loader).
  class Iterator {
   public:
    const Tensors& operator*() const { return batch_; }
    Iterator& operator++();
    bool operator!=(std::default_sentinel_t) const { return epoch_ != nullptr; }

   private:
    friend class DataLoader;
    struct Epoch;
    std::shared_ptr<Epoch> epoch_;
    Tensors batch_;
  };
  Iterator begin();  // starts the next epoch
  std::default_sentinel_t end() const { return {}; }

  int64_t size() const;            // batches of an epoch, roughly where batches roll over
  uint64_t epoch() const;          // epochs started so far
  void set_epoch(uint64_t epoch);  // goes on where an interrupted run stopped
  int64_t batch_size() const;
  const DatasetPtr& dataset() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gluino::data
