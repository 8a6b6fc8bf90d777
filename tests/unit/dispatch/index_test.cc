// NumPy's indexing: random indices against a reference that computes each element's position by NumPy's rules.
#include <numeric>
#include <random>

#include "support/support.h"

namespace gluino::test {
namespace {

using Positions = std::vector<int64_t>;

// One part of an index as the reference sees it, after ellipses and masks were spelt out.
struct Part {
  enum Kind { integer, slice, new_axis, array } kind;
  int64_t value = 0;       // integer
  Positions along;         // slice: the source positions in order; array: the elements
  Shape shape;             // array
  bool after_gap = false;  // an ellipsis stood just before it, though it may stand for no axes
};

struct Reference {
  Shape shape;
  Positions positions;  // row-major numbers in the source
};

Positions slice_positions(const Slice& s, int64_t n) {
  Positions out;
  auto bound = [&](std::optional<int64_t> v, int64_t otherwise) {
    if (!v) return otherwise;
    const int64_t low = s.step > 0 ? 0 : -1, high = s.step > 0 ? n : n - 1;
    return std::min(std::max(*v < 0 ? *v + n : *v, low), high);
  };
  const int64_t begin = bound(s.begin, s.step > 0 ? 0 : n - 1), end = bound(s.end, s.step > 0 ? n : -1);
  for (int64_t i = begin; s.step > 0 ? i < end : i > end; i += s.step) out.push_back(i);
  return out;
}

std::vector<Part> spell_out(const Shape& source, const std::vector<Index>& index) {
  int taken = 0;
  for (const Index& i : index) {
    const auto* t = std::get_if<Tensor>(&i.value());
    if (t)
      taken += t->dtype() == DType::boolean ? t->ndim() : 1;
    else
      taken += i.value().index() <= 1;
  }
  std::vector<Part> parts;
  int axis = 0;
  bool gap = false;
  auto whole = [&] { parts.push_back({Part::slice, 0, slice_positions({}, source[axis++]), {}}); };
  for (const Index& i : index) {
    const size_t first = parts.size();
    if (const auto* n = std::get_if<int64_t>(&i.value())) {
      parts.push_back({Part::integer, *n < 0 ? *n + source[axis] : *n, {}, {}});
      ++axis;
    } else if (const auto* s = std::get_if<Slice>(&i.value())) {
      parts.push_back({Part::slice, 0, slice_positions(*s, source[axis++]), {}});
    } else if (std::holds_alternative<Ellipsis>(i.value())) {
      for (int k = source.ndim() - taken; k > 0; --k) whole();
    } else if (std::holds_alternative<NewAxis>(i.value())) {
      parts.push_back({Part::new_axis, 0, {}, {}});
    } else {
      const Tensor& t = std::get<Tensor>(i.value());
      Positions v = t.to_vector<int64_t>();
      if (t.dtype() == DType::boolean) {
        for (int a = 0; a < t.ndim(); ++a) {
          Part p{Part::array, 0, {}, {}};
          for (int64_t flat = 0; flat < t.size(); ++flat)
            if (v[flat]) p.along.push_back(flat / t.shape().elements(a + 1, t.ndim()) % t.shape()[a]);
          p.shape = {static_cast<int64_t>(p.along.size())};
          parts.push_back(p);
          ++axis;
        }
      } else {
        for (int64_t& e : v) e += e < 0 ? source[axis] : 0;
        parts.push_back({Part::array, 0, v, t.shape()});
        ++axis;
      }
    }
    if (parts.size() > first) parts[first].after_gap = gap;
    gap = std::holds_alternative<Ellipsis>(i.value());
  }
  while (axis < source.ndim()) whole();
  return parts;
}

int64_t broadcast_element(const Part& p, const Shape& common, const Positions& at) {
  int64_t flat = 0;
  for (int i = 0; i < p.shape.ndim(); ++i) {
    const int64_t where = at[common.ndim() - p.shape.ndim() + i];
    flat = flat * p.shape[i] + (p.shape[i] == 1 ? 0 : where);
  }
  return p.along[flat];
}

Reference reference(const Shape& source, const std::vector<Index>& index) {
  const std::vector<Part> parts = spell_out(source, index);
  bool any_array = false;
  for (const Part& p : parts) any_array |= p.kind == Part::array;
  auto is_array = [&](const Part& p) { return p.kind == Part::array || (any_array && p.kind == Part::integer); };
  std::vector<Shape> shapes;
  int runs = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!is_array(parts[i])) continue;
    shapes.push_back(parts[i].shape);
    runs += i == 0 || !is_array(parts[i - 1]) || parts[i].after_gap;
  }
  const Shape common = broadcast_shapes(shapes);
  // Axes of the result in order: -1 for the common axes of the arrays, else the number of a part.
  std::vector<int> layout;
  if (any_array && runs > 1) layout.push_back(-1);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (is_array(parts[i])) {
      if (runs == 1 && (i == 0 || !is_array(parts[i - 1]))) layout.push_back(-1);
    } else if (parts[i].kind != Part::integer) {
      layout.push_back(static_cast<int>(i));
    }
  }
  Reference r;
  for (int item : layout) {
    if (item >= 0)
      r.shape.push_back(parts[item].kind == Part::new_axis ? 1 : static_cast<int64_t>(parts[item].along.size()));
    else
      for (int64_t e : common) r.shape.push_back(e);
  }
  for (int64_t flat = 0; flat < r.shape.elements(); ++flat) {
    Positions at(static_cast<size_t>(r.shape.ndim()));
    int64_t rest = flat;
    for (int i = r.shape.ndim() - 1; i >= 0; --i) at[i] = rest % r.shape[i], rest /= r.shape[i];
    std::vector<int64_t> where(parts.size());  // position along each slice
    Positions in_common;
    size_t k = 0;
    for (int item : layout) {
      if (item >= 0)
        where[item] = at[k++];
      else
        for (int i = 0; i < common.ndim(); ++i) in_common.push_back(at[k++]);
    }
    int64_t position = 0;
    int axis = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].kind == Part::new_axis) continue;
      const int64_t p = parts[i].kind == Part::integer ? parts[i].value
                        : parts[i].kind == Part::slice ? parts[i].along[where[i]]
                                                       : broadcast_element(parts[i], common, in_common);
      position = position * source[axis++] + p;
    }
    r.positions.push_back(position);
  }
  return r;
}

// Makes random indices for a shape.
class Maker {
 public:
  explicit Maker(uint64_t seed) : engine_(seed) {}
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }

  Shape shape() {
    Shape s;
    for (int64_t n = pick(1, 4); n > 0; --n) s.push_back(pick(0, 20) == 0 ? 0 : pick(1, 5));
    return s;
  }
  std::vector<Index> index(const Shape& s, bool arrays) {
    std::vector<Index> parts;
    array_length_ = pick(1, 4);
    bool ellipsis = false;
    for (int axis = 0; axis < s.ndim();) {
      if (pick(0, 6) == 0) parts.push_back(kNewAxis);
      const int64_t kind = pick(0, arrays ? 5 : 3);
      if (kind == 0 && s[axis] > 0) {
        parts.push_back(pick(-s[axis], s[axis] - 1));
        ++axis;
      } else if (kind == 3 && !ellipsis) {
        ellipsis = true;
        parts.push_back(kEllipsis);
        axis += static_cast<int>(pick(0, s.ndim() - axis));
      } else if (kind == 4 && s[axis] > 0) {
        parts.push_back(array(s[axis]));
        ++axis;
      } else if (kind == 5 && pick(0, 1) == 0 && !has_mask_) {
        const int n = axis + 1 < s.ndim() ? static_cast<int>(pick(1, 2)) : 1;
        parts.push_back(mask(n == 1 ? Shape{s[axis]} : Shape{s[axis], s[axis + 1]}));
        axis += n;
      } else {
        parts.push_back(slice(s[axis]));
        ++axis;
      }
      if (!ellipsis && pick(0, 9) == 0) break;  // parts after an ellipsis count from the end
    }
    has_mask_ = false;
    return parts;
  }

 private:
  Slice slice(int64_t n) {
    std::optional<int64_t> begin, end;
    if (pick(0, 2)) begin = pick(-n - 2, n + 2);
    if (pick(0, 2)) end = pick(-n - 2, n + 2);
    int64_t step = pick(-3, 3);
    return Slice(begin, end, step == 0 ? 1 : step);
  }
  // Shapes that broadcast against each other; a mask has a length of its own, so only one axis long arrays of 1 join it.
  Tensor array(int64_t n) {
    static const std::vector<std::vector<int64_t>> shapes = {{}, {1}, {0}, {2, 1}, {1, 0}};
    Shape s;
    for (int64_t e : shapes[pick(0, 4)]) s.push_back(e == 0 ? (mask_count_ >= 0 && has_mask_ ? mask_count_ : array_length_) : e);
    std::vector<int64_t> v(s.elements());
    for (int64_t& e : v) e = pick(-n, n - 1);
    return from_vector(v, s, {pick(0, 1) ? DType::int64 : DType::int32});
  }
  Tensor mask(const Shape& s) {
    has_mask_ = true;
    std::vector<uint8_t> v(s.elements());
    // Trues are counted out so that the mask's length is that of the arrays.
    mask_count_ = std::min<int64_t>(array_length_, static_cast<int64_t>(v.size()));
    std::fill(v.begin(), v.begin() + mask_count_, uint8_t{1});
    std::shuffle(v.begin(), v.end(), engine_);
    if (mask_count_ != array_length_) {
      // Too few positions: an empty mask would not broadcast, one true always does.
      std::fill(v.begin(), v.end(), uint8_t{0});
      if (!v.empty()) v[0] = 1;
    }
    return from_vector(v, s, {DType::boolean});
  }
  std::mt19937_64 engine_;
  int64_t array_length_ = 1, mask_count_ = -1;
  bool has_mask_ = false;
};

std::string text_of(const std::vector<Index>& index) {
  std::string out;
  auto number = [](std::optional<int64_t> v) { return v ? std::to_string(*v) : std::string(); };
  for (const Index& i : index) {
    if (!out.empty()) out += ", ";
    if (const auto* n = std::get_if<int64_t>(&i.value()))
      out += std::to_string(*n);
    else if (const auto* s = std::get_if<Slice>(&i.value()))
      out += number(s->begin) + ":" + number(s->end) + ":" + std::to_string(s->step);
    else if (std::holds_alternative<Ellipsis>(i.value()))
      out += "...";
    else if (std::holds_alternative<NewAxis>(i.value()))
      out += "None";
    else
      out += std::get<Tensor>(i.value()).str();
  }
  return out;
}

// Whether NumPy takes it: arrays of the index broadcast.
bool broadcasts(const Shape& s, const std::vector<Index>& index) {
  try {
    reference(s, index);
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

// 0, 1, 2, ... in row-major order.
Tensor numbered(const Shape& s, DType dtype) {
  std::vector<int64_t> v(s.elements());
  std::iota(v.begin(), v.end(), int64_t{0});
  return from_vector(v, s, {dtype});
}

class RandomIndex : public ::testing::TestWithParam<bool> {};

TEST_P(RandomIndex, ReadsWhatNumPyReads) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Maker make(seed);
    const Shape s = make.shape();
    const std::vector<Index> index = make.index(s, GetParam());
    if (!broadcasts(s, index)) continue;
    ++checked;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", shape " + s.str() + ", index " + text_of(index));
    const Tensor x = numbered(s, DType::int64);
    const Reference want = reference(s, index);
    const Tensor got = x.index(index);
    ASSERT_EQ(got.shape(), want.shape);
    ASSERT_EQ(got.to_vector<int64_t>(), want.positions);
  }
  EXPECT_GT(checked, 2000);
}

TEST_P(RandomIndex, WritesWhereNumPyWrites) {
  for (uint64_t seed = 10000; seed < 13000; ++seed) {
    Maker make(seed);
    const Shape s = make.shape();
    const std::vector<Index> index = make.index(s, GetParam());
    if (!broadcasts(s, index)) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", shape " + s.str() + ", index " + text_of(index));
    const Reference where = reference(s, index);
    Shape given = where.shape;  // a value that broadcasts to it
    for (int64_t& e : given)
      if (make.pick(0, 3) == 0) e = 1;
    const Tensor value = numbered(given, DType::float32) + 1000.0;
    Tensor x = numbered(s, DType::int32);
    const int32_t* memory = x.data<int32_t>();
    std::vector<int64_t> want = x.to_vector<int64_t>();
    for (size_t i = 0; i < where.positions.size(); ++i) {
      int64_t from = 0, rest = static_cast<int64_t>(i), scale = 1;
      for (int a = given.ndim() - 1; a >= 0; --a) {
        from += (given[a] == 1 ? 0 : rest % where.shape[a]) * scale;
        rest /= where.shape[a];
        scale *= given[a];
      }
      want[where.positions[i]] = 1000 + from;
    }
    x.assign(index, value);
    ASSERT_EQ(x.to_vector<int64_t>(), want);
    ASSERT_EQ(x.data<int32_t>(), memory);
    ASSERT_EQ(x.dtype(), DType::int32);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RandomIndex, ::testing::Bool(), [](const auto& info) { return info.param ? "WithArrays" : "Basic"; });

TEST(Index, KnownAnswers) {
  const Tensor x = arange(24).reshape({2, 3, 4});
  const Tensor a = from_vector<int32_t>({0, 1, 0});
  EXPECT_EQ(x[-1].shape(), (Shape{3, 4}));
  EXPECT_EQ((x[{kEllipsis, -1}].to_vector<float>()), (std::vector<float>{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ((x[{0, Slice({}, {}, -1), 1}].to_vector<float>()), (std::vector<float>{9, 5, 1}));
  EXPECT_EQ((x[{kNewAxis, 1, kEllipsis, kNewAxis}].shape()), (Shape{1, 3, 4, 1}));
  EXPECT_EQ((x[{0, Slice(), a}].shape()), (Shape{3, 3}));  // NumPy: (3, 3), the array's axis first
  EXPECT_EQ((x[{0, Slice(), a}].to_vector<float>()), (std::vector<float>{0, 4, 8, 1, 5, 9, 0, 4, 8}));
  EXPECT_EQ((x[{Slice(), a, a}].shape()), (Shape{2, 3}));
  EXPECT_EQ((x[{a, Slice(0, 2), a}].shape()), (Shape{3, 2}));
  EXPECT_EQ((x[(x > 20).astype(DType::boolean)].to_vector<float>()), (std::vector<float>{21, 22, 23}));
}

TEST(Index, UpdatesThroughAnIndex) {
  Tensor x = zeros({3, 3});
  x[1] = tensor({1, 2, 3});
  x[{Slice(), 0}] += 10.0;
  x[{Slice({}, {}, 2), Slice({}, {}, 2)}] -= 1.0;
  x[1] *= 2.0;
  x[{1, 2}] /= 3.0;
  x[(x < 0).astype(DType::boolean)] = 0.5;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{9, 0, 0.5, 22, 4, 2, 9, 0, 0.5}));
  x[0] = x[1];
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{22, 4, 2, 22, 4, 2, 9, 0, 0.5}));
}

TEST(Index, OverlappingSourceAndTarget) {
  Tensor x = arange(6);
  x[Slice(1, 6)] = x[Slice(0, 5)].copy();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 0, 1, 2, 3, 4}));
  x[Slice({}, {}, -1)] = x;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4, 3, 2, 1, 0, 0}));
}

TEST(Index, MistakesAreNamed) {
  Tensor x = zeros({2, 3});
  GLUINO_EXPECT_ERROR(IndexError, "index 2 is out of range for axis 0 with extent 2", x[2]);
  GLUINO_EXPECT_ERROR(IndexError, "index -4 is out of range for axis 1 with extent 3", (x[{0, -4}]));
  GLUINO_EXPECT_ERROR(IndexError, "index 3 is out of range for axis 1", (x[{Slice(), from_vector<int32_t>({0, 3})}]));
  GLUINO_EXPECT_ERROR(IndexError, "3 indices for a tensor of shape (2, 3)", (x[{0, 0, 0}]));
  GLUINO_EXPECT_ERROR(IndexError, "only one ellipsis", (x[{kEllipsis, kEllipsis}]));
  GLUINO_EXPECT_ERROR(IndexError, "step 0", x[Slice(0, 1, 0)]);
  GLUINO_EXPECT_ERROR(IndexError, "a mask of shape (3,) does not fit axis 0", x[ones({3}, {DType::boolean})]);
  GLUINO_EXPECT_ERROR(ShapeError, "(4,)", x[0] = zeros({4}));
  GLUINO_EXPECT_ERROR(ShapeError, "broadcast", (x[{from_vector<int32_t>({0, 1}), from_vector<int32_t>({0, 1, 2})}]));
}

}  // namespace
}  // namespace gluino::test
