// Where C++ goes by NumPy's rules and not by those of MXNet's operators: the same eagerly and hybridized.
#include <cmath>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

const double kNan = NAN;

TEST(NumpyRules, NanIsTheExtremum) {
  const Tensor x = tensor({1.0, kNan, 3.0, kNan});
  EXPECT_EQ(argmax(x).to_vector<int64_t>(), std::vector<int64_t>{1});
  EXPECT_EQ(argmin(x).to_vector<int64_t>(), std::vector<int64_t>{1});
  EXPECT_EQ(argmax(tensor({{kNan, 5.0}, {2.0, 7.0}}), {.axis = 0}).to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(argmax(tensor({2.0, 7.0, 7.0})).to_vector<int64_t>(), std::vector<int64_t>{1});
  EXPECT_EQ(call("argmax", {x}).to_vector<float>(), std::vector<float>{1});
}

TEST(NumpyRules, PositionsAreWholeNumbers) {
  constexpr int64_t last = (int64_t{1} << 24) + 1;  // a float32 rounds it
  Tensor x = zeros({last + 1}, {DType::uint8});
  x.mutable_data<uint8_t>()[last] = 1;
  const Tensor at = argmax(x);
  EXPECT_EQ(at.dtype(), DType::int64);
  EXPECT_EQ(at.item<int64_t>(), last);
  EXPECT_EQ(call("argmax", {x}).dtype(), DType::float32);  // as MXNet's files have it
}

TEST(NumpyRules, SumsOfSmallWholeNumbers) {
  const Tensor x = ones({300}, {DType::uint8});
  auto f = hybrid([](const Tensor& t) { return t.sum(); });
  for (const Tensor& total : {x.sum(), sum(x), f(x), f(x)}) {
    EXPECT_EQ(total.dtype(), DType::int64);
    EXPECT_EQ(total.item<int64_t>(), 300);
  }
  EXPECT_EQ(prod(full({9}, 2, {DType::int8})).item<int64_t>(), 512);
  EXPECT_EQ(cumsum(x).to_vector<int64_t>().back(), 300);
  EXPECT_EQ(sum(ones({3}, {DType::float16})).dtype(), DType::float16);
  EXPECT_EQ(call("sum", {x}).dtype(), DType::uint8);
}

// The same error, which names the index, in both modes.
void expect_out_of_range(const std::function<Tensor(const Tensor&, const Tensor&)>& f, const Tensor& x, double index) {
  const Tensor good = tensor({1.0, 0.0}), bad = tensor({0.0, index});
  auto compiled = hybrid([&](const Tensor& a, const Tensor& i) { return f(a, i); });
  EXPECT_TRUE(same_bits(compiled(x, good), f(x, good)));
  const std::string text = "index " + std::to_string(static_cast<int>(index)) + " is out of range";
  GLUINO_EXPECT_ERROR(IndexError, text, f(x, bad));
  for (int call = 0; call < 2; ++call) GLUINO_EXPECT_ERROR(IndexError, text, compiled(x, bad));
}

TEST(NumpyRules, IndicesOutOfRangeAreErrors) {
  const Tensor x = arange(6).reshape({2, 3});
  for (double index : {2.0, -3.0, 100.0}) expect_out_of_range([](const Tensor& a, const Tensor& i) { return take(a, i); }, x, index);
  for (double index : {3.0, -4.0}) expect_out_of_range([](const Tensor& a, const Tensor& i) { return pick(a, i); }, x, index);
  for (double index : {2.0, -3.0})
    expect_out_of_range([](const Tensor& a, const Tensor& i) { return embedding(i, a, {.input_dim = 2, .output_dim = 3}); }, x, index);
  for (double index : {2.0, -3.0})
    expect_out_of_range([](const Tensor& a, const Tensor& i) -> Tensor { return a[i.astype(DType::int64)]; }, x, index);
}

TEST(NumpyRules, NegativeIndicesCountFromTheEnd) {
  const Tensor x = arange(6).reshape({2, 3}), last = tensor({-1.0}).astype(DType::int64);
  auto f = hybrid([](const Tensor& a, const Tensor& i) -> Tensor { return a[i]; });
  EXPECT_EQ(x[last].to_vector<float>(), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(f(x, last).to_vector<float>(), (std::vector<float>{3, 4, 5}));
}

TEST(NumpyRules, LabelsAndWordsOutOfRangeAreErrors) {
  loss::SoftmaxCrossEntropyLoss loss;
  nn::Embedding words(4, 2);
  words.initialize();
  for (bool is_hybrid : {false, true}) {
    if (is_hybrid) {
      loss.hybridize();
      words.hybridize();
    }
    for (int call = 0; call < 2; ++call) {
      loss(ones({2, 3}), tensor({0.0, 2.0}));
      GLUINO_EXPECT_ERROR(IndexError, "index 3 is out of range", loss(ones({2, 3}), tensor({0.0, 3.0})));
      GLUINO_EXPECT_ERROR(IndexError, "index -1 is out of range", loss(ones({2, 3}), tensor({0.0, -1.0})));
      GLUINO_EXPECT_ERROR(IndexError, "index 4 is out of range", words(tensor({1.0, 4.0})));
    }
  }
}

TEST(NumpyRules, FilesKeepTheRuleForWords) {
  const Symbol data = sym::var("data"), weight = sym::var("weight");
  const Symbol words =
      sym::apply("Embedding", {data, weight}, {{"input_dim", "2"}, {"output_dim", "3"}, {"__out_of_range__", "raise"}}, "words");
  const Symbol loaded = Symbol::from_json(words.to_json());
  const TensorMap inputs{{"data", tensor({5.0})}, {"weight", arange(6).reshape({2, 3})}};
  GLUINO_EXPECT_ERROR(IndexError, "index 5 is out of range", loaded.eval(inputs));
  const Symbol clips = sym::apply("Embedding", {data, weight}, {{"input_dim", "2"}, {"output_dim", "3"}}, "words");
  EXPECT_EQ(Symbol::from_json(clips.to_json()).eval(inputs)[0].to_vector<float>(), (std::vector<float>{3, 4, 5}));
}

}  // namespace
}  // namespace gluino::test
