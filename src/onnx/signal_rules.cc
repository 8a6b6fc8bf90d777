// Fourier transforms, windows of signals, and counts of word groups.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

struct Complex {
  Tensor real, imaginary;  // imaginary may be null
};

// Along the last axis, which has n elements, by products with cosines and sines; the first `kept` frequencies.
Complex transform(const Complex& x, int64_t n, int64_t kept, bool inverse) {
  std::vector<double> cosines(static_cast<size_t>(n * kept)), sines(cosines.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < kept; ++k) {
      const double angle = kTurn * static_cast<double>(i * k % n) / static_cast<double>(n);
      cosines[static_cast<size_t>(i * kept + k)] = std::cos(angle) / (inverse ? static_cast<double>(n) : 1);
      sines[static_cast<size_t>(i * kept + k)] = std::sin(angle) * (inverse ? 1 / static_cast<double>(n) : -1);
    }
  const DType dtype = x.real.dtype();
  const Tensor c = from_vector(cosines, Shape{n, kept}, {.dtype = dtype}), s = from_vector(sines, Shape{n, kept}, {.dtype = dtype});
  Complex y{dot(x.real, c), dot(x.real, s)};
  if (x.imaginary.defined()) {
    y.real = y.real - dot(x.imaginary, s);
    y.imaginary = y.imaginary + dot(x.imaginary, c);
  }
  return y;
}

Complex parts_of(const Tensor& t) {
  const auto part = [&](int64_t i) {
    const int axis = t.ndim() - 1;
    return squeeze(slice_axis(t, {.axis = axis, .begin = i, .end = std::optional<int64_t>(i + 1)}), {.axis = Shape{axis}});
  };
  return {part(0), t.extent(-1) == 2 ? part(1) : Tensor()};
}
Tensor both_of(const Complex& x) { return stack({x.real, x.imaginary}, {.axis = -1}); }

Tensor fourier(Call& c) {
  const Tensor x = c.in(0);
  const int rank = x.ndim(), axis = c.axis(c.has(2) ? c.whole_number(2) : c.integer("axis", 1), rank - 1), last = rank - 2;
  const bool inverse = c.integer("inverse", 0) != 0, onesided = c.integer("onesided", 0) != 0;
  const int64_t there = x.extent(axis), n = c.has(1) ? c.whole_number(1) : there;
  if (n < 1) raise<ShapeError>("the length of the transform is {}", n);
  const auto prepared = [&](const Tensor& t) {
    if (!t.defined()) return t;
    Tensor moved = swapaxes(t, {.dim1 = axis, .dim2 = last});
    if (n < there) moved = slice_axis(moved, {.axis = last, .begin = 0, .end = std::optional<int64_t>(n)});
    Shape width = Shape::filled(2 * moved.ndim(), 0);
    width[2 * last + 1] = std::max<int64_t>(0, n - there);
    return n > there ? pad(moved, {.mode = "constant", .pad_width = width}) : moved;
  };
  const Complex parts = parts_of(x);
  const Complex y = transform({prepared(parts.real), prepared(parts.imaginary)}, n, onesided ? n / 2 + 1 : n, inverse);
  return both_of({swapaxes(y.real, {.dim1 = axis, .dim2 = last}), swapaxes(y.imaginary, {.dim1 = axis, .dim2 = last})});
}

Tensor short_time_fourier(Call& c) {
  const Tensor x = c.in(0);
  const int64_t step = c.whole_number(1), n = x.extent(1);
  const int64_t length = c.has(3) ? c.whole_number(3) : c.has(2) ? c.in(2).extent(0) : n;
  if (step < 1 || length < 1 || length > n) raise<UserError>("frames of {} elements every {} do not fit a signal of {}", length, step, n);
  const int64_t frames = (n - length) / step + 1;
  std::vector<int64_t> places;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < length; ++i) places.push_back(f * step + i);
  const Tensor at = from_vector(places, Shape{frames, length});
  const auto framed = [&](const Tensor& t) {
    if (!t.defined()) return t;
    const Tensor cut = take(t, at, {.axis = 1});
    return c.has(2) ? broadcast_mul(cut, c.in(2).astype(t.dtype())) : cut;
  };
  const Complex parts = parts_of(x);
  return both_of(
      transform({framed(parts.real), framed(parts.imaginary)}, length, c.integer("onesided", 1) ? length / 2 + 1 : length, false));
}

// a - b cos(t) + c cos(2t) over a turn.
Rule window(double a, double b, double second) {
  return [=](Call& c) -> Tensors {
    const int64_t n = c.whole_number(0);
    const double turn = static_cast<double>(c.integer("periodic", 1) ? n : n - 1);
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) {
      const double angle = kTurn * static_cast<double>(i) / turn;
      values.push_back(a - b * std::cos(angle) + second * std::cos(2 * angle));
    }
    return {vector_of(values, carrier(static_cast<ElementType>(c.integer("output_datatype", 1)), "the result"))};
  };
}

// Triangles over the frequencies of a transform, evenly spaced by pitch.
Tensor mel_weights(Call& c) {
  const int64_t bins = c.whole_number(0), length = c.whole_number(1), rate = c.whole_number(2), rows = length / 2 + 1;
  if (bins < 1 || length < 1 || rate < 1) raise<UserError>("{} bins, a length of {} and a rate of {} must be positive", bins, length, rate);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(c.number(3)), pitch = (mel(c.number(4)) - low) / static_cast<double>(bins + 2);
  std::vector<int64_t> at;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (low + static_cast<double>(i) * pitch) / 2595) - 1);
    at.push_back(std::clamp<int64_t>(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))),
                                     0, rows - 1));
  }
  std::vector<double> weights(static_cast<size_t>(rows * bins), 0.0);
  for (int64_t i = 0; i < bins; ++i) {
    const auto k = static_cast<size_t>(i);
    const int64_t from = at[k], centre = at[k + 1], to = at[k + 2];
    const auto weight = [&](int64_t j) -> double& { return weights[static_cast<size_t>(j * bins + i)]; };
    if (centre == from) weight(centre) = 1;
    for (int64_t j = from; centre > from && j <= centre; ++j)
      weight(j) = static_cast<double>(j - from) / static_cast<double>(centre - from);
    for (int64_t j = centre; j < to; ++j) weight(j) = static_cast<double>(to - j) / static_cast<double>(to - centre);
  }
  return from_vector(weights, Shape{rows, bins},
                     {.dtype = carrier(static_cast<ElementType>(c.integer("output_datatype", 1)), "the result")});
}

// How often each group of numbers of the pool stands in a row, with gaps up to a limit.
Tensor count_groups(Call& c) {
  const Tensor x = c.in(0);
  if (!c.has_attribute("pool_int64s")) c.refuse("it counts groups of text; only whole numbers can be imported");
  const std::vector<int64_t> pool = c.integers("pool_int64s"), starts = c.integers("ngram_counts"), places = c.integers("ngram_indexes");
  const std::vector<double> weights = c.numbers("weights");
  const std::string mode = c.text("mode", "TF");
  const int64_t least = c.integer("min_gram_length", 1), most = c.integer("max_gram_length", 1), gaps = c.integer("max_skip_count", 0);
  const std::vector<int64_t> numbers = x.to_vector<int64_t>();
  const int64_t rows = x.ndim() == 1 ? 1 : x.extent(0), columns = x.extent(-1);
  const int64_t width = places.empty() ? 0 : *std::max_element(places.begin(), places.end()) + 1;
  std::vector<double> counts(static_cast<size_t>(rows * width), 0.0);
  size_t group = 0;
  for (int64_t length = 1; length <= static_cast<int64_t>(starts.size()); ++length) {
    const int64_t begin = starts[static_cast<size_t>(length - 1)];
    const int64_t end =
        length < static_cast<int64_t>(starts.size()) ? starts[static_cast<size_t>(length)] : static_cast<int64_t>(pool.size());
    if (begin < 0 || end > static_cast<int64_t>(pool.size())) raise<AttrError>("attribute 'ngram_counts' does not fit the pool");
    for (int64_t at = begin; at + length <= end; at += length, ++group) {
      if (group >= places.size() || places[group] < 0) raise<AttrError>("attribute 'ngram_indexes' does not fit the pool");
      if (length < least || length > most) continue;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t gap = 0; gap <= (length == 1 ? 0 : gaps); ++gap)
          for (int64_t i = 0; i + (length - 1) * (gap + 1) < columns; ++i) {
            bool same = true;
            for (int64_t k = 0; k < length && same; ++k)
              same = numbers[static_cast<size_t>(row * columns + i + k * (gap + 1))] == pool[static_cast<size_t>(at + k)];
            counts[static_cast<size_t>(row * width + places[group])] += same;
          }
    }
  }
  for (int64_t row = 0; row < rows; ++row)
    for (size_t g = 0; g < places.size() && mode != "TF"; ++g) {
      double& count = counts[static_cast<size_t>(row * width + places[g])];
      const double weight = g < weights.size() ? weights[g] : 1;
      count = mode == "IDF" ? (count > 0 ? weight : 0) : count * weight;
    }
  return from_vector(counts, x.ndim() == 1 ? Shape{width} : Shape{rows, width}, {.dtype = DType::float32});
}

}  // namespace

void add_signal_rules(Rules& rules) {
  rules.add("DFT", fourier);
  rules.add("STFT", short_time_fourier);
  rules.add("HannWindow", window(0.5, 0.5, 0));
  rules.add("HammingWindow", window(25.0 / 46, 21.0 / 46, 0));
  rules.add("BlackmanWindow", window(0.42, 0.5, 0.08));
  rules.add("MelWeightMatrix", mel_weights);
  rules.add("TfIdfVectorizer", count_groups);
}

}  // namespace gluino::onnx
