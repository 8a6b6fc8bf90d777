#include "kernels/convolution/convolution_blocked.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/format.h"
#include "base/parallel.h"
#include "kernels/convolution/dnnl_support.h"

namespace gluino::kernels {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Forward = dnnl::convolution_forward;

// A primitive for some images and a range of output channels, run by one thread. Parts are computed by whichever thread is
// free: nobody waits for a core that another process keeps busy, as the library's own teams of threads would.
struct Plan {
  Forward::primitive_desc desc;
  dnnl::primitive primitive;
  memory::desc src, weights, bias, dst, scratchpad;
};

// oneDNN is told of whole blocks: what it takes for padding it fills with zeros before every call, where they are already.
int64_t whole_blocks(int64_t channels) { return blocks_of(channels) * kChannelBlock; }
int64_t channels_read(const ConvGeometry& g) { return reads_plain_data(g) ? g.in_channels : whole_blocks(g.in_channels); }

memory::desc weight_desc(const ConvGeometry& g, int64_t out_channels) {
  const int64_t height = g.kernel[0], width = g.kernel[1], out = whole_blocks(out_channels);
  if (g.is_depthwise()) return {{out, 1, 1, height, width}, memory::data_type::f32, Tag::Goihw8g};
  return {{out, channels_read(g), height, width}, memory::data_type::f32, reads_plain_data(g) ? Tag::Ohwi8o : Tag::OIhw8i8o};
}

std::shared_ptr<const Plan> make_plan(const ConvGeometry& g, int64_t batch, int64_t out_channels, const ConvEpilogue& epilogue) {
  const OneDnnlThread alone;  // a primitive keeps the number of threads it was made for
  const int64_t out = whole_blocks(out_channels), in_channels = g.is_depthwise() ? out : channels_read(g);
  const memory::desc src({batch, in_channels, g.in[0], g.in[1]}, memory::data_type::f32, reads_plain_data(g) ? Tag::nchw : Tag::nChw8c);
  const memory::desc dst({batch, out, g.out[0], g.out[1]}, memory::data_type::f32, Tag::nChw8c);
  const memory::desc weights = weight_desc(g, out_channels), bias({out}, memory::data_type::f32, Tag::a);
  const memory::dims stride{g.stride[0], g.stride[1]}, dilate{g.dilate[0] - 1, g.dilate[1] - 1}, pad{g.pad[0], g.pad[1]};
  dnnl::primitive_attr attr = user_scratchpad();
  dnnl::post_ops after;
  if (epilogue.accumulate) after.append_sum(1.0f);  // oneDNN's own relu would make 0 of NaN
  attr.set_post_ops(after);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const Forward::desc d = epilogue.bias ? Forward::desc(kind, algorithm, src, weights, bias, dst, stride, dilate, pad, pad)
                                        : Forward::desc(kind, algorithm, src, weights, dst, stride, dilate, pad, pad);
  const Forward::primitive_desc pd(d, attr, dnnl_engine());
  return std::make_shared<const Plan>(Plan{pd, Forward(pd), src, weights, bias, dst, pd.scratchpad_desc()});
}

std::shared_ptr<const Plan> plan_of(const ConvGeometry& g, int64_t batch, int64_t out_channels, const ConvEpilogue& epilogue) {
  static auto* cache = new PlanCache<Plan>;  // leaked: used until the very end of the process
  std::vector<int64_t> key{batch, out_channels, epilogue.bias != nullptr, epilogue.accumulate, g.in_channels, g.out_channels, g.groups};
  append_extents(key, g);
  return cache->get(key, [&] { return make_plan(g, batch, out_channels, epilogue); });
}

// A plan with the arguments of its calls, for one thread: to make them anew takes longer than a small convolution.
struct BoundPlan {
  std::shared_ptr<const Plan> plan;
  std::unordered_map<int, memory> args;
};
BoundPlan& bound(std::shared_ptr<const Plan> plan, bool has_bias) {
  constexpr size_t kMost = 512;  // as many as the cache of plans keeps
  thread_local std::unordered_map<const Plan*, BoundPlan> all;
  if (const auto found = all.find(plan.get()); found != all.end()) return found->second;
  if (all.size() >= kMost) all.clear();
  const auto unbound = [](const memory::desc& d) { return memory(d, dnnl_engine(), nullptr); };
  BoundPlan made{plan,
                 {{DNNL_ARG_SRC, unbound(plan->src)},
                  {DNNL_ARG_WEIGHTS, unbound(plan->weights)},
                  {DNNL_ARG_DST, unbound(plan->dst)},
                  {DNNL_ARG_SCRATCHPAD, unbound(plan->scratchpad)}}};
  if (has_bias) made.args.emplace(DNNL_ARG_BIAS, unbound(plan->bias));
  return all.emplace(plan.get(), std::move(made)).first->second;
}

// How the work is cut: so many images and so many blocks of output channels at a time. Every part reads all of its images,
// and has its price before it begins: a part for each thread, and two where that leaves enough to do, for the case that one
// of them is held up.
struct Parts {
  int64_t images, blocks;
};
Parts parts_of(const ConvGeometry& g) {
  constexpr int64_t kWorth = 1 << 18, kPlenty = 1 << 24;  // multiply-adds a thread
  constexpr int64_t kDepthwise = 4;                       // so many multiply-adds take as long as one that uses its data once
  const int64_t blocks = blocks_of(g.out_channels), threads = num_threads();
  const int64_t sums = g.batch * g.out_channels * g.out_area() * (g.is_depthwise() ? kDepthwise : g.in_channels);
  const int64_t work = sums * g.kernel_area() / threads;
  if (threads == 1 || work < kWorth) return {g.batch, blocks};
  const int64_t parts = work < kPlenty ? threads : 2 * threads;
  if (g.batch >= threads) return {std::max<int64_t>(g.batch / parts, 1), blocks};
  return {1, (blocks + parts - 1) / parts};
}

}  // namespace

bool reads_plain_data(const ConvGeometry& g) { return g.groups == 1 && g.in_channels < 4; }

bool can_run_direct(const ConvGeometry& g) {
  if (g.groups > 1 && (!g.is_depthwise() || g.out_channels % kChannelBlock)) return false;
  try {
    // A reference implementation would be slower than the plain layout.
    const float some_bias = 0;
    return std::string_view(plan_of(g, g.batch, g.out_channels, {.bias = &some_bias})->desc.impl_info_str()).find("jit") !=
           std::string_view::npos;
  } catch (const dnnl::error&) {
    return false;
  }
}

int64_t direct_weight_elements(const ConvGeometry& g) { return static_cast<int64_t>(weight_desc(g, g.out_channels).get_size() / 4); }

void pack_direct_weight(const ConvGeometry& g, const float* weight, float* packed, const Scratch& scratch) {
  const OneDnnlThread alone;
  const memory::desc to = weight_desc(g, g.out_channels);
  const memory::desc from(to.dims(), memory::data_type::f32, g.is_depthwise() ? Tag::goihw : Tag::oihw);
  // With zeros for the channels that fill up the last blocks.
  const int64_t terms = g.in_channels / g.groups * g.kernel_area(),
                whole_terms = (g.is_depthwise() ? 1 : channels_read(g)) * g.kernel_area();
  const int64_t numbers = whole_blocks(g.out_channels) * whole_terms;
  if (numbers != g.out_channels * terms) {
    float* whole = floats(numbers, scratch);
    std::fill_n(whole, numbers, 0.0f);
    for (int64_t o = 0; o < g.out_channels; ++o) std::copy_n(weight + o * terms, terms, whole + o * whole_terms);
    weight = whole;
  }
  memory source(from, dnnl_engine(), const_cast<float*>(weight)), target(to, dnnl_engine(), packed);
  dnnl::reorder(source, target).execute(dnnl_stream(), source, target);
  dnnl_stream().wait();
}

void convolution_direct_blocked(const ConvGeometry& g, const float* data, const float* packed, const ConvEpilogue& epilogue, float* out,
                                const Scratch& scratch) {
  try {
    const int64_t blocks = blocks_of(g.out_channels), out_block = g.out_area() * kChannelBlock;
    const int64_t weight_block = direct_weight_elements(g) / blocks, in_block = g.in_area() * kChannelBlock;
    const int64_t image = reads_plain_data(g) ? g.in_channels * g.in_area() : blocks_of(g.in_channels) * in_block;
    const std::vector<float> whole_bias =
        epilogue.bias && g.out_channels % kChannelBlock ? padded_bias(epilogue.bias, g.out_channels) : std::vector<float>();
    const float* bias = whole_bias.empty() ? epilogue.bias : whole_bias.data();
    const Parts part = parts_of(g);
    const int64_t rows = (g.batch + part.images - 1) / part.images, columns = (blocks + part.blocks - 1) / part.blocks;
    const auto plan_at = [&](int64_t row, int64_t column) {
      return plan_of(g, std::min(part.images, g.batch - row * part.images),
                     std::min(part.blocks * kChannelBlock, g.out_channels - column * part.blocks * kChannelBlock), epilogue);
    };
    // Asked for before the threads start.
    const auto first_plan = plan_at(0, 0);
    const auto pad_bytes = static_cast<int64_t>(
        std::max(first_plan->scratchpad.get_size(), columns > 1 ? plan_at(0, columns - 1)->scratchpad.get_size() : size_t{0}));
    std::vector<void*> pads(rows * columns, nullptr);
    if (pad_bytes)
      for (void*& p : pads) p = scratch(pad_bytes);
    parallel_for(rows * columns, 1, [&](int64_t begin, int64_t end) {
      const OneDnnlThread alone;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t n = t / columns * part.images, b = t % columns * part.blocks;
        BoundPlan& call = bound(t == 0 ? first_plan : plan_at(t / columns, t % columns), epilogue.bias != nullptr);
        const auto set = [&](int argument, const void* p) { call.args.at(argument).set_data_handle(const_cast<void*>(p)); };
        set(DNNL_ARG_SRC, data + n * image + (g.is_depthwise() ? b * in_block : 0));
        set(DNNL_ARG_WEIGHTS, packed + b * weight_block);
        float* to = out + (n * blocks + b) * out_block;
        set(DNNL_ARG_DST, to);
        set(DNNL_ARG_SCRATCHPAD, pads[t]);
        if (bias) set(DNNL_ARG_BIAS, bias + b * kChannelBlock);
        call.plan->primitive.execute(dnnl_stream(), call.args);
        dnnl_stream().wait();
        const int64_t images = std::min(part.images, g.batch - n), width = std::min(part.blocks, blocks - b);
        for (int64_t i = 0; epilogue.relu && i < images; ++i)
          block_table().limit(width * g.out_area(), epilogue.limit, to + i * blocks * out_block);
      }
    });
  } catch (const dnnl::error& e) {
    raise<SystemError>("oneDNN refused the convolution: {}", e.what());
  }
}

}  // namespace gluino::kernels
