// Random choices: multinomial draws, shuffling, candidate sampling.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "base/copy_bytes.h"
#include "base/parallel.h"
#include "dispatch/random.h"
#include "kernels/isa/philox.h"
#include "ops/common.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

static constexpr const char* kRandom = "draws random numbers";

struct MultinomialAttrs {
  Shape shape;
  bool get_prob = false;
  DType dtype = DType::int32;
  static void fields(AttrFields<MultinomialAttrs>& f) {
    f.field("shape", &MultinomialAttrs::shape, "how many draws per distribution; () for one")
        .field("get_prob", &MultinomialAttrs::get_prob, "also return the logarithm of the probability of each draw")
        .field("dtype", &MultinomialAttrs::dtype, "dtype of the draws");
  }
};
// draws[i] and, where wanted, the logarithm of its probability.
static void run_multinomial(const MultinomialAttrs& a, KernelContext& k) {
  const Tensor data = with_dtype(k.in(0), DType::float64);
  const int64_t choices = data.shape().back(), each = a.shape.elements(), n = k.out(0).size();
  if (n > 0 && choices == 0) throw ShapeError("there is nothing to choose from");
  const RandomStream stream = next_random_stream(k.out().device());
  std::vector<double> logs(n);
  visit_dtype(k.out(0).dtype(), [&]<class T>(T*) {
    T* out = k.out_data<T>(0);
    parallel_for(n, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, choices)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double* p = data.data<double>() + i / each * choices;
        ElementRandom random(stream, i);
        double left = random.uniform() * std::accumulate(p, p + choices, 0.0);
        int64_t choice = 0;
        while (choice + 1 < choices && left >= p[choice]) left -= p[choice++];
        out[i] = element<T>(static_cast<double>(choice));
        logs[i] = std::log(p[choice]);
      }
    });
  });
  if (a.get_prob) {
    const Tensor typed = with_dtype(from_vector(logs), k.out(1).dtype());
    std::memcpy(bytes_of(k.out(1)), bytes_of(typed), typed.nbytes());
  }
}
GLUINO_OP(_sample_multinomial, MultinomialAttrs) {
  op.doc("Draws indices with the probabilities in the last axis of data.")
      .alias("sample_multinomial")
      .random()
      .input("data")
      .num_outputs([](const MultinomialAttrs& a) { return a.get_prob ? 2 : 1; })
      .shape([](const MultinomialAttrs& a, std::span<const Shape> in) {
        if (in[0].empty()) throw ShapeError("data is a scalar, but a vector of probabilities is needed");
        Shape out = in[0];
        out.erase(out.ndim() - 1);
        for (int64_t e : a.shape) out.push_back(e);
        if (out.empty()) out.push_back(1);
        return out;
      })
      .dtype([](const MultinomialAttrs& a, std::span<const DType>, DType promoted) {
        return a.get_prob ? std::vector<DType>{a.dtype, promoted} : std::vector<DType>{a.dtype};
      })
      .refuses_values()
      .kernel(run_multinomial)
      // The logarithms depend on data: d log(p[i]) = 1 / p[i].
      .gradient({{0}, {0}},
                [](const MultinomialAttrs& a, const Gradient& g) -> Tensors {
                  if (!a.get_prob) return {Tensor()};
                  Shape rows = Shape::filled(g.like(0).ndim(), 0);
                  rows[rows.ndim() - 1] = -1;
                  Tensor head = g.head(1), draws = g.out(0);
                  if (a.shape.empty() && g.like(0).ndim() > 1) {
                    head = call("expand_dims", {head}, {{"axis", int64_t{-1}}});
                    draws = call("expand_dims", {draws}, {{"axis", int64_t{-1}}});
                  }
                  head = head.reshape(rows);
                  draws = draws.reshape(rows);
                  return {call("_put_along_axis", {head / call("_take_along_axis", {g.in(0), draws}), draws, g.like(0)})};
                })
      .sample({uniform_sample({2, 4}, 0.1, 1)}, {.shape = {5}})
      .sample({uniform_sample({4}, 0.1, 1)}, {.get_prob = true});
}

GLUINO_OP(_shuffle, NoAttrs) {
  op.doc("Puts the slices of the first axis into a random order.")
      .alias("shuffle")
      .random()
      .input("data")
      .dtypes(DTypeSet::any)
      .same_shape()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Shape& shape = k.in(0).shape();
        const int64_t n = shape.empty() ? 1 : shape[0],
                      bytes = shape.elements(std::min(1, shape.ndim()), shape.ndim()) * dtype_bytes(k.out().dtype());
        const RandomStream stream = next_random_stream(k.out().device());
        std::vector<int64_t> order(n);
        std::iota(order.begin(), order.end(), int64_t{0});
        // Number i is the first of element i, as ElementRandom gives it; many are made at once.
        constexpr int64_t kAtOnce = 256;
        std::array<uint32_t, 4 * kAtOnce> words;
        for (int64_t end = n; end > 1;) {
          const int64_t first = std::max<int64_t>(1, end - kAtOnce);
          kernels::philox_table().words(stream.seed, stream.stream, static_cast<uint64_t>(first), end - first, words.data());
          for (int64_t i = end - 1; i >= first; --i) {
            const size_t w = static_cast<size_t>(4 * (i - first));
            std::swap(order[i], order[unit_double(words[w], words[w + 1]) * static_cast<double>(i + 1)]);
          }
          end = first;
        }
        char* const to = bytes_of(k.out());
        const char* const from = bytes_of(k.in(0));
        copy_pieces(
            bytes, n, [&](int64_t i) { return to + i * bytes; }, [&](int64_t i) { return from + order[i] * bytes; });
      })
      .not_differentiable(kRandom)
      .sample({{5, 3}});
}

struct ZipfianAttrs {
  int64_t range_max = 1;
  Shape shape;
  static void fields(AttrFields<ZipfianAttrs>& f) {
    f.required("range_max", &ZipfianAttrs::range_max, "number of classes")
        .field("shape", &ZipfianAttrs::shape, "rows, and draws in each row");
  }
};
GLUINO_OP(_sample_unique_zipfian, ZipfianAttrs) {
  op.doc("Different classes for each row, small numbers more often (log-uniform), and how many tries they took.")
      .random()
      .outputs({"samples", "tries"})
      .dtypes(DTypeSet::any)
      .shape([](const ZipfianAttrs& a, std::span<const Shape>) {
        if (a.shape.ndim() != 2) raise<AttrError>("attribute 'shape' is {}, but rows and draws are needed", a.shape);
        if (a.shape[1] > a.range_max) raise<AttrError>("{} different classes cannot be drawn from {}", a.shape[1], a.range_max);
        return std::vector<Shape>{a.shape, {a.shape[0]}};
      })
      .dtype([](const ZipfianAttrs&, std::span<const DType>, DType) { return DType::int64; })
      .kernel([](const ZipfianAttrs& a, KernelContext& k) {
        const RandomStream stream = next_random_stream(k.out().device());
        const double range = std::log(static_cast<double>(a.range_max) + 1);
        for (int64_t row = 0; row < a.shape[0]; ++row) {
          ElementRandom random(stream, row);
          std::unordered_set<int64_t> seen;
          int64_t tries = 0;
          while (static_cast<int64_t>(seen.size()) < a.shape[1]) {
            ++tries;
            const int64_t value = std::min(a.range_max - 1, static_cast<int64_t>(std::exp(random.uniform() * range)) - 1);
            if (seen.insert(value).second) k.out_data<int64_t>(0)[row * a.shape[1] + static_cast<int64_t>(seen.size()) - 1] = value;
          }
          k.out_data<int64_t>(1)[row] = tries;
        }
      })
      .not_differentiable(kRandom)
      .sample({}, {.range_max = 20, .shape = {2, 4}});
}

}  // namespace
}  // namespace gluino::ops
