// The loss of unaligned sequences.
#include "kernels/recurrent/ctc.h"

#include "base/parallel.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

struct CTCLossAttrs {
  bool use_data_lengths = false, use_label_lengths = false;
  enum class Blank : uint8_t { first, last } blank_label = Blank::first;
  static void fields(AttrFields<CTCLossAttrs>& f) {
    f.field("use_data_lengths", &CTCLossAttrs::use_data_lengths, "whether the input data_lengths is given")
        .field("use_label_lengths", &CTCLossAttrs::use_label_lengths, "whether the input label_lengths is given")
        .choice("blank_label", &CTCLossAttrs::blank_label, {"first", "last"},
                "which class is the blank; labels are padded with 0 (first) or -1 (last)");
  }
  bool blank_first() const { return blank_label == Blank::first; }
};

// The labels of every sequence without their padding.
static std::vector<std::vector<int64_t>> label_sequences(const CTCLossAttrs& a, KernelContext& k) {
  const int64_t batch = k.in(1).extent(0), longest = k.in(1).extent(1), classes = k.in(0).extent(2), padding = a.blank_first() ? 0 : -1;
  const std::vector<int64_t> labels = k.in(1).to_vector<int64_t>();
  const std::vector<int64_t> lengths = a.use_label_lengths ? k.in(2 + a.use_data_lengths).to_vector<int64_t>() : std::vector<int64_t>();
  std::vector<std::vector<int64_t>> sequences;
  for (int64_t n = 0; n < batch; ++n) {
    const auto begin = labels.begin() + n * longest, end = begin + longest;
    const auto stop = a.use_label_lengths ? begin + std::clamp<int64_t>(lengths[n], 0, longest) : std::find(begin, end, padding);
    sequences.emplace_back(begin, stop);
    for (int64_t label : sequences.back())
      if (label < 0 || label >= classes) raise<IndexError>("label {} of sequence {} is out of range for {} classes", label, n, classes);
  }
  return sequences;
}

static void ctc_kernel(const CTCLossAttrs& a, KernelContext& k) {
  const int64_t time = k.in(0).extent(0), batch = k.in(0).extent(1), classes = k.in(0).extent(2);
  const auto sequences = label_sequences(a, k);
  const std::vector<int64_t> lengths = a.use_data_lengths ? k.in(2).to_vector<int64_t>() : std::vector<int64_t>(batch, time);
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const T* data = k.data<T>(0);
    T *loss = k.out_data<T>(), *gradient = k.out_data<T>(1);
    parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      std::vector<double> values(time * classes), slopes(values.size());
      for (int64_t n = begin; n < end; ++n) {
        const int64_t steps = std::clamp<int64_t>(lengths[n], 0, time);
        for (int64_t t = 0; t < time; ++t) std::copy_n(data + (t * batch + n) * classes, classes, values.data() + t * classes);
        std::fill(slopes.begin() + steps * classes, slopes.end(), 0.0);
        const int64_t blank = a.blank_first() ? 0 : classes - 1;
        loss[n] = static_cast<T>(kernels::ctc_loss(values.data(), steps, classes, sequences[n], blank, slopes.data()));
        for (int64_t t = 0; t < time; ++t) std::copy_n(slopes.data() + t * classes, classes, gradient + (t * batch + n) * classes);
      }
    });
  });
}

GLUINO_OP(CTCLoss, CTCLossAttrs) {
  op.doc("Connectionist temporal classification loss of activations of shape (time, batch, classes).")
      .alias("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss")
      .input("data")
      .input("label")
      .own_dtype()
      .input("data_lengths")
      .own_dtype()
      .present_if([](const CTCLossAttrs& a) { return a.use_data_lengths; })
      .input("label_lengths")
      .own_dtype()
      .present_if([](const CTCLossAttrs& a) { return a.use_label_lengths; })
      .outputs({"output", "gradient"})
      .hidden_outputs(1)
      .shape([](const CTCLossAttrs&, std::span<const Shape> in) {
        if (in[0].ndim() != 3 || in[1].ndim() != 2 || in[0][1] != in[1][0])
          raise<ShapeError>("data of shape (time, batch, classes) and labels of shape (batch, length) are needed, but they are {} and {}",
                            in[0], in[1]);
        if (in[0][2] < 1) raise<ShapeError>("data of shape {} has no classes", in[0]);
        for (size_t i = 2; i < in.size(); ++i)
          if (!(in[i] == Shape{in[0][1]})) raise<ShapeError>("lengths have shape {}, but {} is needed", in[i], Shape{in[0][1]});
        return std::vector<Shape>{{in[0][1]}, in[0]};
      })
      .complete([](const CTCLossAttrs&, OptionalShapes& in, const OptionalShapes&) {
        for (size_t i = 2; i < in.size(); ++i)
          if (in[0] && in[0]->ndim() == 3 && is_open(in[i])) in[i] = Shape{(*in[0])[1]};
      })
      .refuses_values()
      .kernel(ctc_kernel)
      .kernel_dtypes(real_dtypes())
      .gradient({{}, {1}},
                [](const Gradient& g) -> Tensors {
                  Tensors out(g.num_inputs());
                  out[0] = g.out(1) * g.head().reshape({1, -1, 1});
                  return out;
                })
      .sample({{5, 2, 4}, SampleInput({2, 2}, 1, 4, true)})
      .sample({{5, 2, 4}, index_sample({2, 2}, 3)}, {.blank_label = CTCLossAttrs::Blank::last});
}

}  // namespace
}  // namespace gluino::ops
