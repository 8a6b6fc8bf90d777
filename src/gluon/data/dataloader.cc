// DataLoader: worker threads prepare the batches of an epoch in any order, the caller gets them in the right one.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "base/openmp.h"
#include "gluino/autograd.h"
#include "gluino/data.h"
#include "tensor/impl.h"

namespace gluino::data {

// ---- batches

static void check_sample(const std::vector<Tensors>& samples, const Tensors& sample) {
  if (sample.size() != samples[0].size())
    raise<UserError>("a batch: samples of {} and of {} tensors do not go together", samples[0].size(), sample.size());
}

Batchify stack() {
  return [](const std::vector<Tensors>& samples) {
    Tensors batch;
    for (size_t part = 0; part < samples.at(0).size(); ++part) {
      const Tensor& first = samples[0][part];
      Shape shape = first.shape();
      shape.insert(0, static_cast<int64_t>(samples.size()));
      Tensor out = empty(shape, {first.dtype(), first.device()});
      char* at = bytes_of(out);
      for (const Tensors& s : samples) {
        check_sample(samples, s);
        if (!(s[part].shape() == first.shape()) || s[part].dtype() != first.dtype())
          raise<ShapeError>("stack: samples of shape {} and {} make no batch; use pad(), or crop them", first.shape(), s[part].shape());
        s[part].copy_to(at);
        at += first.nbytes();
      }
      batch.push_back(out);
    }
    return batch;
  };
}

Batchify pad(double value) {
  return [value](const std::vector<Tensors>& samples) {
    Tensors batch;
    for (size_t part = 0; part < samples.at(0).size(); ++part) {
      Shape shape = samples[0][part].shape();
      for (const Tensors& s : samples) {
        check_sample(samples, s);
        if (s[part].ndim() != shape.ndim()) raise<ShapeError>("pad: samples have {} and {} axes", shape.ndim(), s[part].ndim());
        for (int axis = 0; axis < shape.ndim(); ++axis) shape[axis] = std::max(shape[axis], s[part].shape()[axis]);
      }
      shape.insert(0, static_cast<int64_t>(samples.size()));
      Tensor out = full(shape, value, {samples[0][part].dtype(), samples[0][part].device()});
      for (size_t row = 0; row < samples.size(); ++row) {
        std::vector<Index> where{Index(static_cast<int64_t>(row))};
        for (const int64_t extent : samples[row][part].shape()) where.emplace_back(Slice(0, extent));
        out.assign(where, samples[row][part]);
      }
      batch.push_back(out);
    }
    return batch;
  };
}

// ---- the loader

struct DataLoader::State {
  DatasetPtr dataset;
  int64_t batch_size;
  DataLoaderOptions options;
  BatchSampler sampler;
  uint64_t epoch = 0;

  Tensors make(const std::vector<int64_t>& indices, uint64_t in_epoch) const {
    std::vector<Tensors> samples;
    const autograd::Scope scope(false, false);
    for (const int64_t i : indices) {
      detail::seed_sample(options.seed, in_epoch, static_cast<uint64_t>(i));
      samples.push_back(dataset->get(i));
    }
    return options.batchify_fn(samples);
  }
};

// One pass over the data. The threads end when the last iterator lets go of it.
struct DataLoader::Iterator::Epoch {
  Epoch(std::shared_ptr<State> s, uint64_t n) : state(std::move(s)), number(n), batches(state->sampler.batches(n)) {
    const int workers = state->options.num_workers;
    ahead = static_cast<size_t>(std::max(1, state->options.prefetch.value_or(2 * workers)));
    for (int i = 0; i < workers; ++i) threads.emplace_back([this] { work(); });
  }
  ~Epoch() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    for (std::thread& t : threads) t.join();
  }

  void work() {
    omp_set_num_threads(1);  // of this thread: workers share the machine with the trainer, not with teams of their own
    for (;;) {
      size_t mine = 0;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || started == batches.size() || started < taken + ahead; });
        if (stop || started == batches.size()) return;
        mine = started++;
      }
      Result r;
      try {
        r.batch = state->make(batches[mine], number);
      } catch (...) {
        r.error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      ready.emplace(mine, std::move(r));
      changed.notify_all();
    }
  }

  // The next batch; empty at the end.
  std::optional<Tensors> next() {
    if (taken == batches.size()) return std::nullopt;
    if (threads.empty()) return state->make(batches[taken++], number);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ready.contains(taken); });
    auto node = ready.extract(taken++);
    changed.notify_all();
    if (node.mapped().error) std::rethrow_exception(node.mapped().error);
    return std::move(node.mapped().batch);
  }

  struct Result {
    Tensors batch;
    std::exception_ptr error;
  };
  std::shared_ptr<State> state;
  uint64_t number;
  std::vector<std::vector<int64_t>> batches;
  size_t ahead = 1, started = 0, taken = 0;
  bool stop = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<size_t, Result> ready;
  std::vector<std::thread> threads;
};

DataLoader::DataLoader(DatasetPtr dataset, int64_t batch_size, DataLoaderOptions o) {
  if (!dataset) throw UserError("DataLoader: the data set is null");
  if (o.sampler && o.shuffle) throw UserError("DataLoader: give shuffle or a sampler, not both");
  if (o.num_workers < 0) raise<UserError>("DataLoader: num_workers is {}, it must not be negative", o.num_workers);
  const int64_t n = dataset->size();
  SamplerPtr sampler = o.sampler ? o.sampler : o.shuffle ? random_sampler(n, o.seed) : sequential_sampler(n);
  BatchSampler batches(std::move(sampler), batch_size, o.last_batch);
  state_ = std::make_shared<State>(State{std::move(dataset), batch_size, std::move(o), std::move(batches)});
}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;

DataLoader::Iterator DataLoader::begin() {
  Iterator it;
  it.epoch_ = std::make_shared<Iterator::Epoch>(state_, state_->epoch++);
  return std::move(++it);
}
DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (std::optional<Tensors> next = epoch_->next())
    batch_ = std::move(*next);
  else
    epoch_.reset();
  return *this;
}
int64_t DataLoader::size() const {
  const int64_t n = state_->dataset->size(), b = state_->batch_size;
  return state_->options.last_batch == "keep" ? (n + b - 1) / b : n / b;
}
uint64_t DataLoader::epoch() const { return state_->epoch; }
void DataLoader::set_epoch(uint64_t epoch) { state_->epoch = epoch; }
int64_t DataLoader::batch_size() const { return state_->batch_size; }
const DatasetPtr& DataLoader::dataset() const { return state_->dataset; }

}  // namespace gluino::data
