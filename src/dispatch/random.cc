#include "dispatch/random.h"

#include <atomic>
#include <mutex>

#include "base/fork.h"
#include "dispatch/mode.h"
#include "dispatch/untraceable.h"
#include "gluino/op.h"
#include "gluino/random.h"

namespace gluino {
namespace {

struct Generators {
  NoForkMutex mutex;
  std::array<RandomStream, Device::kMaxDevices> state;
  Generators() {
    for (int i = 0; i < Device::kMaxDevices; ++i) reset(0, i);
  }
  // Devices draw different numbers from one seed; device 0 uses the seed itself.
  void reset(uint64_t seed, int id) { state[id] = {seed ^ (0x9E3779B97F4A7C15 * static_cast<uint64_t>(id)), 0}; }
};
Generators& generators() {
  static Generators g;
  return g;
}

}  // namespace

static thread_local ReplayRandom* replay = nullptr;
ReplayRandom* ReplayRandom::of(Device device) {
  ReplayRandom* r = replay;
  while (r && r->device_ != device) r = r->outer_;
  return r;
}
ReplayRandom::ReplayRandom(Device device, RandomStream first) : device_(device), next_(first), outer_(replay) { replay = this; }
ReplayRandom::~ReplayRandom() { replay = outer_; }

void seed(uint64_t seed, std::optional<Device> device) {
  if (mode().tracing) throw Untraceable("it calls seed(), which a program does not do again");
  Generators& g = generators();
  const std::lock_guard lock(g.mutex);
  for (int id = 0; id < Device::kMaxDevices; ++id) {
    if (device && device->id() != id) continue;
    g.reset(seed, id);
    for (ReplayRandom* r = replay; r; r = r->outer_)
      if (r->device_.id() == id) r->next_ = g.state[id];  // what was to be drawn again is not asked for any more
  }
}

RandomStream peek_random_stream(Device device) {
  if (const ReplayRandom* again = ReplayRandom::of(device)) return again->next_;
  Generators& g = generators();
  const std::lock_guard lock(g.mutex);
  return g.state[device.id()];
}

RandomStreams peek_random_streams() {
  RandomStreams all;
  for (int id = 0; id < Device::kMaxDevices; ++id) all[id] = peek_random_stream(cpu(id));
  return all;
}

void advance_random_stream(Device device, const RandomStream& next) {
  if (ReplayRandom* again = ReplayRandom::of(device)) {
    again->next_ = next;
    return;
  }
  Generators& g = generators();
  const std::lock_guard lock(g.mutex);
  RandomStream& s = g.state[device.id()];
  if (s.seed == next.seed) s.stream = std::max(s.stream, next.stream);
}

static std::atomic<uint64_t> random_rank{0};
void set_random_rank(int rank) { random_rank = static_cast<uint64_t>(rank); }
// Streams are numbered from 0 on, one per call: their upper bits are free.
RandomStream of_this_rank(RandomStream stream) { return {stream.seed, stream.stream ^ random_rank << 44}; }

RandomStream next_random_stream(Device device) {
  if (ReplayRandom* again = ReplayRandom::of(device)) {
    const RandomStream mine = again->next_;
    ++again->next_.stream;
    return mine;
  }
  Generators& g = generators();
  const std::lock_guard lock(g.mutex);
  RandomStream& s = g.state[device.id()];
  const RandomStream mine = s;
  ++s.stream;
  return mine;
}

namespace random {

static Tensor draw(std::string_view name, const Shape& shape, const TensorOptions& options,
                   std::vector<std::pair<std::string_view, AttrValue>> attrs, DType dtype = DType::float32) {
  const DeviceScope scope(options.device.value_or(current_device()));
  attrs.emplace_back("shape", shape);
  attrs.emplace_back("dtype", options.dtype.value_or(dtype));
  const OpDef& op = OpRegistry::global().get(name);
  return apply_one(op, {}, op.make_attrs(attrs));
}
Tensor uniform(double low, double high, const Shape& shape, TensorOptions options) {
  return draw("_random_uniform", shape, options, {{"low", low}, {"high", high}});
}
Tensor normal(double loc, double scale, const Shape& shape, TensorOptions options) {
  return draw("_random_normal", shape, options, {{"loc", loc}, {"scale", scale}});
}
Tensor gamma(double alpha, double beta, const Shape& shape, TensorOptions options) {
  return draw("_random_gamma", shape, options, {{"alpha", alpha}, {"beta", beta}});
}
Tensor exponential(double scale, const Shape& shape, TensorOptions options) {
  return draw("_random_exponential", shape, options, {{"lam", 1 / scale}});
}
Tensor poisson(double lam, const Shape& shape, TensorOptions options) { return draw("_random_poisson", shape, options, {{"lam", lam}}); }
Tensor negative_binomial(double k, double p, const Shape& shape, TensorOptions options) {
  return draw("_random_negative_binomial", shape, options, {{"k", k}, {"p", p}});
}
Tensor generalized_negative_binomial(double mu, double alpha, const Shape& shape, TensorOptions options) {
  return draw("_random_generalized_negative_binomial", shape, options, {{"mu", mu}, {"alpha", alpha}});
}
Tensor randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options) {
  return draw("_random_randint", shape, options, {{"low", low}, {"high", high}}, DType::int32);
}
Tensor bernoulli(double prob, const Shape& shape, TensorOptions options) { return draw("_bernoulli", shape, options, {{"prob", prob}}); }
Tensor multinomial(const Tensor& probabilities, const Shape& shape) {
  return call("_sample_multinomial", {probabilities}, {{"shape", shape}});
}
Tensor shuffle(const Tensor& data) { return call("_shuffle", {data}); }

}  // namespace random
}  // namespace gluino
