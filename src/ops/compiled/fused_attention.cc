// Attention in one operator. A pass makes it; see fuse_attention.
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/attention.h"
#include "ops/compiled/fused_program.h"
#include "ops/linear/matrices.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

struct FusedAttentionAttrs {
  int64_t heads = 0;
  double query_scale = 1, score_scale = 1;
  std::optional<FusedProgram> program;
  Shape scores;
  static void fields(AttrFields<FusedAttentionAttrs>& f) {
    using A = FusedAttentionAttrs;
    f.field("heads", &A::heads, "the last axis of the operands is split among so many; 0: operands are batches of matrices")
        .field("query_scale", &A::query_scale, "factor of the queries")
        .field("score_scale", &A::score_scale, "factor of the scores in softmax")
        .field("program", &A::program, "what happens to the scores x0 before softmax; x1, ... are the further inputs")
        .field("scores", &A::scores, "the shape of the scores that the further inputs broadcast to");
  }
};

static kernels::HeadLayout layout_of(const Shape& s, int64_t heads) {
  const Matrices m(s);
  return heads ? kernels::HeadLayout{m.columns, m.size(), m.columns / heads} : kernels::HeadLayout{m.columns, m.size(), 0};
}
static kernels::AttentionGeometry geometry_of(const FusedAttentionAttrs& a, const Shape& query, const Shape& key, const Shape& value,
                                              const Shape& out) {
  const Matrices q(query), k(key), v(value);
  const int64_t heads = std::max<int64_t>(a.heads, 1);
  return {.batch = q.batch,
          .heads = heads,
          .queries = q.rows,
          .keys = k.rows,
          .depth = q.columns / heads,
          .value_depth = v.columns / heads,
          .query_scale = static_cast<float>(a.query_scale),
          .score_scale = static_cast<float>(a.score_scale),
          .query = layout_of(query, a.heads),
          .key = layout_of(key, a.heads),
          .value = layout_of(value, a.heads),
          .out = layout_of(out, a.heads)};
}

// A further input of the scores' program: its part for some rows of one matrix has one row or all, one column or all.
struct ScoreOperand {
  const Tensor* tensor;
  std::vector<int64_t> strides;  // of the axes before the last two; 0 where it repeats
  int64_t rows = 1, columns = 1;

  ScoreOperand(const Tensor& t, const Shape& scores) : tensor(&t) {
    const Shape& s = t.shape();
    const int missing = scores.ndim() - s.ndim();
    if (s.ndim() > 1) rows = s[s.ndim() - 2];
    if (s.ndim() > 0) columns = s.back();
    int64_t step = rows * columns;
    strides.assign(static_cast<size_t>(scores.ndim() - 2), 0);
    for (int i = s.ndim() - 3; i >= 0; --i) {
      if (s[i] != 1) strides[i + missing] = step;
      step *= s[i];
    }
  }
  const void* part(const Shape& scores, int64_t matrix, int64_t first) const {
    int64_t offset = rows == 1 ? 0 : first * columns;
    for (int i = scores.ndim() - 3; i >= 0; matrix /= scores[i], --i) offset += matrix % scores[i] * strides[i];
    return tensor->data<float>() + offset;
  }
};

static kernels::ChangeScores score_program(const FusedAttentionAttrs& a, KernelContext& k, int64_t keys) {
  if (!a.program) return {};
  auto operands = std::make_shared<std::vector<ScoreOperand>>();
  for (int i = 3; i < k.num_inputs(); ++i) operands->emplace_back(k.in(i), a.scores);
  return [&a, operands, keys](int64_t matrix, int64_t first, int64_t rows, float* scores) {
    const Shape block{rows, keys};
    std::vector<Shape> shapes;
    for (const ScoreOperand& o : *operands) shapes.push_back({o.rows == 1 ? 1 : rows, o.columns});
    std::vector<kernels::Operand> parts{{scores, DType::float32, &block}};
    for (size_t i = 0; i < shapes.size(); ++i) parts.push_back({(*operands)[i].part(a.scores, matrix, first), DType::float32, &shapes[i]});
    kernels::run_elementwise(a.program->program(), parts, scores, DType::float32, block, a.program->loops.get());
  };
}

static Shape attention_shape(const FusedAttentionAttrs& a, std::span<const Shape> in) {
  if (in.size() < 3) raise<ShapeError>("queries, keys and values are needed");
  const Shape &query = in[0], &key = in[1], &value = in[2];
  check_same_batch(query, key);
  check_same_batch(query, value);
  const Matrices q(query), k(key), v(value);
  if (a.heads < 0 || (a.heads && (query.ndim() != 3 || q.columns % a.heads || v.columns % a.heads)))
    raise<ShapeError>("queries of shape {} and values of shape {} cannot be split among {} heads", query, value, a.heads);
  if (q.columns != k.columns || k.rows != v.rows)
    raise<ShapeError>("queries of shape {}, keys of shape {} and values of shape {} do not fit", query, key, value);
  if (a.program) {
    check_program(a.program->program(), in.size() - 2);
    const Shape& s = a.scores;
    std::vector<Shape> all(in.begin() + 3, in.end());
    all.push_back(s);
    if (s.ndim() < 2 || s.elements() != q.batch * std::max<int64_t>(a.heads, 1) * q.rows * k.rows || s.back() != k.rows ||
        s[s.ndim() - 2] != q.rows || !(broadcast_shapes(all) == s))
      raise<ShapeError>("scores of shape {} do not fit queries of shape {} and keys of shape {}", s, query, key);
  }
  return with_matrix(query, q.rows, v.columns);
}

static FusedAttentionAttrs masked_example(int64_t heads, Shape scores) {
  return {
      .heads = heads, .query_scale = 0.5, .program = AttrType<FusedProgram>::parse("", "f32 x0 x1 add(0,1)"), .scores = std::move(scores)};
}

GLUINO_OP(_fused_attention, FusedAttentionAttrs) {
  op.doc("softmax(query * key') * value, without the scores of all queries ever being written down.")
      .variadic("data")
      .kernel_dtypes({DType::float32})
      .shape(attention_shape)
      .kernel([](const FusedAttentionAttrs& a, KernelContext& k) {
        const kernels::AttentionGeometry g = geometry_of(a, k.in(0).shape(), k.in(1).shape(), k.in(2).shape(), k.out().shape());
        PoolScratch scratch(k.out().device());
        kernels::attention(g, k.data<float>(0), k.data<float>(1), k.data<float>(2), score_program(a, k, g.keys), k.out_data<float>(),
                           std::ref(scratch));
      })
      .not_differentiable("it is made after differentiation")
      .sample({{2, 3, 4}, {2, 5, 4}, {2, 5, 6}})
      .sample({{2, 3, 4}, {2, 5, 4}, {2, 5, 6}}, {.heads = 2, .score_scale = 2})
      .sample({{2, 3, 4}, {2, 5, 4}, {2, 5, 6}, {2, 1, 1, 5}}, masked_example(2, {2, 2, 3, 5}));
}

}  // namespace
}  // namespace gluino::ops
