// What a trainer does with other ranks besides summing gradients: the same first values, and states that are dealt out.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/format.h"
#include "distributed/collectives.h"
#include "distributed/gradient_exchange.h"
#include "gluino/autograd.h"
#include "gluino/trainer.h"
#include "tensor/impl.h"

namespace gluino {

using distributed::Engine;

std::shared_ptr<distributed::GradientExchange> make_exchange(const TrainerOptions& o) {
  static const std::vector<std::string> known{"local", "device", "dist_sync", "dist_device_sync", "dist_async"};
  if (std::find(known.begin(), known.end(), o.kvstore) == known.end())
    raise<UserError>("Trainer: kvstore is '{}'; it can be local, device, dist_sync, dist_device_sync or dist_async{}", o.kvstore,
                     did_you_mean(o.kvstore, known));
  const bool is_distributed = o.kvstore.starts_with("dist");
  if (!is_distributed && (!o.compression.empty() || o.shard_states))
    raise<UserError>("Trainer: {} is for several ranks; it needs kvstore \"dist_sync\", not \"{}\"",
                     o.shard_states ? "shard_states" : "compression", o.kvstore);
  if (!is_distributed) return nullptr;
  if (o.kvstore == "dist_async" && distributed::rank() == 0)
    fmt::print(stderr, "gluino: kvstore dist_async runs as dist_sync: all ranks make each step together\n");
  return std::make_shared<distributed::GradientExchange>(
      distributed::ExchangeOptions{o.compression, o.compression_threshold, o.bucket_megabytes, o.overlap});
}

// Parameters may get their values after the trainer was made: each is shared once, when it has one.
void Trainer::share_first_values() {
  is_shared_.resize(parameters_.size());
  Tensors values;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (is_shared_[i] || !parameters_[i]->is_initialized()) continue;
    is_shared_[i] = true;
    values.push_back(parameters_[i]->list_data()[0].detach());
  }
  distributed::broadcast_from_first(values);
  for (const ParameterPtr& p : parameters_)
    for (size_t c = 1; p->is_initialized() && c < p->list_data().size(); ++c)
      p->list_data()[c].detach().assign(p->list_data()[0].detach().to(p->list_data()[c].device()));
}

// The largest parameters first, each to the rank that has least so far.
bool Trainer::is_own(size_t parameter) const {
  if (!options_.shard_states) return true;
  if (owners_.empty()) {
    std::vector<size_t> order(parameters_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto elements = [&](size_t i) { return parameters_[i]->shape().elements(); };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return elements(a) > elements(b); });
    std::vector<int64_t> load(static_cast<size_t>(distributed::size()), 0);
    owners_.resize(parameters_.size());
    for (const size_t i : order) {
      const auto least = std::min_element(load.begin(), load.end());
      owners_[i] = static_cast<int>(least - load.begin());
      *least += elements(i);
    }
  }
  return owners_[parameter] == distributed::rank();
}

// Every rank sends what it has updated.
void Trainer::share_updated_values() {
  Engine& engine = Engine::get();
  if (engine.size() == 1) return;
  std::vector<std::vector<Tensor>> of_rank(static_cast<size_t>(engine.size()));
  std::vector<int64_t> offsets(1, 0);
  for (int r = 0; r < engine.size(); ++r) {
    int64_t bytes = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (owners_[i] != r || !autograd::has_fresh_grad(parameters_[i]->list_data()[0])) continue;
      of_rank[static_cast<size_t>(r)].push_back(parameters_[i]->list_data()[0]);
      bytes += of_rank[static_cast<size_t>(r)].back().nbytes();
    }
    offsets.push_back(offsets.back() + bytes);
  }
  std::vector<char> all(static_cast<size_t>(offsets.back()));
  char* next = all.data() + offsets[static_cast<size_t>(engine.rank())];
  for (const Tensor& t : of_rank[static_cast<size_t>(engine.rank())]) {
    std::memcpy(next, bytes_of(t), static_cast<size_t>(t.nbytes()));
    next += t.nbytes();
  }
  engine.run(fmt::format("updated weights: {} bytes", offsets.back()), [&] {
    distributed::all_gather_pieces_now(engine, all.data() + offsets[static_cast<size_t>(engine.rank())], all.data(), offsets);
  });
  const char* from = all.data();
  for (const auto& tensors : of_rank)
    for (const Tensor& t : tensors) {
      std::memcpy(bytes_of(t), from, static_cast<size_t>(t.nbytes()));
      impl_of(t).storage->note_write();
      from += t.nbytes();
    }
}

// All states, on rank 0; the others keep what they have.
std::vector<std::vector<Trainer::State>> Trainer::gather_states() const {
  Engine& engine = Engine::get();
  std::vector<std::vector<State>> all(parameters_.size());
  if (parameters_.empty()) return all;
  is_own(0);  // deals them out
  std::vector<uint8_t> is_made(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) is_made[i] = !states_[i].empty() && states_[i][0].is_created;
  engine.run(fmt::format("which of {} parameters have states", parameters_.size()), [&] {
    auto* flags = reinterpret_cast<char*>(is_made.data());
    distributed::all_reduce_now(engine, flags, flags, static_cast<int64_t>(is_made.size()), DType::uint8, distributed::Reduce::max);
  });
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_made[i]) continue;
    State state = is_own(i) ? states_[i][0] : make_state(parameters_[i]->list_data()[0].detach());
    engine.run(fmt::format("the states of parameter {}, from rank {}", i, owners_[i]), [&] {
      for (const Tensor& t : state.tensors) distributed::broadcast_now(engine, bytes_of(t), t.nbytes(), owners_[i]);
    });
    if (engine.rank() == 0) all[i].push_back(std::move(state));
  }
  return all;
}

}  // namespace gluino
