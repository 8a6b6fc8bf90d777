#include "fuzz/random_calls.h"

#include <cmath>
#include <limits>

#include "base/format.h"

namespace gluino::fuzz {
namespace {

constexpr int64_t kMostElements = 16384;

size_t pick(Random& random, size_t n) { return n ? random() % n : 0; }
bool chance(Random& random, unsigned one_in) { return random() % one_in == 0; }
template <class T, size_t N>
T one_of(Random& random, const T (&values)[N]) {
  return values[pick(random, N)];
}

int64_t random_int(Random& random) {
  static const int64_t small[] = {0, -1, 1, 2, 3, 4, -2, -3, 5, 7, 8, 16};
  static const int64_t large[] = {33,
                                  100,
                                  1000,
                                  65536,
                                  -65536,
                                  (int64_t{1} << 31) - 1,
                                  -(int64_t{1} << 31),
                                  int64_t{1} << 31,
                                  int64_t{1} << 32,
                                  int64_t{1} << 40,
                                  int64_t{1} << 62,
                                  -(int64_t{1} << 62),
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
  return chance(random, 4) ? one_of(random, large) : one_of(random, small);
}

double random_double(Random& random) {
  static const double edges[] = {0.0,  -0.0,  1,     -1,     0.5,    2,    -0.25, 3.7,   1e-8,     0.1,       0.9, 16,    -3,
                                 1e30, -1e30, 1e308, -1e308, 1e-308, 1e10, -1e10, 65504, INFINITY, -INFINITY, NAN, 0.999, 1.5};
  return one_of(random, edges);
}

int64_t random_extent(Random& random) {
  static const int64_t extents[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17}, large[] = {31, 32, 33, 64, 65, 100, 128, 255};
  return chance(random, 20) ? one_of(random, large) : one_of(random, extents);
}

template <class F>
std::string random_tuple(Random& random, F&& element) {
  const size_t n = chance(random, 20) ? 33 : pick(random, 8);
  std::string text = "(";
  std::string last;
  for (size_t i = 0; i < n; ++i) {
    if (last.empty() || !chance(random, 4)) last = element();  // else one more of the same
    text += last + ", ";
  }
  return text + ")";
}

// One damage to a text.
std::string damaged_text(std::string text, Random& random) {
  static const char* words[] = {"", "NCHW", "NHWC", "ij,jk->ik", "max", "0", "-1", "?", "add", "->", ",", "x0", "(", "r0"};
  if (text.empty() || chance(random, 3)) return one_of(random, words);
  const size_t at = pick(random, text.size());
  switch (pick(random, 5)) {
    case 0: text.erase(at, 1 + pick(random, 4)); break;
    case 1: text.insert(at, one_of(random, words)); break;
    case 2: text[at] = static_cast<char>(32 + pick(random, 95)); break;
    case 3: text.insert(at, text.substr(at, pick(random, 12))); break;
    default: text[at] = static_cast<char>('0' + pick(random, 10));
  }
  return text;
}

// Keeps the number of elements small: extents go to 1 from the front.
void limit_elements(Shape& shape) {
  double elements = 1;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    if (shape[i] > 0 && elements * static_cast<double>(shape[i]) > kMostElements) shape[i] = 1;
    if (shape[i] > 0) elements *= static_cast<double>(shape[i]);
  }
}

Shape random_shape(Random& random) {
  Shape shape;
  for (size_t n = pick(random, 7); n > 0; --n) shape.push_back(random_extent(random));
  limit_elements(shape);
  if (shape.ndim() > 1 && chance(random, 30)) {  // many rows of nothing
    shape[static_cast<int>(pick(random, static_cast<size_t>(shape.ndim())))] = int64_t{1} << 40;
    shape[static_cast<int>(pick(random, static_cast<size_t>(shape.ndim())))] = 0;
  }
  return shape;
}

DType random_dtype(Random& random) { return one_of(random, kAllDTypes); }

void fill(RandomInput& input, double low, double high, bool whole, Random& random) {
  const int64_t n = std::find(input.shape.begin(), input.shape.end(), 0) != input.shape.end() ? 0 : input.shape.elements();
  std::uniform_real_distribution<double> uniform(low, high);
  input.values.resize(static_cast<size_t>(n));
  const bool has_edges = chance(random, 4), all_edges = has_edges && chance(random, 4);
  for (double& v : input.values) {
    v = uniform(random);
    if (whole) v = std::floor(v);
    if (all_edges || (has_edges && chance(random, 8)))
      v = chance(random, 2) ? random_double(random) : static_cast<double>(random_int(random));
  }
}

template <class T>
T saturated(double v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (std::isnan(v)) return 0;
    if (v >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    if (v <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    return static_cast<T>(v);
  } else {
    return T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(v));
  }
}

class CallMaker {
 public:
  CallMaker(const OpDef& op, Random& random) : op_(op), random_(random), call_{&op, {}, {}, chance(random, 2)} {}

  RandomCall make() {
    const bool from_sample = !op_.samples.empty() && !chance(random_, 6);
    if (from_sample)
      start_from_sample();
    else
      start_from_nothing();
    static const size_t damages[] = {0, 1, 1, 1, 2, 2, 3, 4};
    if (from_sample)
      for (size_t n = one_of(random_, damages); n > 0; --n) damage();
    return std::move(call_);
  }

 private:
  void start_from_sample() {
    const Sample& sample = op_.samples[pick(random_, op_.samples.size())];
    call_.attrs = op_.print_attrs(sample.attrs, true);
    usual_ = call_.attrs;
    const bool half = chance(random_, 12);
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      const SampleInput& s = sample.inputs[i];
      RandomInput input{s.shape, half && !op_.input_spec(sample.attrs, i).own_dtype ? DType::float16 : DType::float32, {}};
      fill(input, s.low, s.high, s.integer, random_);
      call_.inputs.push_back(std::move(input));
    }
  }
  void start_from_nothing() {
    if (!op_.samples.empty()) usual_ = op_.print_attrs(op_.samples[0].attrs, true);
    for (const AttrField& f : op_.fields)
      if (f.required || chance(random_, 2)) set_attr(f);
    const size_t usual = op_.inputs.size();
    const size_t count = chance(random_, 6) ? pick(random_, usual + 3) : std::max<size_t>(usual, op_.is_variadic ? pick(random_, 5) : 0);
    const DType dtype = random_dtype(random_);
    const Shape shape = random_shape(random_);
    for (size_t i = 0; i < count; ++i) {
      RandomInput input = random_input(random_);
      if (chance(random_, 2)) input.dtype = dtype;
      if (chance(random_, 2)) resize(input, shape);
      call_.inputs.push_back(std::move(input));
    }
  }
  void resize(RandomInput& input, const Shape& shape) {
    input.shape = shape;
    fill(input, -2, 4, chance(random_, 2), random_);
  }
  void set_attr(const AttrField& f) { call_.attrs[f.name] = random_attr(f, usual_[f.name], random_); }

  RandomInput* some_input() { return call_.inputs.empty() ? nullptr : &call_.inputs[pick(random_, call_.inputs.size())]; }

  void damage() {
    RandomInput* input = some_input();
    const size_t kind = pick(random_, 12);
    if (kind < 5 && !op_.fields.empty()) return set_attr(op_.fields[pick(random_, op_.fields.size())]);
    if (!input) return;
    switch (kind) {
      case 5: return change_extent_everywhere();
      case 6: return change_extent(*input);
      case 7: return change_rank(*input);
      case 8: return resize(*input, random_shape(random_));
      case 9: input->dtype = random_dtype(random_); return;
      case 10: return change_count();
      default: {
        const DType dtype = random_dtype(random_);
        for (RandomInput& i : call_.inputs) i.dtype = dtype;
      }
    }
  }
  void change_extent(RandomInput& input) {
    if (input.shape.empty()) return;
    Shape shape = input.shape;
    shape[static_cast<int>(pick(random_, static_cast<size_t>(shape.ndim())))] = random_extent(random_);
    limit_elements(shape);
    resize(input, shape);
  }
  // One extent that several inputs share, changed in all of them: what shape rules compare still fits.
  void change_extent_everywhere() {
    const RandomInput* from = some_input();
    if (from->shape.empty()) return;
    const int64_t old = from->shape[static_cast<int>(pick(random_, static_cast<size_t>(from->shape.ndim())))];
    const int64_t changed = random_extent(random_);
    for (RandomInput& input : call_.inputs) {
      Shape shape = input.shape;
      std::replace(shape.begin(), shape.end(), old, changed);
      limit_elements(shape);
      if (!(shape == input.shape)) resize(input, shape);
    }
  }
  void change_rank(RandomInput& input) {
    Shape shape = input.shape;
    if (!shape.empty() && chance(random_, 2))
      shape.erase(static_cast<int>(pick(random_, static_cast<size_t>(shape.ndim()))));
    else
      shape.insert(static_cast<int>(pick(random_, static_cast<size_t>(shape.ndim()) + 1)), random_extent(random_));
    limit_elements(shape);
    resize(input, shape);
  }
  void change_count() {
    if (chance(random_, 2))
      call_.inputs.pop_back();
    else
      call_.inputs.push_back(random_input(random_));
    if (chance(random_, 4)) call_.inputs.clear();
  }

  const OpDef& op_;
  Random& random_;
  RandomCall call_;
  StringMap usual_;
};

}  // namespace

Random random_of(std::string_view subject, int64_t number) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: the same everywhere
  for (char c : subject) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return Random(hash + static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15);
}

std::string random_attr(const AttrField& field, const std::string& usual, Random& random) {
  if (!field.choices.empty()) return chance(random, 10) ? damaged_text(usual, random) : field.choices[pick(random, field.choices.size())];
  std::string type = field.type;
  if (type.starts_with("std::optional<")) {
    if (chance(random, 4)) return "None";
    type = type.substr(14, type.size() - 15);
  }
  auto integer = [&] { return std::to_string(random_int(random)); };
  if (type == "bool") return chance(random, 2) ? "True" : "False";
  if (type == "int" || type == "int64_t") return integer();
  if (type == "double") return AttrType<double>::print(random_double(random));
  if (type == "Shape") return random_tuple(random, integer);
  if (type == "OptionalInts") return random_tuple(random, [&] { return chance(random, 4) ? "None" : integer(); });
  if (type == "Floats") return random_tuple(random, [&] { return AttrType<double>::print(random_double(random)); });
  if (type == "DType") return std::string(dtype_name(random_dtype(random)));
  return damaged_text(usual, random);
}

RandomInput random_input(Random& random) {
  RandomInput input{random_shape(random), chance(random, 2) ? DType::float32 : random_dtype(random), {}};
  fill(input, -2, 4, chance(random, 3), random);
  return input;
}

std::string RandomCall::str() const {
  std::string text = op->name + "(";
  for (const RandomInput& i : inputs) {
    text += fmt::format("{}{}", dtype_name(i.dtype), i.shape.str());
    if (i.values.size() <= 6) text += fmt::format("{{{}}}", fmt::join(i.values, " "));
    text += ", ";
  }
  for (const auto& [name, value] : attrs) text += name + "=" + value + "; ";
  return text + (training ? "training)" : ")");
}

Tensors RandomCall::make_inputs() const {
  Tensors tensors;
  for (const RandomInput& input : inputs) {
    Tensor t = empty(input.shape, {input.dtype});
    visit_dtype(input.dtype, [&]<class T>(T*) {
      T* data = t.mutable_data<T>();
      for (size_t i = 0; i < input.values.size(); ++i) data[i] = saturated<T>(input.values[i]);
    });
    tensors.push_back(std::move(t));
  }
  return tensors;
}

RandomCall random_call(const OpDef& op, int64_t number) {
  Random random = random_of(op.name, number);
  return CallMaker(op, random).make();
}

}  // namespace gluino::fuzz
