// Layers: convolution, pooling, dense and recurrent ones, normalizations, products of matrices.
#include <algorithm>

#include "base/format.h"
#include "gluino/ops.h"
#include "onnx/export/exporter.h"

namespace gluino::onnx {
namespace {

Shape filled_in(const Shape& given, int axes, int64_t otherwise) { return given.empty() ? Shape::filled(axes, otherwise) : given; }
std::vector<int64_t> both_sides(const Shape& pad) {
  std::vector<int64_t> pads(pad.begin(), pad.end());
  pads.insert(pads.end(), pad.begin(), pad.end());
  return pads;
}
void need_channels_first(const ExportCall& c) {
  const std::string layout = c.text("layout");
  if (layout != "None" && layout.size() > 1 && layout[1] != 'C') c.refuse(fmt::format("layout {}, with channels last,", layout));
}

ExportCall::Attributes window_attributes(const ExportCall& c, const Shape& kernel) {
  const int axes = kernel.ndim();
  return {{"kernel_shape", attribute_of(kernel)},
          {"strides", attribute_of(filled_in(c.ints("stride"), axes, 1))},
          {"pads", attribute_of(both_sides(filled_in(c.ints("pad"), axes, 0)))}};
}

std::vector<std::string> inputs_with_bias(const ExportCall& c) {
  std::vector<std::string> inputs{c.in(0), c.in(1)};
  if (!c.flag("no_bias")) inputs.push_back(c.in(2));
  return inputs;
}

// A layer in float64 of numbers of 8 bits, as the quantized operators are made of: ONNX has it in whole numbers, and runtimes have only
// that.
bool is_of_levels(const ExportCall& c) {
  return c.dtype(0) == DType::float64 && c.flag("no_bias") && !c.levels_behind(0).empty() && !c.levels_behind(1).empty();
}
void put_exact(const ExportCall& c, const std::string& sums) {
  c.put("Cast", {sums}, {{"to", attribute_of(static_cast<int64_t>(ElementType::float64))}});
}

void convolution(const ExportCall& c) {
  need_channels_first(c);
  const Shape kernel = c.ints("kernel");
  auto attributes = window_attributes(c, kernel);
  attributes["dilations"] = attribute_of(filled_in(c.ints("dilate"), kernel.ndim(), 1));
  attributes["group"] = attribute_of(c.integer("num_group"));
  if (is_of_levels(c)) return put_exact(c, c.add("ConvInteger", {c.levels_behind(0), c.levels_behind(1)}, attributes));
  c.put("Conv", inputs_with_bias(c), attributes);
}

void deconvolution(const ExportCall& c) {
  need_channels_first(c);
  const Shape kernel = c.ints("kernel");
  const int axes = kernel.ndim();
  Shape pad = filled_in(c.ints("pad"), axes, 0), more = filled_in(c.ints("adj"), axes, 0);
  const Shape stride = filled_in(c.ints("stride"), axes, 1), dilate = filled_in(c.ints("dilate"), axes, 1), target = c.ints("target_shape");
  for (int i = 0; i < target.ndim(); ++i) {
    const int64_t all = stride[i] * (c.shape(0)[i + 2] - 1) + (kernel[i] - 1) * dilate[i] + 1 - target[i];
    more[i] = all % 2;
    pad[i] = (all + 1) / 2;
  }
  c.put("ConvTranspose", inputs_with_bias(c),
        {{"kernel_shape", attribute_of(kernel)},
         {"strides", attribute_of(stride)},
         {"dilations", attribute_of(dilate)},
         {"pads", attribute_of(both_sides(pad))},
         {"output_padding", attribute_of(more)},
         {"group", attribute_of(c.integer("num_group"))}});
}

void pooling(const ExportCall& c) {
  need_channels_first(c);
  const std::string how = c.text("pool_type"), convention = c.text("pooling_convention");
  const int axes = c.rank(0) - 2;
  if (how == "sum") c.refuse("sum pooling");
  if (c.flag("global_pool")) {
    if (how == "lp")
      return c.put("GlobalLpPool", {c.in(0)}, {{"p", attribute_of(c.is_none("p_value") ? int64_t{2} : c.integer("p_value"))}});
    return c.put(how == "max" ? "GlobalMaxPool" : "GlobalAveragePool", {c.in(0)});
  }
  const Shape kernel = c.ints("kernel");
  auto attributes = window_attributes(c, kernel);
  if (convention == "same") attributes.erase("pads"), attributes["auto_pad"] = attribute_of(std::string("SAME_UPPER"));
  const bool includes_padding = c.is_none("count_include_pad") || c.flag("count_include_pad");
  std::vector<std::string> inputs{c.in(0)};
  if (convention == "full") {
    // ONNX's ceil_mode counts the windows in the same way; what they average beyond the padding it does not say, so that the padding
    // is written out.
    const Shape stride = filled_in(c.ints("stride"), axes, 1), pad = filled_in(c.ints("pad"), axes, 0);
    const bool exact = [&] {
      for (int i = 0; i < axes; ++i)
        if ((c.shape(0)[i + 2] + 2 * pad[i] - kernel[i]) % stride[i] != 0) return false;
      return true;
    }();
    if (!exact && how != "max") c.refuse("average pooling whose last windows are cut off (pooling_convention 'full')");
    if (!exact) attributes["ceil_mode"] = attribute_of(int64_t{1});
  }
  if (how == "lp") {
    attributes["p"] = attribute_of(c.is_none("p_value") ? int64_t{2} : c.integer("p_value"));
    return c.put("LpPool", inputs, attributes);
  }
  if (how == "avg") attributes["count_include_pad"] = attribute_of(int64_t{includes_padding});
  c.put(how == "max" ? "MaxPool" : "AveragePool", inputs, attributes);
}

void dense(const ExportCall& c) {
  const bool flattens = c.flag("flatten");
  const bool has_bias = !c.flag("no_bias");
  if (is_of_levels(c) && (flattens || c.rank(0) == 2)) {
    const std::string x = c.add("Flatten", {c.levels_behind(0)}, {{"axis", attribute_of(int64_t{1})}});
    const std::string weight = c.add("Transpose", {c.levels_behind(1)}, {{"perm", attribute_of(Shape{1, 0})}});
    return put_exact(c, c.add("MatMulInteger", {x, weight}));
  }
  if (flattens || c.rank(0) == 2) {
    const std::string x = c.rank(0) == 2 ? c.in(0) : c.add("Flatten", {c.in(0)}, {{"axis", attribute_of(int64_t{1})}});
    std::vector<std::string> inputs{x, c.in(1)};
    if (has_bias) inputs.push_back(c.in(2));
    return c.put("Gemm", inputs, {{"transB", attribute_of(int64_t{1})}});
  }
  const std::string weight = c.add("Transpose", {c.in(1)}, {{"perm", attribute_of(Shape{1, 0})}});
  if (!has_bias) return c.put("MatMul", {c.in(0), weight});
  c.put("Add", {c.add("MatMul", {c.in(0), weight}), c.in(2)});
}

// (channels,) as it broadcasts over (batch, channels, ...).
std::string over_channels(const ExportCall& c, const std::string& value, int axis) {
  std::vector<int64_t> codes{-1};
  for (int i = axis + 1; i < c.rank(0); ++i) codes.push_back(1);
  return codes.size() == 1 ? value : c.add("Reshape", {value, c.whole_numbers(codes)});
}

void batch_norm(const ExportCall& c) {
  const int64_t given = c.integer("axis"), axis = given < 0 ? given + c.rank(0) : given;
  std::string gamma = c.in(1);
  if (c.flag("fix_gamma")) gamma = c.constant(ones(c.shape(1), {.dtype = c.dtype(1)}));
  const double epsilon = c.number("eps");
  if (axis == 1)
    return c.put("BatchNormalization", {c.in(0), gamma, c.in(2), c.in(3), c.in(4)},
                 {{"epsilon", attribute_of(epsilon)}, {"momentum", attribute_of(c.number("momentum"))}});
  const auto wide = [&](const std::string& v) { return over_channels(c, v, static_cast<int>(axis)); };
  const std::string spread = c.add("Sqrt", {c.add("Add", {c.in(4), c.number_of(epsilon, c.dtype(4))})});
  const std::string normal = c.add("Div", {c.add("Sub", {c.in(0), wide(c.in(3))}), wide(spread)});
  c.put("Add", {c.add("Mul", {normal, wide(gamma)}), wide(c.in(2))});
}

void layer_norm(const ExportCall& c) {
  const int64_t given = c.integer("axis"), axis = given < 0 ? given + c.rank(0) : given;
  const double epsilon = c.number("eps");
  if (c.version() >= 17 && axis == c.rank(0) - 1)
    return c.put("LayerNormalization", {c.in(0), c.in(1), c.in(2)},
                 {{"axis", attribute_of(int64_t{-1})}, {"epsilon", attribute_of(epsilon)}});
  const ExportCall::Attributes over{{"axes", attribute_of(std::vector<int64_t>{axis})}, {"keepdims", attribute_of(int64_t{1})}};
  const std::string centred = c.add("Sub", {c.in(0), c.add("ReduceMean", {c.in(0)}, over)});
  const std::string variance = c.add("ReduceMean", {c.add("Mul", {centred, centred})}, over);
  const std::string spread = c.add("Sqrt", {c.add("Add", {variance, c.number_of(epsilon, c.dtype(0))})});
  const auto wide = [&](int i) { return over_channels(c, c.in(i), static_cast<int>(axis)); };
  c.put("Add", {c.add("Mul", {c.add("Div", {centred, spread}), wide(1)}), wide(2)});
}

void instance_norm(const ExportCall& c) {
  c.put("InstanceNormalization", {c.in(0), c.in(1), c.in(2)}, {{"epsilon", attribute_of(c.number("eps"))}});
}

// Groups become the channels of an InstanceNormalization without scale.
void group_norm(const ExportCall& c) {
  const int64_t groups = c.integer("num_groups");
  const Tensor one = ones({groups}), nothing = zeros({groups});
  const std::string grouped = c.add("Reshape", {c.in(0), c.whole_numbers({0, groups, -1})});
  const std::string normal =
      c.add("InstanceNormalization", {grouped, c.constant(one), c.constant(nothing)}, {{"epsilon", attribute_of(c.number("eps"))}});
  const std::string back = c.add("Reshape", {normal, c.add("Shape", {c.in(0)})});
  c.put("Add", {c.add("Mul", {back, over_channels(c, c.in(1), 1)}), over_channels(c, c.in(2), 1)});
}

void local_response(const ExportCall& c) {
  c.put("LRN", {c.in(0)},
        {{"size", attribute_of(c.integer("nsize"))},
         {"alpha", attribute_of(c.number("alpha"))},
         {"beta", attribute_of(c.number("beta"))},
         {"bias", attribute_of(c.number("knorm"))}});
}

void l2_normalization(const ExportCall& c) {
  const std::string mode = c.text("mode");
  std::vector<int64_t> axes;
  for (int i = 1; i < c.rank(0); ++i)
    if (mode == "instance" || (mode == "channel" && i == 1) || (mode == "spatial" && i > 1)) axes.push_back(i);
  const std::string squares = c.add("Mul", {c.in(0), c.in(0)});
  const std::string total = c.add("ReduceSum", {squares, c.whole_numbers(axes)}, {{"keepdims", attribute_of(int64_t{1})}});
  c.put("Div", {c.in(0), c.add("Sqrt", {c.add("Add", {total, c.number_of(c.number("eps"), c.dtype(0))})})});
}

std::string transposed_last(const ExportCall& c, int i) {
  Shape axes;
  for (int k = 0; k < c.rank(i); ++k) axes.push_back(k);
  std::swap(axes[c.rank(i) - 1], axes[c.rank(i) - 2]);
  return c.add("Transpose", {c.in(i)}, {{"perm", attribute_of(axes)}});
}

void batch_product(const ExportCall& c) {
  c.put("MatMul", {c.flag("transpose_a") ? transposed_last(c, 0) : c.in(0), c.flag("transpose_b") ? transposed_last(c, 1) : c.in(1)});
}

void product(const ExportCall& c) {
  if (c.rank(1) > 2 || (c.rank(0) != 2 && c.flag("transpose_a"))) c.refuse("a product over more than two axes");
  batch_product(c);
}

// The fused operator's one vector of parameters, cut into ONNX's matrices: ifgo to iofc, rzn to zrh.
struct RecurrentWeights {
  Tensor w, r, b;
};
RecurrentWeights weights_of_layer(const Tensor& all, int64_t& at, int64_t& bias_at, int64_t gates, int64_t hidden, int64_t inputs,
                                  int directions) {
  const auto cut = [&](int64_t& from, int64_t n) {
    const Tensor part = slice_axis(all, {.axis = 0, .begin = from, .end = std::optional<int64_t>(from + n)});
    from += n;
    return part;
  };
  const auto reordered = [&](const Tensor& t) {
    const std::vector<int64_t> order = gates == 4   ? std::vector<int64_t>{0, 3, 1, 2}
                                       : gates == 3 ? std::vector<int64_t>{1, 0, 2}
                                                    : std::vector<int64_t>{0};
    Tensors parts;
    for (const int64_t g : order)
      parts.push_back(slice_axis(t, {.axis = 0, .begin = g * hidden, .end = std::optional<int64_t>((g + 1) * hidden)}));
    return parts.size() == 1 ? parts[0] : concat(parts, {.dim = 0});
  };
  Tensors ws, rs, bs;
  for (int d = 0; d < directions; ++d) {
    ws.push_back(reordered(cut(at, gates * hidden * inputs).reshape({gates * hidden, inputs})));
    rs.push_back(reordered(cut(at, gates * hidden * hidden).reshape({gates * hidden, hidden})));
    const Tensor from_input = reordered(cut(bias_at, gates * hidden));
    bs.push_back(concat({from_input, reordered(cut(bias_at, gates * hidden))}, {.dim = 0}));
  }
  return {stack(ws, {.axis = 0}), stack(rs, {.axis = 0}), stack(bs, {.axis = 0})};
}

void recurrent(const ExportCall& c) {
  const std::optional<Tensor> all = c.parameter(1);
  if (!all) c.refuse("a recurrent layer whose parameters are computed");
  if (c.flag("use_sequence_length")) c.refuse("use_sequence_length");
  const std::string mode = c.text("mode");
  const bool is_lstm = mode == "lstm", is_gru = mode == "gru";
  const int64_t gates = is_lstm ? 4 : is_gru ? 3 : 1, hidden = c.integer("state_size"), layers = c.integer("num_layers");
  const int directions = c.flag("bidirectional") ? 2 : 1;
  int64_t inputs = c.shape(0).back(), at = 0, bias_at = all->size() - layers * directions * gates * hidden * 2;
  std::string x = c.in(0);
  std::vector<std::string> hs, cs;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const RecurrentWeights w = weights_of_layer(*all, at, bias_at, gates, hidden, inputs, directions);
    const auto initial = [&](int i) {
      if (layers == 1) return c.in(i);
      return c.add("Slice",
                   {c.in(i), c.whole_numbers({layer * directions}), c.whole_numbers({(layer + 1) * directions}), c.whole_numbers({0})});
    };
    std::vector<std::string> given{x, c.constant(w.w), c.constant(w.r), c.constant(w.b), "", initial(2)};
    if (is_lstm) given.push_back(initial(3));
    ExportCall::Attributes attributes{{"hidden_size", attribute_of(hidden)},
                                      {"direction", attribute_of(std::string(directions == 2 ? "bidirectional" : "forward"))}};
    if (is_gru) attributes["linear_before_reset"] = attribute_of(int64_t{1});
    if (mode == "rnn_relu") attributes["activations"] = attribute_of(std::vector<std::string>(static_cast<size_t>(directions), "Relu"));
    const std::vector<std::string> y = c.add_all(is_lstm ? "LSTM" : is_gru ? "GRU" : "RNN", given, attributes, is_lstm ? 3 : 2);
    // (time, directions, batch, hidden) to (time, batch, directions * hidden)
    x = c.add("Reshape",
              {c.add("Transpose", {y[0]}, {{"perm", attribute_of(Shape{0, 2, 1, 3})}}), c.whole_numbers({0, 0, directions * hidden})});
    hs.push_back(y[1]);
    if (is_lstm) cs.push_back(y[2]);
    inputs = directions * hidden;
  }
  c.put_as(x);
  if (!c.flag("state_outputs")) return;
  const auto joined = [&](const std::vector<std::string>& v) {
    return v.size() == 1 ? v[0] : c.add("Concat", v, {{"axis", attribute_of(int64_t{0})}});
  };
  c.put_as(joined(hs), 1);
  if (is_lstm) c.put_as(joined(cs), 2);
}

void upsample(const ExportCall& c) {
  if (c.text("sample_type") != "nearest" || c.num_inputs() != 1) c.refuse("UpSampling other than nearest of one input");
  const auto scale = static_cast<double>(c.integer("scale"));
  const std::string scales = c.constant(from_vector(std::vector<float>{1, 1, static_cast<float>(scale), static_cast<float>(scale)}));
  c.put("Resize", {c.in(0), "", scales},
        {{"mode", attribute_of(std::string("nearest"))},
         {"coordinate_transformation_mode", attribute_of(std::string("asymmetric"))},
         {"nearest_mode", attribute_of(std::string("floor"))}});
}

// Steps at or past the length become `value`.
void sequence_mask(const ExportCall& c) {
  if (!c.flag("use_sequence_length")) return c.put_as(c.in(0));
  const int64_t axis = c.integer("axis");
  const int64_t steps = c.shape(0)[static_cast<int>(axis)];
  std::vector<int64_t> time(static_cast<size_t>(c.rank(0)), 1), batch = time;
  time[static_cast<size_t>(axis)] = steps;
  batch[static_cast<size_t>(1 - axis)] = -1;
  const std::string at =
      c.constant(arange(static_cast<double>(steps), {.dtype = DType::float32}).reshape(Shape(std::span<const int64_t>(time))));
  const std::string lengths = c.add("Cast", {c.in(1)}, {{"to", attribute_of(static_cast<int64_t>(ElementType::float32))}});
  const std::string inside = c.add("Less", {at, c.add("Reshape", {lengths, c.whole_numbers(batch)})});
  c.put("Where", {inside, c.in(0), c.number_of(c.number("value"), c.dtype(0))});
}

}  // namespace

void add_layer_exports(ExportRules& rules) {
  rules["Convolution"] = convolution;
  rules["Deconvolution"] = deconvolution;
  rules["Pooling"] = pooling;
  rules["FullyConnected"] = dense;
  rules["BatchNorm"] = rules["_contrib_SyncBatchNorm"] = batch_norm;
  rules["LayerNorm"] = layer_norm;
  rules["InstanceNorm"] = instance_norm;
  rules["GroupNorm"] = group_norm;
  rules["LRN"] = local_response;
  rules["L2Normalization"] = l2_normalization;
  rules["Dropout"] = [](const ExportCall& c) { c.put("Dropout", {c.in(0), c.number_of(c.number("p"), DType::float32)}); };
  rules["dot"] = product;
  rules["batch_dot"] = batch_product;
  rules["RNN"] = recurrent;
  rules["UpSampling"] = upsample;
  rules["SequenceMask"] = sequence_mask;
}

}  // namespace gluino::onnx
