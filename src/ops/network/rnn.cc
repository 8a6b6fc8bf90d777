// Recurrent networks of several layers and directions in one operator.
#include "kernels/recurrent/rnn.h"

#include "base/extents.h"
#include "dispatch/random.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

using kernels::RnnGeometry;
using kernels::RnnMode;
using kernels::RnnStates;

struct RNNAttrs {
  RnnMode mode = RnnMode::lstm;
  int64_t state_size = 0, num_layers = 1;
  bool bidirectional = false, state_outputs = false, use_sequence_length = false;
  double p = 0;
  std::optional<int64_t> projection_size;
  std::optional<double> lstm_state_clip_min, lstm_state_clip_max;
  static void fields(AttrFields<RNNAttrs>& f) {
    f.choice("mode", &RNNAttrs::mode, {"rnn_relu", "rnn_tanh", "lstm", "gru"}, "the kind of cell")
        .required("state_size", &RNNAttrs::state_size, "extent of the hidden state")
        .required("num_layers", &RNNAttrs::num_layers, "number of layers")
        .field("bidirectional", &RNNAttrs::bidirectional, "also run backwards in time")
        .field("state_outputs", &RNNAttrs::state_outputs, "also give the final states")
        .field("use_sequence_length", &RNNAttrs::use_sequence_length, "whether the input sequence_length is given")
        .field("p", &RNNAttrs::p, "dropout between layers in training")
        .field("projection_size", &RNNAttrs::projection_size, "extent the hidden state is projected to; only None is supported")
        .field("lstm_state_clip_min", &RNNAttrs::lstm_state_clip_min, "smallest cell state; only None is supported")
        .field("lstm_state_clip_max", &RNNAttrs::lstm_state_clip_max, "largest cell state; only None is supported");
  }
  bool is_lstm() const { return mode == RnnMode::lstm; }
  int64_t directions() const { return bidirectional ? 2 : 1; }
};

// Sizes whose products, with extents of tensors that exist, do not overflow.
static void check_sizes(int64_t state_size, int64_t num_layers) {
  constexpr int64_t kMostState = 1 << 20, kMostLayers = 1 << 10;
  if (state_size < 1 || num_layers < 1 || state_size > kMostState || num_layers > kMostLayers)
    raise<AttrError>("state_size = {} and num_layers = {}, but 1 to {} and 1 to {} are possible", state_size, num_layers, kMostState,
                     kMostLayers);
}
static void check_data(int64_t time, int64_t batch, int64_t features, int64_t state_size) {
  constexpr int64_t kMostFeatures = 1 << 20, kMostResults = int64_t{1} << 44;
  if (features > kMostFeatures || saturated_product(saturated_product(time, batch), state_size) > kMostResults)
    raise<ShapeError>("data of {} steps, {} sequences and {} channels is too large", time, batch, features);
}
static RnnGeometry geometry_of(const RNNAttrs& a, const Shape& data) {
  if (data.ndim() != 3) raise<ShapeError>("data has shape {}, but (time, batch, channels) is needed", data);
  check_sizes(a.state_size, a.num_layers);
  check_data(data[0], data[1], data[2], a.state_size);
  if (a.projection_size) raise<AttrError>("projection_size = {} is not supported", *a.projection_size);
  if (a.lstm_state_clip_min || a.lstm_state_clip_max) raise<AttrError>("clipping of the cell state is not supported");
  if (!(a.p >= 0 && a.p < 1)) raise<AttrError>("p = {}, but a share of at least 0 and less than 1 is needed", a.p);
  return {.mode = a.mode,
          .time = data[0],
          .batch = data[1],
          .input = data[2],
          .state = a.state_size,
          .layers = a.num_layers,
          .directions = a.directions(),
          .has_masks = a.p > 0};
}
static Shape state_shape(const RnnGeometry& g) { return {g.layers * g.directions, g.batch, g.state}; }

static std::vector<Shape> rnn_shape(const RNNAttrs& a, std::span<const Shape> in) {
  const RnnGeometry g = geometry_of(a, in[0]);
  if (!(in[1] == Shape{g.parameter_size()}))
    raise<ShapeError>("parameters have shape {}, but ({},) is needed for data of shape {}", in[1], g.parameter_size(), in[0]);
  const Shape state = state_shape(g);
  for (size_t i = 2; i < (a.is_lstm() ? 4u : 3u); ++i)
    if (!(in[i] == state)) raise<ShapeError>("a state has shape {}, but {} is needed", in[i], state);
  if (a.use_sequence_length && in.back().elements() != g.batch)
    raise<ShapeError>("sequence_length has shape {}, but ({},) is needed", in.back(), g.batch);
  std::vector<Shape> out{{g.time, g.batch, g.directions * g.state}, state};
  if (a.is_lstm()) out.push_back(state);
  out.push_back({g.reserve_size()});
  return out;
}

static void complete_rnn(const RNNAttrs& a, OptionalShapes& in, const OptionalShapes&) {
  if (!in[0] || in[0]->ndim() != 3) return;
  const RnnGeometry g = geometry_of(a, *in[0]);
  if (is_open(in[1]) && g.input >= 0) in[1] = Shape{g.parameter_size()};
  const auto needs = [](const std::optional<Shape>& s) { return is_open(s) || std::find(s->begin(), s->end(), 0) != s->end(); };
  for (size_t i = 2; i < (a.is_lstm() ? 4u : 3u); ++i)
    if (needs(in[i])) in[i] = state_shape(g);
  if (a.use_sequence_length && is_open(in.back())) in.back() = Shape{g.batch};
}

// Masks of dropout between layers: 0 with probability p, else 1 / (1 - p); ones when predicting.
template <class T>
static void fill_masks(const RNNAttrs& a, const RnnGeometry& g, bool training, Device device, T* reserve) {
  T *begin = reserve + g.mask_offset(0), *end = reserve + g.reserve_size();
  if (!training || begin == end) return std::fill(begin, end, T(1));
  const RandomStream stream = of_this_rank(next_random_stream(device));
  const auto keep = static_cast<float>(1 - a.p);
  for (T* m = begin; m != end; ++m)
    *m = unit_float(stream.words(static_cast<uint64_t>(m - begin))[0]) < keep ? static_cast<T>(1 / (1 - a.p)) : T(0);
}

static void rnn_kernel(const RNNAttrs& a, KernelContext& k) {
  RnnGeometry g = geometry_of(a, k.in(0).shape());
  const std::vector<int64_t> lengths = a.use_sequence_length ? k.in(k.num_inputs() - 1).to_vector<int64_t>() : std::vector<int64_t>();
  if (a.use_sequence_length) g.lengths = lengths.data();
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    RnnStates<const T> initial{k.data<T>(2), a.is_lstm() ? k.data<T>(3) : nullptr};
    RnnStates<T> final{k.out_data<T>(1), a.is_lstm() ? k.out_data<T>(2) : nullptr};
    if (g.has_masks) fill_masks(a, g, k.training(), k.out().device(), k.out_data<T>(k.num_outputs() - 1));
    kernels::rnn_forward<T>(g, k.data<T>(0), k.data<T>(1), initial, k.out_data<T>(), final, k.out_data<T>(k.num_outputs() - 1));
  });
}

static Tensors rnn_gradient(const RNNAttrs& a, const Gradient& g) {
  const int cell = a.is_lstm() ? 1 : 0;
  Tensors in{g.head(0), g.head(1), g.in(0), g.in(1), g.in(2), g.out(2 + cell)};
  if (a.is_lstm()) in.insert(in.end(), {g.head(2), g.in(3)});
  if (a.use_sequence_length) in.push_back(g.in(g.num_inputs() - 1));
  Tensors out = apply(OpRegistry::global().get("_rnn_grad"), in, std::make_shared<const RNNAttrs>(a));
  if (a.use_sequence_length) out.emplace_back();
  return out;
}

static auto has_cell = [](const RNNAttrs& a) { return a.is_lstm(); };
static auto has_lengths = [](const RNNAttrs& a) { return a.use_sequence_length; };

// ---- The compiled form, for prediction: the parameters rearranged once, and no reserve.
struct CompiledRNNAttrs {
  RnnMode mode = RnnMode::lstm;
  int64_t state_size = 0, num_layers = 1, features = 0;
  bool bidirectional = false;
  static void fields(AttrFields<CompiledRNNAttrs>& f) {
    using A = CompiledRNNAttrs;
    f.choice("mode", &A::mode, {"rnn_relu", "rnn_tanh", "lstm", "gru"}, "the kind of cell")
        .required("state_size", &A::state_size, "extent of the hidden state")
        .required("num_layers", &A::num_layers, "number of layers")
        .required("features", &A::features, "number of channels of the data")
        .field("bidirectional", &A::bidirectional, "also run backwards in time");
  }
  bool is_lstm() const { return mode == RnnMode::lstm; }
};
static RnnGeometry geometry_of(const CompiledRNNAttrs& a, int64_t time, int64_t batch) {
  check_sizes(a.state_size, a.num_layers);
  if (a.features < 0) raise<AttrError>("features = {} is negative", a.features);
  check_data(time, batch, a.features, a.state_size);
  return {.mode = a.mode,
          .time = time,
          .batch = batch,
          .input = a.features,
          .state = a.state_size,
          .layers = a.num_layers,
          .directions = a.bidirectional ? 2 : 1};
}
static int64_t packed_size(const CompiledRNNAttrs& a) { return kernels::packed_rnn_elements(geometry_of(a, 0, 0)); }
static std::optional<CompiledLayer> compiled_rnn(const RNNAttrs& a, std::span<const Shape> in, LayerEpilogue e, bool) {
  if (e.add || e.relu || a.use_sequence_length) return {};
  const auto attrs =
      std::make_shared<const CompiledRNNAttrs>(CompiledRNNAttrs{a.mode, a.state_size, a.num_layers, in[0][2], a.bidirectional});
  return CompiledLayer{.op = "_compiled_rnn", .attrs = attrs, .pack = "_pack_rnn_parameters", .pack_attrs = attrs};
}
GLUINO_OP(_pack_rnn_parameters, CompiledRNNAttrs) {
  op.doc("Rearranges the parameters of RNN for _compiled_rnn.")
      .input("parameters")
      .shape([](const CompiledRNNAttrs& a, std::span<const Shape> in) {
        const RnnGeometry g = geometry_of(a, 0, 0);
        if (!(in[0] == Shape{g.parameter_size()}))
          raise<ShapeError>("parameters have shape {}, but ({},) is needed", in[0], g.parameter_size());
        return Shape{packed_size(a)};
      })
      .kernel([](const CompiledRNNAttrs& a, KernelContext& k) {
        kernels::pack_rnn_parameters(geometry_of(a, 0, 0), k.data<float>(0), k.out_data<float>());
      })
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{48}}, {.state_size = 2, .num_layers = 1, .features = 2});
}
GLUINO_OP(_compiled_rnn, CompiledRNNAttrs) {
  const CompiledRNNAttrs lstm{.state_size = 2, .num_layers = 1, .features = 2},
      gru{.mode = RnnMode::gru, .state_size = 2, .num_layers = 1, .features = 2};
  op.doc("Recurrent layers with rearranged parameters, for prediction.")
      .input("data")
      .input("parameters")
      .input("state")
      .input("state_cell")
      .present_if([](const CompiledRNNAttrs& a) { return a.is_lstm(); })
      .outputs({"output", "state_output", "statecell_output"})
      .num_outputs([](const CompiledRNNAttrs& a) { return a.is_lstm() ? 3 : 2; })
      .shape([](const CompiledRNNAttrs& a, std::span<const Shape> in) {
        if (in[0].ndim() != 3 || in[0][2] != a.features)
          raise<ShapeError>("data has shape {}, but (time, batch, {}) is needed", in[0], a.features);
        const RnnGeometry g = geometry_of(a, in[0][0], in[0][1]);
        if (!(in[1] == Shape{packed_size(a)})) raise<ShapeError>("parameters have shape {}, but ({},) is needed", in[1], packed_size(a));
        const Shape state = state_shape(g);
        for (size_t i = 2; i < in.size(); ++i)
          if (!(in[i] == state)) raise<ShapeError>("a state has shape {}, but {} is needed", in[i], state);
        std::vector<Shape> out{{g.time, g.batch, g.directions * g.state}, state};
        if (a.is_lstm()) out.push_back(state);
        return out;
      })
      .kernel([](const CompiledRNNAttrs& a, KernelContext& k) {
        const RnnGeometry g = geometry_of(a, k.in(0).shape()[0], k.in(0).shape()[1]);
        PoolScratch scratch(k.out().device());
        kernels::rnn_predict(g, k.data<float>(0), k.data<float>(1), {k.data<float>(2), a.is_lstm() ? k.data<float>(3) : nullptr},
                             k.out_data<float>(), {k.out_data<float>(1), a.is_lstm() ? k.out_data<float>(2) : nullptr}, std::ref(scratch));
      })
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{3, 2, 2}, {packed_size(lstm)}, {1, 2, 2}, {1, 2, 2}}, lstm)
      .sample({{3, 2, 2}, {packed_size(gru)}, {1, 2, 2}}, gru);
}

GLUINO_OP(RNN, RNNAttrs) {
  op.doc("Recurrent layers (relu, tanh, lstm, gru) over data of shape (time, batch, channels), with all weights in one vector.")
      .input("data")
      .input("parameters")
      .input("state")
      .input("state_cell")
      .present_if(has_cell)
      .input("sequence_length")
      .own_dtype()
      .present_if(has_lengths)
      .ignores({"lstm_state_clip_nan"})
      .outputs({"output", "state_output", "statecell_output", "reserve"})
      .num_outputs([](const RNNAttrs& a) { return a.is_lstm() ? 4 : 3; })
      .visible_outputs([](const RNNAttrs& a) { return a.state_outputs ? (a.is_lstm() ? 3 : 2) : 1; })
      .shape(rnn_shape)
      .complete(complete_rnn)
      .kernel(rnn_kernel)
      .kernel_dtypes(real_dtypes())
      .mode_dependent()
      .random_if([](const RNNAttrs& a) { return a.p > 0; })
      .gradient({{0, 1, 2, 3, 4}, {2, 3}}, rnn_gradient)
      .sample({{3, 2, 2}, {96}, {2, 2, 2}, {2, 2, 2}}, {.state_size = 2, .num_layers = 1, .bidirectional = true, .state_outputs = true})
      .sample({{3, 2, 2}, {72}, {2, 2, 2}}, {.mode = RnnMode::gru, .state_size = 2, .num_layers = 2, .state_outputs = true})
      .sample({{3, 2, 2}, {45}, {2, 2, 3}}, {.mode = RnnMode::tanh, .state_size = 3, .num_layers = 2})
      .sample({{3, 2, 2}, {96}, {2, 2, 2}, {2, 2, 2}, SampleInput({2}, 1, 4, true)},
              {.state_size = 2, .num_layers = 1, .bidirectional = true, .state_outputs = true, .use_sequence_length = true})
      .sample_without_gradient({{3, 2, 2}, {45}, {2, 2, 3}}, {.mode = RnnMode::tanh, .state_size = 3, .num_layers = 2, .p = 0.5});
  for_compiler(op).compiled_layer(compiled_rnn);
}

GLUINO_OP(_rnn_grad, RNNAttrs) {
  op.doc("The gradients of RNN with respect to data, parameters and initial states.")
      .input("head")
      .input("head_state")
      .input("data")
      .input("parameters")
      .input("state")
      .input("reserve")
      .input("head_cell")
      .present_if(has_cell)
      .input("state_cell")
      .present_if(has_cell)
      .input("sequence_length")
      .own_dtype()
      .present_if(has_lengths)
      .outputs({"data_grad", "parameters_grad", "state_grad", "state_cell_grad"})
      .num_outputs([](const RNNAttrs& a) { return a.is_lstm() ? 4 : 3; })
      .shape([](const RNNAttrs& a, std::span<const Shape> in) {
        std::vector<Shape> forward{in[2], in[3], in[4]}, heads{in[0], in[1]};
        if (a.is_lstm()) {
          heads.push_back(in[6]);
          forward.push_back(in[7]);
        }
        heads.push_back(in[5]);
        if (a.use_sequence_length) forward.push_back(in.back());
        const std::vector<Shape> given = rnn_shape(a, forward);
        for (size_t i = 0; i < given.size(); ++i) check_head(heads[i], given[i]);
        std::vector<Shape> out{in[2], in[3], in[4]};
        if (a.is_lstm()) out.push_back(in[4]);
        return out;
      })
      .kernel([](const RNNAttrs& a, KernelContext& k) {
        RnnGeometry g = geometry_of(a, k.in(2).shape());
        const std::vector<int64_t> lengths = a.use_sequence_length ? k.in(k.num_inputs() - 1).to_vector<int64_t>() : std::vector<int64_t>();
        if (a.use_sequence_length) g.lengths = lengths.data();
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          RnnStates<const T> initial{k.data<T>(4), a.is_lstm() ? k.data<T>(7) : nullptr},
              heads{k.data<T>(1), a.is_lstm() ? k.data<T>(6) : nullptr};
          RnnStates<T> gradients{k.out_data<T>(2), a.is_lstm() ? k.out_data<T>(3) : nullptr};
          kernels::rnn_backward<T>(g, k.data<T>(2), k.data<T>(3), initial, k.data<T>(5), k.data<T>(0), heads, k.out_data<T>(0),
                                   k.out_data<T>(1), gradients);
        });
      })
      .kernel_dtypes(real_dtypes())
      .not_differentiable("the second derivative of recurrent layers is not implemented")
      .sample({{3, 2, 3}, {1, 2, 3}, {3, 2, 2}, {21}, {1, 2, 3}, {72}}, {.mode = RnnMode::tanh, .state_size = 3, .num_layers = 1});
}

}  // namespace
}  // namespace gluino::ops
