// differentiate against autograd on random graphs, and plans made from such graphs: no two live values overlap.
#include "passes/differentiate.h"

#include <random>

#include "base/format.h"
#include "exec/pipeline.h"
#include "gluino/autograd.h"
#include "graph/interpret.h"
#include "support/support.h"

namespace gluino::test {
namespace {

// Elementwise, broadcasting, reducing, reshaping and matrix operators over (3, 4) values.
Graph random_graph(std::mt19937_64& engine) {
  std::string text = "graph(x: float64 (3, 4), y: float64 (3, 4), w: float64 (4, 4), b: float64 (4,)) {\n";
  std::vector<std::string> values{"x", "y"};
  const int length = 2 + static_cast<int>(engine() % 12);
  for (int i = 0; i < length; ++i) {
    const std::string a = values[engine() % values.size()], c = values[engine() % values.size()], name = fmt::format("n{}", i);
    auto line = [&](const std::string& call, const std::string& of = "") {
      text += fmt::format("  {} = {}\n", of.empty() ? name : of, call);
    };
    switch (engine() % 11) {
      case 0: line("elemwise_add(" + a + ", " + c + ")"); break;
      case 1: line("elemwise_mul(" + a + ", " + c + ")"); break;
      case 2: line("tanh(" + a + ")"); break;
      case 3: line("broadcast_add(" + a + ", b)"); break;
      case 4: line("dot(" + a + ", w)"); break;
      case 5: line("softmax(" + a + ")"); break;
      case 6: line("_mul_scalar(" + a + ") {scalar=0.5}"); break;
      case 7:
        line("sum(" + a + ") {axis=\"(1,)\", keepdims=True}", name + "s");
        line("broadcast_mul(" + c + ", " + name + "s)");
        break;
      case 8:
        line("SliceChannel(" + a + ") {num_outputs=2}", name + "p");
        line("Concat(" + name + "p[1], " + name + "p[0]) {dim=1, num_args=2}");
        break;
      case 9:
        line("Reshape(" + a + ") {shape=\"(4, 3)\"}", name + "r");
        line("transpose(" + name + "r)");
        break;
      default: line("LeakyReLU(" + a + ") {act_type=elu}"); break;
    }
    values.push_back(name);
  }
  text += "  return " + values.back() + ", " + values[engine() % values.size()] + "\n}\n";
  return Graph::parse(text);
}

Tensors random_inputs(uint64_t seed) {
  Tensors in;
  for (const Shape& s : {Shape{3, 4}, Shape{3, 4}, Shape{4, 4}, Shape{4}}) in.push_back(random_tensor(s, DType::float64, seed + in.size()));
  return in;
}

TEST(Differentiate, AgreesWithTheTape) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 engine(seed);
    Graph g = random_graph(engine);
    SCOPED_TRACE(g.str());
    infer_graph(g, {}, {});
    Tensors inputs = random_inputs(seed * 10);
    const Differentiated d = differentiate(g, {0, 1, 2, 3});
    verify(d.graph);
    std::vector<Tensor> values(d.graph.nodes.size());
    Tensors heads;
    for (size_t i = 0, variable = 0; i < d.graph.nodes.size(); ++i) {
      if (!d.graph.nodes[i].is_variable()) continue;
      if (variable < 4)
        values[i] = inputs[variable];
      else
        heads.push_back(values[i] = random_tensor({3, 4}, DType::float64, seed + 77 * variable));
      ++variable;
    }
    ASSERT_EQ(heads.size(), 2u);
    const Tensors got = interpret(d.graph, values);

    std::vector<Tensor> leaves(g.nodes.size());
    for (size_t i = 0; i < 4; ++i) {
      leaves[i] = inputs[i].copy();
      leaves[i].attach_grad();
    }
    Tensors outputs;
    {
      const auto record = autograd::record();
      outputs = interpret(g, leaves);
    }
    const Tensors want = autograd::grad(outputs, {leaves[0], leaves[1], leaves[2], leaves[3]}, heads);
    size_t next = 2;
    for (size_t i = 0; i < 4; ++i) {
      const Tensor gradient = d.has_gradient[i] ? got[next++] : zeros(inputs[i].shape(), {DType::float64});
      EXPECT_TRUE(close(gradient, want[i])) << "gradient " << i << ", seed " << seed;
    }
    if (HasFailure()) return;
  }
}

// ---- plans

// Every pair of values that are alive at once lies apart, unless one was made to share the other's memory.
void expect_no_overlap(const Plan& plan) {
  for (size_t a = 0; a < plan.slots.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      const Slot &s = plan.slots[a], &t = plan.slots[b];
      if (s.kind != Slot::Kind::arena || t.kind != Slot::Kind::arena || s.root == t.root) continue;
      const Slot &r = plan.slots[s.root], &q = plan.slots[t.root];
      const bool together = r.first_step <= q.last_step && q.first_step <= r.last_step;
      const bool apart = s.offset + s.bytes <= t.offset || t.offset + t.bytes <= s.offset;
      EXPECT_TRUE(apart || !together) << "slots " << a << " and " << b << "\n" << plan.str();
    }
}

// The same asked of the steps themselves: what a step writes is not what a later step still reads as another value.
void expect_values_survive(const Plan& plan) {
  std::vector<int> owner;  // per byte of the arena: the slot whose value it holds
  owner.resize(plan.arena_bytes, -1);
  std::vector<int> value_of(plan.slots.size());
  for (size_t i = 0; i < value_of.size(); ++i) value_of[i] = static_cast<int>(i);
  auto bytes = [&](int s, auto&& f) {
    const Slot& slot = plan.slots[s];
    if (slot.kind != Slot::Kind::arena) return;
    for (int64_t i = slot.offset; i < slot.offset + slot.bytes; ++i) f(owner[i]);
  };
  for (const Step& step : plan.steps) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.op->input_spec(step.attrs, i).shape_only) continue;
      int holder = -2;
      bytes(step.inputs[i], [&](int o) { holder = holder == -2 || holder == o ? o : -3; });
      // A view has no step of its own, so its bytes belong to another slot of the same root.
      if (holder >= 0) {
        EXPECT_EQ(plan.slots[holder].root, plan.slots[step.inputs[i]].root) << step.name;
      }
      EXPECT_NE(holder, -1) << step.name << " reads memory that nothing was written to";
      EXPECT_NE(holder, -3) << step.name << " reads a value that was partly overwritten\n" << plan.str();
    }
    for (int o : step.outputs) bytes(o, [&](int& holder) { holder = o; });
  }
}

TEST(Plan, LiveValuesNeverOverlap) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 engine(seed);
    Graph g = random_graph(engine);
    infer_graph(g, {}, {});
    const Differentiated d = differentiate(g, {0, 2});
    for (const Graph* graph : std::initializer_list<const Graph*>{&g, &d.graph}) {
      const Plan plan = make_plan(*graph, false);
      SCOPED_TRACE(graph->str());
      expect_no_overlap(plan);
      expect_values_survive(plan);
      EXPECT_LE(plan.arena_bytes, 64 * static_cast<int64_t>(plan.slots.size()) + plan.unplanned_bytes);
    }
    if (HasFailure()) return;
  }
}

Plan plan_of(const std::string& text) {
  Graph g = Graph::parse(text);
  infer_graph(g, {}, {});
  return make_plan(g, false);
}

TEST(Plan, ElementwiseChainsAreComputedInPlace) {
  const Plan plan = plan_of(R"g(graph(x: float32 (16, 16), w: float32 (16, 16)) {
  a = dot(x, w)
  b = tanh(a)
  c = _plus_scalar(b) {scalar=1}
  d = dot(c, w)
  e = softmax(d)
  f = dot(e, w)
  return f
}
)g");
  EXPECT_EQ(plan.str(),
            "6 steps, arena of 2048 bytes for 5120 bytes of intermediate values\n"
            "   0 a                            -> [0, 1024)\n"
            "   1 b                            -> [0, 1024) in place\n"
            "   2 c                            -> [0, 1024) in place\n"
            "   3 d                            -> [1024, 2048)\n"
            "   4 e                            -> [1024, 2048) in place\n"
            "   5 f                            -> output of 1024 bytes\n");
}

TEST(Plan, AValueThatIsReadLaterIsNotOverwritten) {
  const Plan plan = plan_of(R"g(graph(x: float32 (16, 16)) {
  a = dot(x, x)
  b = tanh(a)
  v = Reshape(b) {shape="(256,)"}
  c = elemwise_add(b, a)
  d = dot(c, x)
  e = sum(v)
  return d, e
}
)g");
  const auto in_place = [&](size_t step) { return plan.slots[plan.steps[step].outputs[0]].root != plan.steps[step].outputs[0]; };
  EXPECT_FALSE(in_place(1)) << plan.str();  // a is read by c
  EXPECT_TRUE(in_place(2)) << plan.str();   // into a, not into b, of which v is a view
  EXPECT_EQ(plan.slots[plan.steps[2].outputs[0]].root, plan.steps[0].outputs[0]);
  EXPECT_EQ(plan.steps.size(), 5u);  // the reshape is no step
}

}  // namespace
}  // namespace gluino::test
