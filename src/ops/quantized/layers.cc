// Layers on levels of 8 bits, as models that MXNet quantized hold them.
#include "ops/network/convolution_attrs.h"
#include "ops/quantized/levels.h"

namespace gluino::ops {
namespace {

Tensor exact(const Tensor& x) { return as_dtype(x, DType::float64); }

// Adds a bias of 8 bits, whose levels stand for something else.
Tensor with_bias(const Tensor& sums, const Tensor& level, const Tensor& bias, const Tensor& low, const Tensor& high, const Shape& column) {
  const Tensor scale = exact(level_of(bias.dtype(), low, high)) / call("_maximum_scalar", {exact(level)}, {{"scalar", 1e-300}});
  return call("broadcast_add", {sums, reshaped(call("broadcast_mul", {exact(bias), scale}), column)});
}

// Inputs: data, weight, bias where there is one, and for each of them, in this order, the two bounds.
template <class A>
OpBuilder<A>& declare_layer(OpBuilder<A>& op) {
  const auto has_bias = [](const A& a) { return !a.no_bias; };
  op.input("data").input("weight").input("bias").present_if(has_bias);
  for (const char* name : {"min_data", "max_data", "min_weight", "max_weight"}) op.input(name).own_dtype();
  for (const char* name : {"min_bias", "max_bias"}) op.input(name).own_dtype().present_if(has_bias);
  return op.dtypes(DTypeSet::numeric)
      .outputs(quantized_outputs())
      .dtype([](const A&, std::span<const DType>, DType) { return quantized_dtypes(DType::int32); })
      .not_differentiable(kRounded);
}
// `column`: the bias as it is added. f(data, weight) in float64.
template <class F>
Tensors run_layer(std::span<const Tensor> in, const Shape& column, F f) {
  const bool has_bias = in.size() == 9;
  const size_t bounds = has_bias ? 3 : 2;
  const Tensor level = level_of(in[0].dtype(), in[bounds], in[bounds + 1]) * level_of(in[1].dtype(), in[bounds + 2], in[bounds + 3]);
  const Tensor sums = f(exact(in[0]), exact(in[1]));
  return summed(has_bias ? with_bias(sums, level, in[2], in[bounds + 4], in[bounds + 5], column) : sums, level);
}

GLUINO_OP(_contrib_quantized_conv, ConvolutionAttrs) {
  composed(declare_layer(op.doc("Convolution of levels of 8 bits; sums are int32.")).ignores({"workspace", "cudnn_tune", "cudnn_off"}),
           [](const ConvolutionAttrs& a, std::span<const Tensor> in) {
             Shape column = Shape::filled(std::max(in[0].ndim() - 1, 1), 1);
             const bool last = a.layout && !a.layout->empty() && a.layout->back() == 'C';
             column[last ? column.ndim() - 1 : 0] = -1;
             return run_layer(in, column, [&](const Tensor& data, const Tensor& weight) {
               ConvolutionAttrs attrs = a;
               attrs.no_bias = true;
               return call_with("Convolution", {data, weight}, std::move(attrs));
             });
           })
      .sample({levels_sample({2, 2, 5, 5}), levels_sample({3, 2, 3, 3}), levels_sample({3}), low_sample(), high_sample(), low_sample(),
               high_sample(), low_sample(), high_sample()},
              {.kernel = {3, 3}, .num_filter = 3})
      .sample({levels_sample({2, 2, 5, 5}), levels_sample({3, 2, 3, 3}), low_sample(), high_sample(), low_sample(), high_sample()},
              {.kernel = {3, 3}, .num_filter = 3, .no_bias = true});
}

struct DenseAttrs {
  int64_t num_hidden = 0;
  bool no_bias = false, flatten = true;
  static void fields(AttrFields<DenseAttrs>& f) {
    f.required("num_hidden", &DenseAttrs::num_hidden, "number of outputs")
        .field("no_bias", &DenseAttrs::no_bias, "leave the bias out")
        .field("flatten", &DenseAttrs::flatten, "treat all axes but the first as one");
  }
};
Tensor dense(const DenseAttrs& a, const Tensor& data, const Tensor& weight) {
  return call("FullyConnected", {data, weight}, {{"num_hidden", a.num_hidden}, {"no_bias", true}, {"flatten", a.flatten}});
}
GLUINO_OP(_contrib_quantized_fully_connected, DenseAttrs) {
  composed(declare_layer(op.doc("The dense layer on levels of 8 bits; sums are int32.")),
           [](const DenseAttrs& a, std::span<const Tensor> in) {
             return run_layer(in, {-1}, [&](const Tensor& data, const Tensor& weight) { return dense(a, data, weight); });
           })
      .sample({levels_sample({2, 3}), levels_sample({4, 3}), levels_sample({4}), low_sample(), high_sample(), low_sample(), high_sample(),
               low_sample(), high_sample()},
              {.num_hidden = 4})
      .sample({levels_sample({2, 3}), levels_sample({4, 3}), low_sample(), high_sample(), low_sample(), high_sample()},
              {.num_hidden = 4, .no_bias = true});
}

// ---- what keeps the levels: data and its two bounds

template <class A, class F>
OpBuilder<A>& define_kept(OpBuilder<A>& op, F f) {
  return composed(op.input("data")
                      .input("min_data")
                      .own_dtype()
                      .input("max_data")
                      .own_dtype()
                      .dtypes(DTypeSet::numeric)
                      .outputs(quantized_outputs())
                      .dtype([](const A&, std::span<const DType> in, DType) {
                        return std::vector<DType>{in[0], in[1], in[2]};
                      }),
                  [f](const A& a, std::span<const Tensor> in) -> Tensors {
                    return {f(a, in[0]), in[1], in[2]};
                  })
      .not_differentiable(kRounded);
}
GLUINO_OP(_contrib_quantized_flatten, NoAttrs) {
  define_kept(op.doc("Joins all axes after the first."), [](const NoAttrs&, const Tensor& x) {
    return call("Flatten", {x});
  }).sample({levels_sample({2, 3, 2}), low_sample(), high_sample()});
}
struct QuantizedActAttrs {
  std::string act_type = "relu";
  static void fields(AttrFields<QuantizedActAttrs>& f) { f.required("act_type", &QuantizedActAttrs::act_type, "relu"); }
};
GLUINO_OP(_contrib_quantized_act, QuantizedActAttrs) {
  define_kept(op.doc("Relu of levels."), [](const QuantizedActAttrs& a, const Tensor& x) {
    if (a.act_type != "relu") raise<AttrError>("act_type '{}' is not known for levels of 8 bits; relu is", a.act_type);
    return call("_maximum_scalar", {x}, {{"scalar", 0.0}});
  }).sample({levels_sample({2, 3}), low_sample(), high_sample()});
}
struct QuantizedPoolingAttrs {
  Shape kernel, stride, pad;
  std::string pool_type = "max", pooling_convention = "valid";
  bool global_pool = false;
  std::optional<bool> count_include_pad;
  std::optional<std::string> layout;
  static void fields(AttrFields<QuantizedPoolingAttrs>& f) {
    f.field("kernel", &QuantizedPoolingAttrs::kernel, "window size per spatial axis")
        .field("stride", &QuantizedPoolingAttrs::stride, "step of the window per axis; 1 when empty")
        .field("pad", &QuantizedPoolingAttrs::pad, "padding at both ends of each axis; 0 when empty")
        .field("pool_type", &QuantizedPoolingAttrs::pool_type, "max or avg")
        .field("pooling_convention", &QuantizedPoolingAttrs::pooling_convention, "valid or full")
        .field("global_pool", &QuantizedPoolingAttrs::global_pool, "one window over the whole extent")
        .field("count_include_pad", &QuantizedPoolingAttrs::count_include_pad, "whether avg counts the padding; yes when None")
        .field("layout", &QuantizedPoolingAttrs::layout, "as Pooling's");
  }
};
GLUINO_OP(_contrib_quantized_pooling, QuantizedPoolingAttrs) {
  define_kept(op.doc("Pooling of levels: max, or avg rounded to the nearest."),
              [](const QuantizedPoolingAttrs& a, const Tensor& x) {
                const Tensor pooled = call("Pooling", {as_dtype(x, DType::float32)},
                                           {{"kernel", a.kernel},
                                            {"stride", a.stride},
                                            {"pad", a.pad},
                                            {"pool_type", a.pool_type},
                                            {"pooling_convention", a.pooling_convention},
                                            {"global_pool", a.global_pool},
                                            {"count_include_pad", a.count_include_pad ? AttrValue(*a.count_include_pad) : AttrValue()},
                                            {"layout", a.layout ? AttrValue(*a.layout) : AttrValue()}});
                return as_dtype(call("rint", {pooled}), x.dtype());
              })
      .ignores({"cudnn_off", "p_value"})
      .sample({levels_sample({2, 2, 4, 4}), low_sample(), high_sample()}, {.kernel = {2, 2}, .stride = {2, 2}})
      .sample({levels_sample({2, 2, 4, 4}), low_sample(), high_sample()}, {.kernel = {2, 2}, .pool_type = "avg"});
}

struct QuantizedEmbeddingAttrs {
  int64_t input_dim = 0, output_dim = 0;
  static void fields(AttrFields<QuantizedEmbeddingAttrs>& f) {
    f.required("input_dim", &QuantizedEmbeddingAttrs::input_dim, "number of rows of the table")
        .required("output_dim", &QuantizedEmbeddingAttrs::output_dim, "length of a row");
  }
};
GLUINO_OP(_contrib_quantized_embedding, QuantizedEmbeddingAttrs) {
  composed(op.doc("Rows of a table of levels.")
               .input("data")
               .own_dtype()
               .input("weight")
               .input("min_weight")
               .own_dtype()
               .input("max_weight")
               .own_dtype()
               .ignores({"dtype", "sparse_grad"})
               .dtypes(DTypeSet::numeric)
               .outputs(quantized_outputs())
               .dtype([](const QuantizedEmbeddingAttrs&, std::span<const DType> in, DType promoted) {
                 return std::vector<DType>{promoted, in[2], in[3]};
               }),
           [](const QuantizedEmbeddingAttrs& a, std::span<const Tensor> in) -> Tensors {
             check_same_shape("weight", in[1].shape(), {a.input_dim, a.output_dim});
             return {taken(in[1], in[0], 0), in[2], in[3]};
           })
      .not_differentiable(kRounded)
      .sample({index_sample({2, 3}, 4), levels_sample({4, 2}), low_sample(), high_sample()}, {.input_dim = 4, .output_dim = 2});
}

// ---- attention of models that MXNet joined for oneDNN

struct SelfAttentionAttrs : CalibratedRange {
  int64_t heads = 1;
  bool quantized = false, enable_float_output = false;
  static void fields(AttrFields<SelfAttentionAttrs>& f) {
    f.required("heads", &SelfAttentionAttrs::heads, "number of heads")
        .field("quantized", &SelfAttentionAttrs::quantized, "whether inputs and outputs are levels of 8 bits")
        .field("enable_float_output", &SelfAttentionAttrs::enable_float_output, "give real numbers all the same");
    range_fields(f);
  }
  bool gives_levels() const { return quantized && !enable_float_output; }
};
// Tensors first, then, where they are levels, the two bounds of each.
void define_attention(OpBuilder<SelfAttentionAttrs>& op, std::initializer_list<const char*> tensors, const char* product) {
  for (const char* name : tensors) op.input(name);
  for (const char* name : tensors)
    for (const char* bound : {"min_", "max_"})
      op.input(std::string(bound) + name).own_dtype().present_if([](const SelfAttentionAttrs& a) { return a.quantized; });
  const size_t count = tensors.size();
  composed(op.dtypes(DTypeSet::numeric)
               .num_outputs([](const SelfAttentionAttrs& a) { return a.gives_levels() ? 3 : 1; })
               .output_names(
                   [](const SelfAttentionAttrs& a) { return a.gives_levels() ? quantized_outputs() : std::vector<std::string>{"output"}; })
               .dtype([](const SelfAttentionAttrs& a, std::span<const DType>, DType) {
                 return a.gives_levels() ? quantized_dtypes(DType::int8) : std::vector<DType>{DType::float32};
               }),
           [count, product](const SelfAttentionAttrs& a, std::span<const Tensor> in) -> Tensors {
             Tensors real;
             for (size_t i = 0; i < count; ++i)
               real.push_back(a.quantized ? real_of(in[i], in[count + 2 * i], in[count + 2 * i + 1]) : as_dtype(in[i], DType::float32));
             const Tensor found = call(product, real, {{"heads", a.heads}});
             if (!a.gives_levels()) return {found};
             const auto extreme = [&](const char* op) { return reshaped(reduced(op, found, {}, false), {1}); };
             return a.is_known() ? quantized(found, a.low(), a.high(), DType::int8)
                                 : quantized(found, extreme("min"), extreme("max"), DType::int8);
           })
      .not_differentiable("models for oneDNN predict");
}
SelfAttentionAttrs two_heads(bool quantized) {
  SelfAttentionAttrs a;
  a.heads = 2;
  a.quantized = quantized;
  return a;
}
GLUINO_OP(_sg_mkldnn_selfatt_qk, SelfAttentionAttrs) {
  define_attention(op.doc("Scores of self-attention from projections of queries, keys and values that stand interleaved."),
                   {"queries_keys_values"}, "_contrib_interleaved_matmul_selfatt_qk");
  op.sample({{3, 2, 12}}, two_heads(false)).sample({levels_sample({3, 2, 12}), low_sample(), high_sample()}, two_heads(true));
}
GLUINO_OP(_sg_mkldnn_selfatt_valatt, SelfAttentionAttrs) {
  define_attention(op.doc("Values weighted by attention, from projections of queries, keys and values that stand interleaved."),
                   {"queries_keys_values", "attention"}, "_contrib_interleaved_matmul_selfatt_valatt");
  op.sample({{3, 2, 12}, {4, 3, 3}}, two_heads(false))
      .sample({levels_sample({3, 2, 12}), levels_sample({4, 3, 3}), low_sample(), high_sample(), low_sample(), high_sample()},
              two_heads(true));
}

}  // namespace
}  // namespace gluino::ops
