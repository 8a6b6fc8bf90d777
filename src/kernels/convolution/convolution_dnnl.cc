#include "kernels/convolution/convolution_dnnl.h"

#include <algorithm>

#include "base/format.h"
#include "base/parallel.h"
#include "kernels/convolution/dnnl_support.h"

namespace gluino::kernels {
namespace {

using dnnl::memory;
enum class Direction : int64_t { forward, data_grad, weight_grad };

const dnnl::engine& engine() { return dnnl_engine(); }
dnnl::stream& stream() { return dnnl_stream(); }

// One of the three big operands: how the caller holds it, and how the primitive wants it.
struct OperandPlan {
  int arg = 0;
  memory::desc plain, inner;
  dnnl::primitive reorder;  // empty when both are the same
  memory::desc reorder_scratchpad;
};

struct Plan {
  OperandPlan a, b, result;  // inputs and output
  dnnl::primitive primitive;
  memory::desc bias, scratchpad;
};

memory::dims spatial(const ConvGeometry& g, const Spatial& s, int64_t offset = 0) {
  memory::dims d;
  for (int i = 0; i < g.rank; ++i) d.push_back(s[i] + offset);
  return d;
}

// (outer, channels, spatial...) in plain memory; for weights of groups: (groups, outer / groups, channels, spatial...).
memory::desc plain_desc(const ConvGeometry& g, int64_t outer, int64_t channels, const Spatial& extents, bool grouped) {
  const memory::dims axes = spatial(g, extents);
  memory::dims dims{outer, channels}, strides(2);
  int64_t step = g.channels_last ? channels : 1;
  memory::dims axis_strides(axes.size());
  for (size_t i = axes.size(); i-- > 0; step *= axes[i]) axis_strides[i] = step;
  strides[1] = g.channels_last ? 1 : step;
  strides[0] = g.channels_last ? step : step * channels;
  if (grouped) {
    dims = {g.groups, outer / g.groups, channels};
    strides = {strides[0] * (outer / g.groups), strides[0], strides[1]};
  }
  dims.insert(dims.end(), axes.begin(), axes.end());
  strides.insert(strides.end(), axis_strides.begin(), axis_strides.end());
  return memory::desc(dims, memory::data_type::f32, strides);
}
memory::desc any_layout(const memory::desc& plain) { return memory::desc(plain.dims(), memory::data_type::f32, memory::format_tag::any); }

OperandPlan operand(int arg, const memory::desc& plain, const memory::desc& inner, bool is_result) {
  OperandPlan o{arg, plain, inner, {}, {}};
  if (plain == inner) return o;
  const dnnl::reorder::primitive_desc pd(engine(), is_result ? inner : plain, engine(), is_result ? plain : inner, user_scratchpad());
  o.reorder = dnnl::reorder(pd);
  o.reorder_scratchpad = pd.scratchpad_desc();
  return o;
}

std::shared_ptr<const Plan> make_plan(const ConvGeometry& g, Direction direction, bool has_bias) {
  using Forward = dnnl::convolution_forward;
  using DataGrad = dnnl::convolution_backward_data;
  using WeightGrad = dnnl::convolution_backward_weights;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const memory::desc data = plain_desc(g, g.batch, g.in_channels, g.in, false), out = plain_desc(g, g.batch, g.out_channels, g.out, false),
                     weight = plain_desc(g, g.out_channels, g.in_channels / g.groups, g.kernel, g.groups > 1);
  const memory::desc any_data = any_layout(data), any_out = any_layout(out), any_weight = any_layout(weight);
  const memory::dims stride = spatial(g, g.stride), dilate = spatial(g, g.dilate, -1), pad = spatial(g, g.pad);
  const auto attr = user_scratchpad();
  auto plan = std::make_shared<Plan>();
  plan->bias = memory::desc({g.out_channels}, memory::data_type::f32, memory::format_tag::a);
  const auto kind = direction == Direction::forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  const Forward::desc forward = has_bias
                                    ? Forward::desc(kind, algorithm, any_data, any_weight, plan->bias, any_out, stride, dilate, pad, pad)
                                    : Forward::desc(kind, algorithm, any_data, any_weight, any_out, stride, dilate, pad, pad);
  const Forward::primitive_desc forward_pd(forward, attr, engine());
  if (direction == Direction::forward) {
    plan->a = operand(DNNL_ARG_SRC, data, forward_pd.src_desc(), false);
    plan->b = operand(DNNL_ARG_WEIGHTS, weight, forward_pd.weights_desc(), false);
    plan->result = operand(DNNL_ARG_DST, out, forward_pd.dst_desc(), true);
    plan->scratchpad = forward_pd.scratchpad_desc();
    plan->primitive = Forward(forward_pd);
  } else if (direction == Direction::data_grad) {
    const DataGrad::primitive_desc pd(DataGrad::desc(algorithm, any_data, any_weight, any_out, stride, dilate, pad, pad), attr, engine(),
                                      forward_pd);
    plan->a = operand(DNNL_ARG_DIFF_DST, out, pd.diff_dst_desc(), false);
    plan->b = operand(DNNL_ARG_WEIGHTS, weight, pd.weights_desc(), false);
    plan->result = operand(DNNL_ARG_DIFF_SRC, data, pd.diff_src_desc(), true);
    plan->scratchpad = pd.scratchpad_desc();
    plan->primitive = DataGrad(pd);
  } else {
    const WeightGrad::primitive_desc pd(WeightGrad::desc(algorithm, any_data, any_weight, any_out, stride, dilate, pad, pad), attr,
                                        engine(), forward_pd);
    plan->a = operand(DNNL_ARG_DIFF_DST, out, pd.diff_dst_desc(), false);
    plan->b = operand(DNNL_ARG_SRC, data, pd.src_desc(), false);
    plan->result = operand(DNNL_ARG_DIFF_WEIGHTS, weight, pd.diff_weights_desc(), true);
    plan->scratchpad = pd.scratchpad_desc();
    plan->primitive = WeightGrad(pd);
  }
  return plan;
}

std::shared_ptr<const Plan> plan_of(const ConvGeometry& g, Direction direction, bool has_bias) {
  static auto* cache = new PlanCache<Plan>;  // leaked: used until the very end of the process
  std::vector<int64_t> key{
      static_cast<int64_t>(direction), has_bias, g.rank, g.batch, g.in_channels, g.out_channels, g.groups, g.channels_last};
  append_extents(key, g);
  return cache->get(key, [&] { return make_plan(g, direction, has_bias); });
}

memory wrap(const memory::desc& d, const void* p) { return memory(d, engine(), const_cast<void*>(p)); }
memory allocate(const memory::desc& d, const Scratch& scratch) {
  const auto bytes = static_cast<int64_t>(d.get_size());
  return memory(d, engine(), bytes ? scratch(bytes) : nullptr);
}

void run_reorder(const OperandPlan& o, const memory& from, const memory& to, const Scratch& scratch) {
  o.reorder.execute(stream(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, allocate(o.reorder_scratchpad, scratch)}});
}

memory prepare(const OperandPlan& o, const void* p, const Scratch& scratch) {
  const memory plain = wrap(o.plain, p);
  if (!o.reorder) return plain;
  memory inner = allocate(o.inner, scratch);
  run_reorder(o, plain, inner, scratch);
  return inner;
}

// On the calling thread alone.
void run_part(const ConvGeometry& g, Direction direction, const float* a, const float* b, const float* bias, float* result,
              const Scratch& scratch) {
  const OneDnnlThread alone;
  try {
    const auto plan = plan_of(g, direction, bias != nullptr);
    const memory plain = wrap(plan->result.plain, result);
    const memory inner = plan->result.reorder ? allocate(plan->result.inner, scratch) : plain;
    std::unordered_map<int, memory> args{{plan->a.arg, prepare(plan->a, a, scratch)},
                                         {plan->b.arg, prepare(plan->b, b, scratch)},
                                         {plan->result.arg, inner},
                                         {DNNL_ARG_SCRATCHPAD, allocate(plan->scratchpad, scratch)}};
    if (bias) args.emplace(DNNL_ARG_BIAS, wrap(plan->bias, bias));
    plan->primitive.execute(stream(), args);
    if (plan->result.reorder) run_reorder(plan->result, inner, plain, scratch);
    stream().wait();
  } catch (const dnnl::error& e) {
    raise<SystemError>("oneDNN refused the convolution: {}", e.what());
  }
}

// Images are shared out by parallel_for: the library's own teams of threads would wait for a core that another process
// keeps busy. Where the gradient of the weight sums many terms it is summed over parts, as many for any number of threads:
// sums of sums lose less than one long sum.
void run(const ConvGeometry& g, Direction direction, const float* a, const float* b, const float* bias, float* result,
         const Scratch& scratch) {
  constexpr int64_t kMostSums = 8, kWork = 1 << 22, kTerms = 4096;
  const int64_t work = g.batch * g.out_channels * (g.in_channels / g.groups) * g.kernel_area() * g.out_area();
  // Every part rearranges the weight for itself: no more of them than threads.
  const int64_t most = std::min(direction == Direction::weight_grad ? kMostSums : num_threads(), g.batch);
  const int64_t parts = std::clamp<int64_t>(direction == Direction::weight_grad ? g.batch * g.out_area() / kTerms : work / kWork, 1, most);
  const int64_t images = (g.batch + parts - 1) / parts;
  if (parts == 1) return run_part(g, direction, a, b, bias, result, scratch);
  const int64_t data = g.in_channels * g.in_area(), out = g.out_channels * g.out_area();
  const int64_t weight = g.out_channels * (g.in_channels / g.groups) * g.kernel_area();
  const bool is_sum = direction == Direction::weight_grad;
  std::mutex mutex;
  const Scratch shared = [&](int64_t bytes) {
    const std::lock_guard lock(mutex);
    return scratch(bytes);
  };
  std::vector<float*> sums(parts, result);
  for (size_t p = 1; is_sum && p < sums.size(); ++p) sums[p] = static_cast<float*>(scratch(weight * static_cast<int64_t>(sizeof(float))));
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * images;
      ConvGeometry part = g;
      part.batch = std::min(images, g.batch - first);
      if (part.batch <= 0) {
        if (is_sum) std::fill_n(sums[p], weight, 0.0f);
      } else if (direction == Direction::forward) {
        run_part(part, direction, a + first * data, b, bias, result + first * out, shared);
      } else if (direction == Direction::data_grad) {
        run_part(part, direction, a + first * out, b, bias, result + first * data, shared);
      } else {
        run_part(part, direction, a + first * out, b + first * data, bias, sums[p], shared);
      }
    }
  });
  for (size_t p = 1; is_sum && p < sums.size(); ++p)
    for (int64_t i = 0; i < weight; ++i) result[i] += sums[p][i];
}

}  // namespace

void dnnl_convolution(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out,
                      const Scratch& scratch) {
  run(g, Direction::forward, data, weight, bias, out, scratch);
}
void dnnl_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch) {
  run(g, Direction::data_grad, head, weight, nullptr, data_grad, scratch);
}
void dnnl_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch) {
  run(g, Direction::weight_grad, head, data, nullptr, weight_grad, scratch);
}

}  // namespace gluino::kernels
