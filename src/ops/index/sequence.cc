// Operators on batches of sequences of different lengths: data is (time, batch, ...), or (batch, time, ...) with axis 1.
#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/index/indices.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

// Element (t, b) of the two leading axes is `inner` numbers at (t * time_stride + b * batch_stride) * inner.
struct Sequences {
  int64_t steps, batch, inner, time_stride, batch_stride;
  Sequences(const Shape& data, int axis) {
    steps = data[axis];
    batch = data[1 - axis];
    inner = data.elements(2, data.ndim());
    time_stride = axis == 0 ? batch : 1;
    batch_stride = axis == 0 ? 1 : steps;
  }
  int64_t at(int64_t t, int64_t b) const { return (t * time_stride + b * batch_stride) * inner; }
};
static void check_sequences(int axis, bool with_length, const Shape& data, const Shape* length) {
  if (axis != 0 && axis != 1) raise<AttrError>("attribute 'axis' is {}, but only 0 and 1 are supported", axis);
  if (data.ndim() < 2) raise<ShapeError>("data has shape {}, but at least a time and a batch axis are needed", data);
  if (with_length && !(*length == Shape{data[1 - axis]}))
    raise<ShapeError>("sequence_length has shape {}, but data of shape {} needs {}", *length, data, Shape{data[1 - axis]});
}
// Length of each sequence; without an input all are full.
static std::vector<int64_t> lengths(const Sequences& s, const Tensor* t, int64_t longest) {
  if (!t) return std::vector<int64_t>(s.batch, s.steps);
  std::vector<int64_t> n = integers(*t);
  for (int64_t v : n)
    if (v < 0 || v > longest) raise<IndexError>("a sequence length of {} is out of range: there are {} steps", v, s.steps);
  return n;
}

// Sequences that go on behind the data, which was cut off, have nothing to mask.
constexpr int64_t kAnyLength = std::numeric_limits<int64_t>::max();

struct SequenceAttrs {
  bool use_sequence_length = false;
  int axis = 0;
  static void fields(AttrFields<SequenceAttrs>& f) {
    f.field("use_sequence_length", &SequenceAttrs::use_sequence_length, "whether sequence_length is given; else all steps count")
        .field("axis", &SequenceAttrs::axis, "the axis of time: 0 or 1");
  }
};
static bool has_length(const SequenceAttrs& a) { return a.use_sequence_length; }
static const Shape* length_shape(std::span<const Shape> in, size_t i) { return in.size() > i ? &in[i] : nullptr; }
static const Tensor* length_input(KernelContext& k, int i) { return k.num_inputs() > i ? &k.in(i) : nullptr; }

struct SequenceMaskAttrs {
  bool use_sequence_length = false;
  double value = 0;
  int axis = 0;
  static void fields(AttrFields<SequenceMaskAttrs>& f) {
    f.field("use_sequence_length", &SequenceMaskAttrs::use_sequence_length, "whether sequence_length is given; else nothing is masked")
        .field("value", &SequenceMaskAttrs::value, "what to write after the end of a sequence")
        .field("axis", &SequenceMaskAttrs::axis, "the axis of time: 0 or 1");
  }
};
GLUINO_OP(SequenceMask, SequenceMaskAttrs) {
  op.doc("Replaces the steps after the end of each sequence by a value.")
      .alias("sequence_mask", "_npx_sequence_mask")
      .dtypes(DTypeSet::any)
      .inplace(0)
      .input("data")
      .input("sequence_length")
      .own_dtype()
      .present_if([](const SequenceMaskAttrs& a) { return a.use_sequence_length; })
      .shape([](const SequenceMaskAttrs& a, std::span<const Shape> in) {
        return check_sequences(a.axis, a.use_sequence_length, in[0], length_shape(in, 1)), in[0];
      })
      .refuses_values_if([](const SequenceMaskAttrs& a) { return a.use_sequence_length; })
      .kernel([](const SequenceMaskAttrs& a, KernelContext& k) {
        const Sequences s(k.out().shape(), a.axis);
        const std::vector<int64_t> n = lengths(s, length_input(k, 1), kAnyLength);
        if (bytes_of(k.in(0)) != bytes_of(k.out())) std::memcpy(bytes_of(k.out()), bytes_of(k.in(0)), k.out().nbytes());
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t b = 0; b < s.batch; ++b)
            for (int64_t t = n[b]; t < s.steps; ++t) std::fill_n(k.out_data<T>() + s.at(t, b), s.inner, element<T>(a.value));
        });
      })
      .gradient({{1}, {}},
                [](const SequenceMaskAttrs& a, const Gradient& g) -> Tensors {
                  if (!a.use_sequence_length) return {g.head()};
                  return {
                      call("SequenceMask", {g.head(), g.in(1)}, {{"use_sequence_length", true}, {"value", 0.0}, {"axis", int64_t{a.axis}}}),
                      Tensor()};
                })
      .sample({{4, 3, 2}, index_sample({3}, 5)}, {.use_sequence_length = true, .value = -1})
      .sample({{3, 4}, index_sample({3}, 5)}, {.use_sequence_length = true, .axis = 1})
      .sample({{4, 3}});
}

static Tensor last_backward(const SequenceAttrs& a, const Tensor& head, const Tensor& like, const Tensor& length) {
  Tensors in{head, like};
  if (a.use_sequence_length) in.push_back(length);
  return call("_sequence_last_backward", in, {{"use_sequence_length", a.use_sequence_length}, {"axis", int64_t{a.axis}}});
}
static Shape last_shape(const SequenceAttrs& a, const Shape& data, const Shape* length) {
  check_sequences(a.axis, a.use_sequence_length, data, length);
  if (data[a.axis] == 0) raise<ShapeError>("data of shape {} has no step, and so no last one", data);
  Shape out = data;
  out.erase(a.axis);
  return out;
}
// The step that SequenceLast takes: batches are padded with sequences of length 0, which give their first one.
static int64_t last_step(int64_t length) { return std::max<int64_t>(length - 1, 0); }
GLUINO_OP(SequenceLast, SequenceAttrs) {
  op.doc("The last step of each sequence.")
      .alias("sequence_last", "_npx_sequence_last")
      .dtypes(DTypeSet::any)
      .input("data")
      .input("sequence_length")
      .own_dtype()
      .present_if(has_length)
      .shape([](const SequenceAttrs& a, std::span<const Shape> in) { return last_shape(a, in[0], length_shape(in, 1)); })
      .refuses_values_if(has_length)
      .kernel([](const SequenceAttrs& a, KernelContext& k) {
        const Sequences s(k.in(0).shape(), a.axis);
        const std::vector<int64_t> n = lengths(s, length_input(k, 1), s.steps);
        const int64_t element = dtype_bytes(k.out().dtype()), bytes = s.inner * element;
        for (int64_t b = 0; b < s.batch; ++b)
          std::memcpy(bytes_of(k.out()) + b * bytes, bytes_of(k.in(0)) + s.at(last_step(n[b]), b) * element, bytes);
      })
      .gradient({{1}, {}},
                [](const SequenceAttrs& a, const Gradient& g) -> Tensors {
                  Tensors result(g.num_inputs());
                  result[0] = last_backward(a, g.head(), g.like(0), a.use_sequence_length ? g.in(1) : Tensor());
                  return result;
                })
      .sample({{4, 3, 2}, index_sample({3}, 5)}, {.use_sequence_length = true})
      .sample({{4, 3, 2}})
      .sample({{3, 4}}, {.axis = 1});
}
GLUINO_OP(_sequence_last_backward, SequenceAttrs) {
  op.doc("Zeros of the shape of like with data at the last step of each sequence.")
      .dtypes(DTypeSet::any)
      .input("data")
      .input("like")
      .shape_only()
      .input("sequence_length")
      .own_dtype()
      .present_if(has_length)
      .shape([](const SequenceAttrs& a, std::span<const Shape> in) {
        if (!(last_shape(a, in[1], length_shape(in, 2)) == in[0]))
          raise<ShapeError>("data of shape {} is not the last step of shape {}", in[0], in[1]);
        return in[1];
      })
      .refuses_values_if([](const SequenceAttrs& a) { return a.use_sequence_length; })
      .kernel([](const SequenceAttrs& a, KernelContext& k) {
        const Sequences s(k.out().shape(), a.axis);
        const std::vector<int64_t> n = lengths(s, length_input(k, 2), s.steps);
        const int64_t element = dtype_bytes(k.out().dtype()), bytes = s.inner * element;
        std::memset(bytes_of(k.out()), 0, k.out().nbytes());
        for (int64_t b = 0; b < s.batch; ++b)
          std::memcpy(bytes_of(k.out()) + s.at(last_step(n[b]), b) * element, bytes_of(k.in(0)) + b * bytes, bytes);
      })
      .gradient({{2}, {}},
                [](const SequenceAttrs& a, const Gradient& g) -> Tensors {
                  Tensors in{g.head()}, result(static_cast<size_t>(g.num_inputs()));
                  if (a.use_sequence_length) in.push_back(g.in(2));
                  result[0] = call("SequenceLast", in, {{"use_sequence_length", a.use_sequence_length}, {"axis", int64_t{a.axis}}});
                  return result;
                })
      .sample({{3, 2}, {4, 3, 2}, index_sample({3}, 5)}, {.use_sequence_length = true});
}

GLUINO_OP(SequenceReverse, SequenceAttrs) {
  op.doc("Reverses the steps of each sequence; what follows its end stays.")
      .alias("sequence_reverse", "_npx_sequence_reverse")
      .dtypes(DTypeSet::any)
      .input("data")
      .input("sequence_length")
      .own_dtype()
      .present_if(has_length)
      .shape([](const SequenceAttrs& a, std::span<const Shape> in) {
        return check_sequences(a.axis, a.use_sequence_length, in[0], length_shape(in, 1)), in[0];
      })
      .refuses_values_if([](const SequenceAttrs& a) { return a.use_sequence_length; })
      .kernel([](const SequenceAttrs& a, KernelContext& k) {
        const Sequences s(k.out().shape(), a.axis);
        const std::vector<int64_t> n = lengths(s, length_input(k, 1), s.steps);
        const int64_t element = dtype_bytes(k.out().dtype());
        for (int64_t b = 0; b < s.batch; ++b)
          for (int64_t t = 0; t < s.steps; ++t) {
            const int64_t length = n[b], from = t < length ? length - 1 - t : t;
            std::memcpy(bytes_of(k.out()) + s.at(t, b) * element, bytes_of(k.in(0)) + s.at(from, b) * element, s.inner * element);
          }
      })
      .gradient({{1}, {}},
                [](const SequenceAttrs& a, const Gradient& g) -> Tensors {
                  Tensors in{g.head()}, result(static_cast<size_t>(g.num_inputs()));
                  if (a.use_sequence_length) in.push_back(g.in(1));
                  result[0] = call("SequenceReverse", in, {{"use_sequence_length", a.use_sequence_length}, {"axis", int64_t{a.axis}}});
                  return result;
                })
      .sample({{4, 3, 2}, index_sample({3}, 5)}, {.use_sequence_length = true})
      .sample({{4, 3}});
}

}  // namespace
}  // namespace gluino::ops
