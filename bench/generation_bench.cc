// The cost of a token that a 12-layer decoder generates, eager and hybridized: with a prefix that grows by one, and with the keys and
// values of earlier tokens as inputs that grow by one. Processor time; prints JSON. With an argument the second alone.
#include <cmath>
#include <cstdio>

#include "gluino/gluino.h"
#include "runner.h"

using namespace gluino;

namespace {

constexpr int64_t kLayers = 12, kUnits = 256, kHeads = 4, kWords = 1000;
constexpr int kTokens = 200;

// (batch, length, units) to (batch * heads, length, units / heads), and back.
Tensor split_heads(const Tensor& x) { return x.reshape({0, 0, -4, kHeads, -1}).transpose({0, 2, 1, 3}).reshape({-3, 0, 0}); }
Tensor join_heads(const Tensor& x) { return x.reshape({-4, -1, kHeads, 0, 0}).transpose({0, 2, 1, 3}).reshape({0, 0, -3}); }

struct Layer : nn::HybridBlock {
  nn::LayerNorm norm1, norm2;
  nn::Dense queries{kUnits, {.flatten = false}}, keys{kUnits, {.flatten = false}}, values{kUnits, {.flatten = false}};
  nn::Dense joined{kUnits, {.flatten = false}}, hidden{4 * kUnits, {.activation = "relu", .flatten = false}},
      output{kUnits, {.flatten = false}};
  Layer() { GLUINO_CHILDREN(norm1, norm2, queries, keys, values, joined, hidden, output); }

  Tensors forward(const Tensors& in) override {  // x, and keys and values of earlier tokens or a mask
    const Tensor normed = norm1(in[0]);
    const Tensor q = split_heads(queries(normed));
    Tensor k = split_heads(keys(normed)), v = split_heads(values(normed));
    if (in.size() == 3) {
      k = concat({in[1], k}, {.dim = 1});
      v = concat({in[2], v}, {.dim = 1});
    }
    Tensor scores = batch_dot(q, k, {.transpose_b = true}) * (1 / std::sqrt(static_cast<double>(kUnits / kHeads)));
    if (in.size() == 2) scores = broadcast_add(scores, in[1]);
    const Tensor x = in[0] + joined(join_heads(batch_dot(softmax(scores), v)));
    return {x + output(hidden(norm2(x))), k, v};
  }
};

struct Decoder : nn::HybridBlock {
  nn::Embedding words{kWords, kUnits};
  nn::Dense last{kWords, {.flatten = false}};
  std::vector<std::unique_ptr<Layer>> layers;
  Decoder() {
    GLUINO_CHILDREN(words, last);
    for (int i = 0; i < kLayers; ++i) add_child("layer" + std::to_string(i), *layers.emplace_back(std::make_unique<Layer>()));
  }
  // Words and a mask: the next word's scores. A word and the keys and values of all layers: these grow by one, too.
  Tensors forward(const Tensors& in) override {
    Tensor x = words(in[0]);
    Tensors kept;
    for (size_t i = 0; i < layers.size(); ++i) {
      const Tensors made = (*layers[i])(in.size() == 2 ? Tensors{x, in[1]} : Tensors{x, in[1 + 2 * i], in[2 + 2 * i]});
      x = made[0];
      if (in.size() > 2) kept.insert(kept.end(), made.begin() + 1, made.end());
    }
    kept.insert(kept.begin(), last(x[{Slice(), Slice(-1, {})}]));
    return kept;
  }
};

double microseconds_per_token(Decoder& net, bool has_cache) {
  Tensors cache(2 * kLayers, zeros({kHeads, 1, kUnits / kHeads}));
  const double start = bench::processor_seconds();
  for (int t = 1; t <= kTokens; ++t) {
    Tensors in;
    if (has_cache) {
      in = {full({1, 1}, t % kWords)};
      in.insert(in.end(), cache.begin(), cache.end());
    } else {
      const Tensor at = arange(t);
      in = {(at % static_cast<double>(kWords)).reshape({1, -1}), (at.reshape({1, -1}) > at.reshape({-1, 1})) * -1e9};
    }
    Tensors out = net(in);
    if (has_cache) cache.assign(out.begin() + 1, out.end());
  }
  return (bench::processor_seconds() - start) * 1e6 / kTokens;
}

}  // namespace

int main(int argc, char**) {
  set_num_threads(1);
  std::printf("{");
  for (bool has_cache : {false, true}) {
    if (argc > 1 && !has_cache) continue;
    Decoder net;
    net.initialize();
    microseconds_per_token(net, has_cache);
    const double eager = microseconds_per_token(net, has_cache);
    net.hybridize();
    // Lengths that come for the first time run operator by operator, those that come again get a plan, and then have one.
    double us[3];
    int64_t plans[3];
    for (int i = 0; i < 3; ++i) {
      us[i] = microseconds_per_token(net, has_cache);
      plans[i] = net.cache().stats().plans;
    }
    std::printf(
        "%s\"%s\": {\"eager_us\": %.1f, \"first_us\": %.1f, \"second_us\": %.1f, \"hybridized_us\": %.1f, \"traces\": %lld, "
        "\"plans_first\": %lld, \"plans_later\": %lld}",
        has_cache && argc == 1 ? ", " : "", has_cache ? "keys and values as inputs" : "growing prefix", eager, us[0], us[1], us[2],
        static_cast<long long>(net.cache().stats().traces), static_cast<long long>(plans[0]), static_cast<long long>(plans[2] - plans[1]));
  }
  std::printf("}\n");
}
