#include "distributed/gradient_exchange.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>

#include "autograd/row_gradient.h"
#include "base/format.h"
#include "distributed/compression.h"
#include "distributed/timeline.h"

namespace gluino::distributed {
namespace {

using autograd::TapeEntry;

constexpr int64_t kAlone = int64_t{1} << 18;  // bytes from which a gradient is a bucket of its own, and is not copied into one
constexpr int64_t kManyRows = 1024;           // from which on it is worth while to look which of them are zeros

struct Item {
  Ref<TapeEntry> leaf;
  int weight;      // its number
  int64_t offset;  // in elements of the bucket
  bool is_whole = false;
  int64_t count() const { return impl_of(leaf->leaf_grad).shape.elements(); }
};

bool is_seen_by_others(const detail::TensorImpl& t) {
  const SharedMemory* memory = Engine::get().shared();
  return memory && memory->place_of(t.data) != SharedMemory::kElsewhere;
}
// In memory that the other ranks of this machine see, where there is such.
Tensor make_for_exchange(const Shape& shape, DType dtype, Device device) {
  SharedMemory* memory = Engine::get().shared();
  const int64_t bytes = shape.elements() * dtype_bytes(dtype);
  char* data = memory && bytes > 0 ? memory->allocate(bytes) : nullptr;
  if (!data) return make_tensor(shape, dtype, device);
  Tensor t = make_shape_only(shape, dtype, device);
  impl_of(t).storage = make_ref<Storage>(data, bytes, device, [memory, data, bytes] { memory->release(data, bytes); });
  impl_of(t).data = data;
  return t;
}
// Nobody else knows the memory: it may change hands.
bool is_alone(const detail::TensorImpl& t) { return t.storage->use_count() == 1 && t.data == t.storage->data(); }
void swap_memory(detail::TensorImpl& a, detail::TensorImpl& b) {
  std::swap(a.storage, b.storage);
  std::swap(a.data, b.data);
}

struct Bucket {
  std::vector<Item> items;
  DType dtype = DType::float32;
  int64_t count = 0;
  Tensor given;           // gradients side by side, where there are several
  Tensor sum;             // what comes back
  Tensor residual;        // of the compression
  Ref<Storage> borrowed;  // keeps the memory that is being sent
  std::vector<uint8_t> codes;
  std::optional<std::vector<int64_t>> touched;
  size_t whole = 0;  // items
  bool is_launched = false, is_outdated = false;
  Engine::Ticket ticket;

  bool is_single() const { return items.size() == 1; }
  // Of a gradient that stands alone and has rows; else 0.
  int64_t rows() const {
    const Shape& shape = impl_of(items[0].leaf->leaf_grad).shape;
    return is_single() && shape.ndim() >= 2 ? shape[0] : 0;
  }
};

}  // namespace

struct GradientExchange::State final : autograd::GradientWatcher, std::enable_shared_from_this<GradientExchange::State> {
  ExchangeOptions options;
  std::vector<Bucket> buckets;
  std::unordered_map<const TapeEntry*, std::pair<size_t, size_t>> places;  // bucket and item
  std::vector<const TapeEntry*> leaves;                                    // of the weights, in their order
  std::vector<uint8_t> is_fresh;                                           // by weight; of all ranks after the last bucket
  size_t next = 0;                                                         // the bucket that leaves next
  bool overlaps = true;
  std::atomic<int64_t> bytes{0};
  int64_t early = 0;

  void build(const Tensors& weights);
  static void show_gradient(detail::TensorImpl& g);
  void on_gradient(TapeEntry& leaf) override;
  void launch(size_t number);
  void work(Bucket& bucket, const char* in, bool is_last);
  void deliver(Bucket& bucket);
  const char* gather_input(Bucket& bucket);
};

GradientExchange::GradientExchange(ExchangeOptions options) : state_(std::make_shared<State>()) {
  static const std::vector<std::string> known{"fp16", "bf16", "2bit"};
  if (!options.compression.empty() && std::find(known.begin(), known.end(), options.compression) == known.end())
    raise<UserError>("gradient compression is '{}'; it can be fp16, bf16 or 2bit{}", options.compression,
                     did_you_mean(options.compression, known));
  if (!(options.threshold > 0))
    raise<UserError>("gradient compression: the threshold is {}, a positive number is needed", options.threshold);
  if (!(options.bucket_megabytes > 0)) raise<UserError>("a bucket has {} MB, a positive number is needed", options.bucket_megabytes);
  state_->overlaps = options.overlap;
  state_->options = std::move(options);
}
// What is on its way holds memory of ours.
GradientExchange::~GradientExchange() {
  for (Bucket& b : state_->buckets)
    if (b.is_launched) try {
        b.ticket.wait();
      } catch (const std::exception&) {  // whoever waited for the result has been told
      }
}
const ExchangeOptions& GradientExchange::options() const { return state_->options; }
int64_t GradientExchange::bytes_sent() const { return state_->bytes; }
int64_t GradientExchange::early_buckets() const { return state_->early; }

void GradientExchange::State::build(const Tensors& weights) {
  buckets.clear();
  places.clear();
  leaves.clear();
  for (const Tensor& w : weights) leaves.push_back(autograd::entry_of(w));
  is_fresh.assign(weights.size(), 0);
  const auto most = static_cast<int64_t>(options.bucket_megabytes * (1 << 20));
  std::unordered_map<int, size_t> open;  // by dtype: the bucket that is being filled
  for (size_t i = weights.size(); i-- > 0;) {
    TapeEntry* leaf = autograd::entry_of(weights[i]);
    const detail::TensorImpl& g = impl_of(autograd::dense_gradient(*leaf));  // which rows travel is found here
    const int64_t count = g.shape.elements(), bytes = count * dtype_bytes(g.dtype);
    const auto known = open.find(static_cast<int>(g.dtype));
    size_t number;
    if (bytes >= kAlone || known == open.end() || (buckets[known->second].count * dtype_bytes(g.dtype)) + bytes > most) {
      number = buckets.size();
      buckets.emplace_back().dtype = g.dtype;
      if (bytes < kAlone) open[static_cast<int>(g.dtype)] = number;
    } else {
      number = known->second;
    }
    Bucket& b = buckets[number];
    b.items.push_back({Ref<TapeEntry>(leaf), static_cast<int>(i), b.count});
    b.count += count;
    autograd::watch_gradient(*leaf, shared_from_this());
  }
  // They leave in this order, so the one that backward() fills last must not be among the first.
  std::ranges::stable_sort(buckets, std::greater{}, [](const Bucket& b) { return b.items.back().weight; });
  for (size_t number = 0; number < buckets.size(); ++number)
    for (size_t i = 0; i < buckets[number].items.size(); ++i) places[buckets[number].items[i].leaf.get()] = {number, i};
  for (Bucket& b : buckets) {
    const Device device = impl_of(b.items[0].leaf->leaf_grad).device;
    const Shape shape = b.is_single() ? impl_of(b.items[0].leaf->leaf_grad).shape : Shape{b.count};
    b.sum = make_for_exchange(shape, b.dtype, device);
    if (!b.is_single()) b.given = make_for_exchange(shape, b.dtype, device);
    if (b.is_single()) show_gradient(impl_of(b.items[0].leaf->leaf_grad));
    if (options.compression == "2bit" && b.dtype == DType::float32) {
      b.residual = zeros({b.count}, {b.dtype, device});
      b.codes.resize(static_cast<size_t>((b.count + 3) / 4));
    }
  }
}

// Compiled programs write gradients into the memory that these have: where that is seen by the others, nothing is copied on the way.
void GradientExchange::State::show_gradient(detail::TensorImpl& g) {
  if (!is_alone(g) || is_seen_by_others(g)) return;
  const Tensor shown = make_for_exchange(g.shape, g.dtype, g.device);
  std::memcpy(bytes_of(shown), g.data, static_cast<size_t>(shown.nbytes()));
  swap_memory(g, impl_of(shown));
}

void GradientExchange::State::on_gradient(TapeEntry& leaf) {
  const auto place = places.find(&leaf);
  if (place == places.end() || !overlaps || leaf.req != GradReq::write) return;
  Bucket& b = buckets[place->second.first];
  Item& item = b.items[place->second.second];
  if (item.is_whole) {
    // A second backward() before the step: what has left is of the first, and to send everything twice would help nobody.
    overlaps = false;
    for (Bucket& each : buckets) each.is_outdated = true;
    return;
  }
  item.is_whole = true;
  ++b.whole;
  while (next < buckets.size() && buckets[next].whole == buckets[next].items.size()) {
    launch(next++);
    ++early;
  }
}

// The gradients of a bucket in one piece of memory, zeros where backward() has not reached a weight.
const char* GradientExchange::State::gather_input(Bucket& b) {
  if (b.is_single()) {
    const detail::TensorImpl& g = impl_of(b.items[0].leaf->leaf_grad);
    if (b.items[0].leaf->is_fresh) {
      b.borrowed = g.storage;
      return g.data;
    }
    std::memset(bytes_of(b.sum), 0, static_cast<size_t>(b.sum.nbytes()));
    return bytes_of(b.sum);
  }
  const int64_t width = dtype_bytes(b.dtype);
  for (const Item& item : b.items) {
    char* to = bytes_of(b.given) + item.offset * width;
    if (item.leaf->is_fresh)
      std::memcpy(to, impl_of(item.leaf->leaf_grad).data, static_cast<size_t>(item.count() * width));
    else
      std::memset(to, 0, static_cast<size_t>(item.count() * width));
  }
  return bytes_of(b.given);
}

void GradientExchange::State::launch(size_t number) {
  Bucket& b = buckets[number];
  const char* in = gather_input(b);
  const bool is_last = number + 1 == buckets.size(), is_float = b.dtype == DType::float32;
  uint64_t stale = 0, rows = 0;
  if (is_last)
    for (size_t w = 0; w < leaves.size(); ++w) {
      is_fresh[w] = leaves[w]->is_fresh;
      stale += !is_fresh[w];
    }
  b.touched.reset();
  if (is_float && b.rows() >= kManyRows && options.compression.empty()) {
    const int64_t most = b.rows() / (int64_t{2} * Engine::get().size());
    b.touched = touched_rows(reinterpret_cast<const float*>(in), b.rows(), b.count / b.rows(), most);
    rows = b.touched ? 0 : 1;  // 1 on any rank: too many to be sent as rows
  } else {
    rows = 1;
  }
  // (Where a bucket is sent again because of a second backward(), what the first left behind stays in the residual: once, see on_gradient.)
  if (!b.codes.empty())
    quantize_two_bit(reinterpret_cast<const float*>(in), b.residual.mutable_data<float>(), b.codes.data(), b.count,
                     static_cast<float>(options.threshold));
  b.is_launched = true;
  b.is_outdated = false;
  std::string what = fmt::format("gradients, bucket {} of {}: {} {}", number + 1, buckets.size(), b.count, dtype_name(b.dtype));
  if (is_float && !options.compression.empty()) what += " as " + options.compression;
  if (!b.codes.empty()) what += fmt::format(" of {}", options.threshold);
  b.ticket =
      Engine::get().submit(std::move(what), [self = shared_from_this(), &b, in, is_last] { self->work(b, in, is_last); }, {stale, rows});
}

// On the engine's thread.
void GradientExchange::State::work(Bucket& b, const char* in, bool is_last) {
  Engine& engine = Engine::get();
  const auto [stale, too_many_rows] = engine.largest_notes();
  const TimelineScope scope("gradients", b.count * dtype_bytes(b.dtype));
  const auto begin = std::chrono::steady_clock::now();
  const int64_t sent_before = bytes;
  char* out = bytes_of(b.sum);
  const auto* values = reinterpret_cast<const float*>(in);
  auto* sums = reinterpret_cast<float*>(out);
  const int64_t others = engine.size() - 1;
  if (!b.codes.empty()) {
    all_reduce_two_bit_now(engine, b.codes.data(), sums, b.count, static_cast<float>(options.threshold));
    bytes += (static_cast<int64_t>(b.codes.size()) + b.count * 2) * others / engine.size();
  } else if (b.dtype == DType::float32 && !options.compression.empty()) {
    all_reduce_narrow_now(engine, values, sums, b.count, options.compression == "fp16" ? DType::float16 : DType::bfloat16);
    bytes += 4 * b.count * others / engine.size();
  } else if (b.touched && too_many_rows == 0) {
    bytes += all_reduce_rows_now(engine, values, *b.touched, sums, b.rows(), b.count / b.rows());
  } else {
    all_reduce_now(engine, in, out, b.count, b.dtype, Reduce::sum);
    bytes += 2 * b.count * dtype_bytes(b.dtype) * others / engine.size();
  }
  engine.pace(begin, bytes - sent_before);
  if (is_last && stale > 0) {
    auto* flags = reinterpret_cast<char*>(is_fresh.data());
    all_reduce_now(engine, flags, flags, static_cast<int64_t>(is_fresh.size()), DType::uint8, Reduce::max);
  }
}

void GradientExchange::State::deliver(Bucket& b) {
  b.borrowed = nullptr;
  const int64_t width = dtype_bytes(b.dtype);
  for (const Item& item : b.items) {
    if (!is_fresh[static_cast<size_t>(item.weight)]) continue;
    item.leaf->is_fresh = true;
    detail::TensorImpl& g = impl_of(item.leaf->leaf_grad);
    g.autograd = nullptr;
    g.storage->note_write();
    detail::TensorImpl& sum = impl_of(b.sum);
    if (b.is_single() && is_alone(g) && is_alone(sum) && is_seen_by_others(g) == is_seen_by_others(sum)) {
      swap_memory(g, sum);
    } else {
      std::memcpy(g.data, sum.data + item.offset * width, static_cast<size_t>(item.count() * width));
    }
  }
  for (Item& item : b.items) item.is_whole = false;
  b.whole = 0;
  b.is_launched = b.is_outdated = false;
}

void GradientExchange::sum_over_ranks(const Tensors& weights) {
  State& s = *state_;
  if (Engine::get().size() == 1) return;
  bool is_known = weights.size() == s.leaves.size();
  for (size_t i = 0; i < weights.size(); ++i) {
    const TapeEntry* leaf = autograd::entry_of(weights[i]);
    if (!leaf || !leaf->has_own_gradient())
      raise<UserError>("weight {} of those whose gradients are summed over ranks has none; call attach_grad() first", i);
    is_known = is_known && s.leaves[i] == leaf;
  }
  if (!is_known) {
    for (Bucket& b : s.buckets)
      if (b.is_launched) b.ticket.wait();
    s.build(weights);
  }
  for (size_t n = 0; n < s.buckets.size(); ++n) {
    Bucket& b = s.buckets[n];
    if (b.is_launched && b.is_outdated) b.ticket.wait();
    if (!b.is_launched || b.is_outdated) s.launch(n);
  }
  // The last bucket says which gradients are fresh, so all must be back before the first is delivered.
  for (Bucket& b : s.buckets) b.ticket.wait();
  for (Bucket& b : s.buckets) s.deliver(b);
  s.next = 0;
}

void broadcast_from_first(const Tensors& tensors) {
  Engine& engine = Engine::get();
  if (engine.size() == 1 || tensors.empty()) return;
  std::string what = fmt::format("the values of {} weights, from rank 0:", tensors.size());
  for (const Tensor& t : tensors) what += fmt::format(" {} {}", t.dtype(), impl_of(t).shape);
  engine.run(std::move(what), [&] {
    for (const Tensor& t : tensors) {
      broadcast_now(engine, bytes_of(t), t.nbytes(), 0);
      if (engine.rank() != 0) impl_of(t).storage->note_write();
    }
  });
}

}  // namespace gluino::distributed
