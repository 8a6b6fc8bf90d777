#include <array>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/companion.h"
#include "base/env.h"
#include "base/format.h"
#include "gluino/distributed.h"
#include "gluino/autograd.h"
#include "gluino/data.h"
#include "gluino/op.h"

namespace gluino::data {
namespace {

class FunctionDataset final : public Dataset {
 public:
  FunctionDataset(DatasetPtr base, std::function<Tensors(const Tensors&)> f) : base_(std::move(base)), f_(std::move(f)) {}
  int64_t size() const override { return base_->size(); }
  Tensors get(int64_t i) const override { return f_(base_->get(i)); }

 private:
  DatasetPtr base_;
  std::function<Tensors(const Tensors&)> f_;
};

class SubsetDataset final : public Dataset {
 public:
  SubsetDataset(DatasetPtr base, std::vector<int64_t> indices) : base_(std::move(base)), indices_(std::move(indices)) {}
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Tensors get(int64_t i) const override {
    if (i < 0 || i >= size()) raise<IndexError>("dataset: sample {} of {} was asked for", i, size());
    return base_->get(indices_[i]);
  }

 private:
  DatasetPtr base_;
  std::vector<int64_t> indices_;
};

class FunctionSampler final : public Sampler {
 public:
  explicit FunctionSampler(std::function<std::vector<int64_t>(uint64_t)> f) : f_(std::move(f)) {}
  std::vector<int64_t> order(uint64_t epoch) override { return f_(epoch); }

 private:
  std::function<std::vector<int64_t>(uint64_t)> f_;
};
SamplerPtr make_sampler(std::function<std::vector<int64_t>(uint64_t)> f) { return std::make_shared<FunctionSampler>(std::move(f)); }

std::vector<int64_t> counting(int64_t start, int64_t length) {
  std::vector<int64_t> v(std::max<int64_t>(length, 0));
  std::iota(v.begin(), v.end(), start);
  return v;
}
std::vector<int64_t> kept(const Dataset& dataset, const std::function<bool(const Tensors&)>& keep) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < dataset.size(); ++i)
    if (keep(dataset.get(i))) indices.push_back(i);
  return indices;
}

}  // namespace

// ---- data sets

ArrayDataset::ArrayDataset(Tensors arrays) : arrays_(std::move(arrays)) {
  if (arrays_.empty()) throw UserError("ArrayDataset: no tensor was given");
  for (const Tensor& t : arrays_)
    if (t.ndim() == 0 || t.extent(0) != arrays_[0].extent(0))
      raise<ShapeError>("ArrayDataset: tensors have shapes {} and {}, but the same number of rows is needed", arrays_[0].shape(),
                        t.shape());
}
Tensors ArrayDataset::get(int64_t index) const {
  if (index < 0 || index >= size()) raise<IndexError>("ArrayDataset: sample {} of {} was asked for", index, size());
  Tensors sample;
  for (const Tensor& t : arrays_) sample.push_back(t[index]);
  return sample;
}
DatasetPtr array_dataset(Tensors arrays) { return std::make_shared<ArrayDataset>(std::move(arrays)); }

DatasetPtr transform(DatasetPtr dataset, std::function<Tensors(const Tensors&)> f) {
  return std::make_shared<FunctionDataset>(std::move(dataset), std::move(f));
}
DatasetPtr transform_first(DatasetPtr dataset, std::function<Tensor(const Tensor&)> f) {
  return transform(std::move(dataset), [f = std::move(f)](const Tensors& sample) {
    Tensors out = sample;
    out.at(0) = f(sample.at(0));
    return out;
  });
}
DatasetPtr subset(DatasetPtr dataset, std::vector<int64_t> indices) {
  return std::make_shared<SubsetDataset>(std::move(dataset), std::move(indices));
}
DatasetPtr filter(const DatasetPtr& dataset, const std::function<bool(const Tensors&)>& keep) {
  return subset(dataset, kept(*dataset, keep));
}
DatasetPtr take(const DatasetPtr& dataset, int64_t count) { return subset(dataset, counting(0, std::min(count, dataset->size()))); }

std::string find_data(const std::string& name) {
  std::vector<std::string> places;
  if (const auto named = env_text("GLUINO_DATA")) places.push_back(*named);
  // In the source tree, installed beside the library wherever that was moved to, in the Python package.
  places.insert(places.end(), {GLUINO_SOURCE_DATA, library_folder() + "/" GLUINO_DATA_FROM_LIBRARY, library_folder() + "/data"});
  for (const std::string& place : places)
    if (const std::string path = place + "/" + name; std::filesystem::exists(path)) return path;
  raise<SystemError>("'{}' is in none of {}; set GLUINO_DATA to the folder that holds it", name, fmt::join(places, ", "));
}

DatasetPtr digits(bool train) {
  static const Tensor table = load_csv(find_data("digits.csv.gz"));
  const int64_t rows = table.extent(0);
  const Tensor images = (table[{Slice(), Slice(0, 64)}] / 16).reshape({rows, 1, 8, 8}), labels = table[{Slice(), 64}];
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < rows; ++i)
    if ((i % 5 == 4) != train) chosen.push_back(i);
  return subset(array_dataset({images, labels}), chosen);
}

// ---- random numbers

// Seeding costs more than most samples need: it waits until a number is drawn.
struct SampleRandom {
  std::array<uint64_t, 3> key{};
  bool is_seeded = false;
  std::mt19937_64 engine;
};
static SampleRandom& sample_random() {
  thread_local SampleRandom state;
  return state;
}
void detail::seed_sample(uint64_t seed, uint64_t epoch, uint64_t sample) {
  sample_random().key = {seed, epoch, sample};
  sample_random().is_seeded = false;
}
std::mt19937_64& random_engine() {
  SampleRandom& r = sample_random();
  if (!std::exchange(r.is_seeded, true)) {
    std::seed_seq sequence(r.key.begin(), r.key.end());
    r.engine.seed(sequence);
  }
  return r.engine;
}
double random_uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_engine()); }

// ---- orders

SamplerPtr sequential_sampler(int64_t length, int64_t start) {
  return make_sampler([=](uint64_t) { return counting(start, length); });
}
SamplerPtr random_sampler(int64_t length, uint64_t seed) {
  return make_sampler([=](uint64_t epoch) {
    std::vector<int64_t> v = counting(0, length);
    std::seed_seq sequence{seed, epoch};
    std::mt19937_64 engine(sequence);
    std::shuffle(v.begin(), v.end(), engine);
    return v;
  });
}
SamplerPtr filter_sampler(const DatasetPtr& dataset, const std::function<bool(const Tensors&)>& keep) {
  return make_sampler([indices = kept(*dataset, keep)](uint64_t) { return indices; });
}
SamplerPtr split_sampler(SamplerPtr whole, int64_t parts, int64_t part, bool even) {
  if (!whole) throw UserError("split_sampler: the sampler is null");
  if (parts < 1 || part < 0 || part >= parts)
    raise<UserError>("split_sampler: part {} of {} does not exist; parts are numbered from 0 on", part, parts);
  // One of the others after each: what all take in one step lies together, as one process would have taken it.
  return make_sampler([=](uint64_t epoch) {
    const std::vector<int64_t> all = whole->order(epoch);
    const auto length = static_cast<int64_t>(all.size());
    std::vector<int64_t> own;
    for (int64_t i = part; i < length; i += parts) own.push_back(all[static_cast<size_t>(i)]);
    const int64_t longest = (length + parts - 1) / parts;
    for (int64_t i = 0; even && length > 0 && static_cast<int64_t>(own.size()) < longest; ++i)
      own.push_back(all[static_cast<size_t>((part + i) % length)]);
    return own;
  });
}
SamplerPtr rank_sampler(int64_t length, bool shuffle, uint64_t seed) {
  return split_sampler(shuffle ? random_sampler(length, seed) : sequential_sampler(length), distributed::size(), distributed::rank());
}
SamplerPtr interval_sampler(int64_t length, int64_t interval, bool rollover) {
  if (interval < 1 || interval > length) raise<UserError>("interval_sampler: interval {} does not lie between 1 and {}", interval, length);
  return make_sampler([=](uint64_t) {
    std::vector<int64_t> v;
    for (int64_t start = 0; start < (rollover ? interval : 1); ++start)
      for (int64_t i = start; i < length; i += interval) v.push_back(i);
    return v;
  });
}

BatchSampler::BatchSampler(SamplerPtr sampler, int64_t batch_size, std::string last_batch)
    : sampler_(std::move(sampler)), batch_size_(batch_size), last_batch_(std::move(last_batch)) {
  if (batch_size < 1) raise<UserError>("BatchSampler: batch_size is {}, at least 1 is needed", batch_size);
  if (last_batch_ != "keep" && last_batch_ != "discard" && last_batch_ != "rollover")
    raise<UserError>("BatchSampler: last_batch is '{}'; it must be keep, discard or rollover", last_batch_);
}
std::vector<std::vector<int64_t>> BatchSampler::batches(uint64_t epoch) {
  std::vector<int64_t> order = std::move(left_over_);
  left_over_.clear();
  for (const int64_t i : sampler_->order(epoch)) order.push_back(i);
  std::vector<std::vector<int64_t>> out;
  for (size_t at = 0; at < order.size(); at += static_cast<size_t>(batch_size_)) {
    const size_t end = std::min(order.size(), at + static_cast<size_t>(batch_size_));
    std::vector<int64_t> batch(order.begin() + static_cast<ptrdiff_t>(at), order.begin() + static_cast<ptrdiff_t>(end));
    if (static_cast<int64_t>(batch.size()) == batch_size_ || last_batch_ == "keep")
      out.push_back(std::move(batch));
    else if (last_batch_ == "rollover")
      left_over_ = std::move(batch);
  }
  return out;
}

}  // namespace gluino::data
